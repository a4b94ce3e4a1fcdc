"""The affine map: worked numbers, PyTorch, layouts, tied weights, what is saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


def test_the_output_layer_worked_by_hand():
    h = leaf([[1.0, 2.0]])
    w = leaf([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    z = F.linear(h, w)
    assert z.tolist() == [[1.0, 2.0, 3.0]]
    p = np.exp(z.data) / np.exp(z.data).sum()
    z.backward(p - [[0.0, 0.0, 1.0]])  # softmax and cross-entropy for class 2
    np.testing.assert_allclose(w.grad, [[0.090031, 0.244728, -0.334759], [0.180061, 0.489457, -0.669518]], atol=5e-7)
    np.testing.assert_allclose(h.grad, [[-0.244728, -0.090031]], atol=5e-7)


sides = st.integers(0, 4)


@given(
    lead=st.lists(st.integers(0, 3), max_size=3),
    inputs=sides,
    outputs=sides,
    with_bias=st.booleans(),
    layout=st.sampled_from(["C", "F", "reversed", "strided"]),
    seed=st.integers(0, 99),
)
def test_every_shape_and_layout_agrees_with_the_sums_written_out(lead, inputs, outputs, with_bias, layout, seed):
    rng = np.random.default_rng(seed)

    def made(*shape):
        array = rng.normal(size=shape)
        if layout == "F":
            return np.asfortranarray(array)
        if layout == "reversed":
            return array[..., ::-1]
        return np.repeat(array, 2, axis=-1)[..., ::2] if layout == "strided" else array

    x, w, b, g = made(*lead, inputs), made(inputs, outputs), made(outputs), made(*lead, outputs)
    tensors = [ad.as_tensor(a) for a in (x, w, b)]  # as_tensor keeps the layout
    for t in tensors:
        t.requires_grad = True
    y = F.linear(*tensors) if with_bias else F.linear(*tensors[:2])
    y.backward(g)
    np.testing.assert_allclose(y.data, np.einsum("...i,io->...o", x, w) + (b if with_bias else 0), atol=1e-12)
    np.testing.assert_allclose(tensors[0].grad, np.einsum("...o,io->...i", g, w), atol=1e-12)
    axes = tuple(range(len(lead)))
    np.testing.assert_allclose(tensors[1].grad, (x[..., :, None] * g[..., None, :]).sum(axes), atol=1e-12)
    if with_bias:
        np.testing.assert_allclose(tensors[2].grad, g.sum(axes), atol=1e-12)
    else:
        assert tensors[2].grad is None


def test_agrees_with_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(3, 5, 4)), rng.normal(size=(4, 6)), rng.normal(size=6)
    g = rng.normal(size=(3, 5, 6))
    ours = [leaf(a) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = F.linear(*ours)
    y.backward(g)
    expected = torch.nn.functional.linear(theirs[0], theirs[1].T, theirs[2])
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(y.data, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad, its.grad.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
def test_the_decomposition_means_the_same(shape):
    rng = np.random.default_rng(1)
    arrays = rng.normal(size=shape), rng.normal(size=(4, 2)), rng.normal(size=2)
    fused, parts = [leaf(a) for a in arrays], [leaf(a) for a in arrays]
    y = F.linear(*fused)
    with ad.decompose():
        z = F.linear(*parts)
    assert (y.node.op.name, z.node.op.name) == ("linear", "add")
    g = rng.normal(size=y.shape)
    y.backward(g)
    z.backward(g)
    np.testing.assert_allclose(y.data, z.data, rtol=1e-12, atol=1e-14)
    for a, b in zip(fused, parts, strict=True):
        np.testing.assert_allclose(a.grad, b.grad, rtol=1e-12, atol=1e-14)


def test_a_tied_table_gets_the_look_up_part_and_the_head_part():
    rng = np.random.default_rng(2)
    table, ids, g = leaf(rng.normal(size=(5, 3))), np.array([[1, 4, 1]]), rng.normal(size=(1, 3, 5))
    h = F.embedding(table, ids)
    F.linear(h, table.T).backward(g)
    e = table.data
    expected = np.einsum("btv,bti->vi", g, e[ids])  # as a head
    np.add.at(expected, ids, g @ e)  # as a table
    np.testing.assert_allclose(table.grad, expected, rtol=1e-12)


def test_a_transposed_weight_is_not_copied_and_its_gradient_lies_as_it_does():
    table = leaf(np.ones((5, 3)))
    x = leaf(np.ones((2, 3)))
    w = table.T
    y = F.linear(x, w)
    assert np.shares_memory(y.node.inputs[1], table.data)
    g = ad.gradients(y, w, np.ones((2, 5)))
    assert g.data.flags.f_contiguous


def test_only_what_a_rule_needs_is_saved():
    x, w, b = np.ones((2, 3)), np.ones((3, 4)), np.ones(4)
    assert F.linear(leaf(x), Tensor(w), Tensor(b)).node.inputs[0] is None  # dX needs W alone
    assert F.linear(Tensor(x), leaf(w), Tensor(b)).node.inputs[1] is None  # dW needs X alone
    assert F.linear(Tensor(x), Tensor(w), leaf(b)).node.inputs is None


def test_float32_stays_float32_and_mixtures_promote_as_in_numpy():
    x, w, b = leaf(np.ones((2, 3)), np.float32), leaf(np.ones((3, 4)), np.float32), leaf(np.ones(4), np.float32)
    y = F.linear(x, w, b)
    assert y.dtype == np.float32
    y.backward(np.ones((2, 4)))
    assert {t.grad.dtype for t in (x, w, b)} == {np.dtype(np.float32)}
    assert F.linear(x, w, leaf(np.ones(4))).dtype == np.float64
    assert F.linear(np.ones((1, 2), int), np.ones((2, 2), int), np.full(2, 0.5)).tolist() == [[2.5, 2.5]]


def test_a_wrong_width_is_named():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 5\)"):
        F.linear(np.ones((2, 3)), np.ones((4, 5)))
    with pytest.raises(ValueError, match=r"bias must have the shape \(5,\).*\(1,\)"):
        F.linear(np.ones((2, 4)), np.ones((4, 5)), np.ones(1))
    with ad.decompose(), pytest.raises(ValueError, match="bias"):
        F.linear(leaf(np.ones((2, 4))), np.ones((4, 5)), np.ones(1))
