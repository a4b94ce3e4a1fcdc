"""Look-up of rows: sums over repeated ids, exact zeros elsewhere, and ids that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


def table_of(rows, width, seed=0, dtype=np.float64):
    return Tensor(np.random.default_rng(seed).normal(size=(rows, width)).astype(dtype), requires_grad=True)


def test_a_row_used_twice_gets_the_sum_and_an_unused_one_nothing():
    table = Tensor(np.zeros((3, 2)), requires_grad=True)
    F.embedding(table, [0, 2, 0]).backward(np.ones((3, 2)))
    assert table.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


@given(
    rows=st.integers(1, 6),
    width=st.integers(0, 3),
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from([np.int8, np.uint8, np.int64, np.uint64, ">i4"]),
    layout=st.sampled_from(["C", "F", "reversed"]),
    seed=st.integers(0, 99),
)
def test_agrees_with_a_product_by_one_hot_rows(rows, width, shape, dtype, layout, seed):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, rows, shape).astype(dtype)
    g = rng.normal(size=(*shape, width))
    if layout == "F":
        ids, g = np.array(ids, order="F"), np.array(g, order="F")
    elif layout == "reversed":
        g = g[..., ::-1]
    table = table_of(rows, width, seed)
    y = F.embedding(table, ids)
    y.backward(g)
    one_hot = np.eye(rows)[ids.astype(int)]
    np.testing.assert_allclose(y.data, one_hot @ table.data, atol=1e-14)
    np.testing.assert_allclose(table.grad, np.tensordot(one_hot, g, (range(len(shape)), range(len(shape)))), atol=1e-13)
    unused = np.setdiff1d(np.arange(rows), ids)
    assert not table.grad[unused].any()


def test_agrees_with_pytorch_at_the_size_of_a_real_vocabulary():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    rng = np.random.default_rng(3)
    table = table_of(50257, 4)
    ids = np.minimum(rng.zipf(1.2, size=(8, 96)), 50257) - 1  # as words are distributed, so some repeat often
    g = rng.normal(size=(8, 96, 4))
    theirs = torch.tensor(table.data, requires_grad=True)
    expected = torch.nn.functional.embedding(torch.tensor(ids), theirs)
    expected.backward(torch.tensor(g))
    y = F.embedding(table, ids)
    y.backward(g)
    np.testing.assert_array_equal(y.data, expected.detach().numpy())
    np.testing.assert_allclose(table.grad, theirs.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_the_decomposition_means_the_same():
    a, b = table_of(5, 3), table_of(5, 3)
    ids = np.array([[0, 4, 4], [2, 0, 4]])
    fused = F.embedding(a, ids)
    with ad.decompose():
        parts = F.embedding(b, Tensor(ids))
    assert parts.node.op.name == "take"
    g = np.random.default_rng(1).normal(size=(2, 3, 3))
    fused.backward(g)
    parts.backward(g)
    np.testing.assert_array_equal(fused.data, parts.data)
    np.testing.assert_allclose(a.grad, b.grad, rtol=1e-12)


def test_the_cotangent_is_left_alone():
    table, g = table_of(3, 2), np.ones((3, 2))
    F.embedding(table, [1, 1, 1]).backward(g)
    assert (g == 1).all()
    assert table.grad.tolist() == [[0, 0], [3, 3], [0, 0]]


def test_one_id_gives_one_row():
    table = table_of(4, 3)
    for one in (2, np.int64(2), np.array(2), Tensor(2)):
        row = F.embedding(table, one)
        np.testing.assert_array_equal(row.data, table.data[2])
    row.sum().backward()
    assert table.grad.sum(axis=1).tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize("ids", [[], np.zeros((0,), int), np.zeros((2, 0), int)])
def test_no_ids_give_no_rows(ids):
    table = table_of(4, 3)
    y = F.embedding(table, ids)
    assert y.shape == (*np.shape(ids), 3)
    y.sum().backward()
    assert (table.grad == 0).all()


def test_the_gradient_of_float32_is_float32():
    table = table_of(4, 3, dtype=np.float32)
    y = F.embedding(table, [1, 1])
    y.sum().backward()
    assert y.dtype == table.grad.dtype == np.float32


def test_the_table_itself_is_not_saved():
    table = table_of(4, 3)
    y = F.embedding(table, [1])
    assert y.node.inputs[0] is None


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([[0, 1], [2, 5]], r"id 5 at position \(1, 1\).*V = 4"),
        ([3, -1, 0], r"id -1 at position \(1,\).*V = 4"),
        (4, r"id 4 is outside.*V = 4"),
        (np.array([2**63], np.uint64), r"id 9223372036854775808 at position \(0,\)"),
    ],
)
def test_an_id_outside_the_table_is_named_and_never_wraps_around(ids, named, decomposed):
    with ad.decompose() if decomposed else ad.scope("fused"), pytest.raises(ValueError, match=named):
        F.embedding(table_of(4, 3), ids)


@pytest.mark.parametrize(("dtype", "rows"), [(np.int8, 300), (np.int16, 50257), (">i2", 50257), (np.int8, 128)])
def test_negative_ids_of_narrow_types_do_not_reach_the_end_of_a_large_table(dtype, rows):
    table = table_of(rows, 1)
    assert F.embedding(table, np.array([127], dtype)).data == table.data[127]
    for wrong in (-1, -100, np.iinfo(dtype).min):
        with pytest.raises(ValueError, match=f"id {wrong} at position"):
            F.embedding(table, np.array([2, wrong], dtype))


@pytest.mark.parametrize("ids", [[0.0, 1.0], [True, False], 1.0])
def test_ids_that_are_not_integers_are_refused(ids):
    with pytest.raises(TypeError, match="ids must be integers"):
        F.embedding(table_of(4, 3), ids)


def test_a_table_that_is_not_a_matrix_is_refused():
    with pytest.raises(ValueError, match=r"\(V, d\), got \(3,\)"):
        F.embedding(Tensor([1.0, 2.0, 3.0]), [0])
