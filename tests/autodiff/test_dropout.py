"""Dropout: what is dropped, where the masks come from, and streams that do not depend on how a batch is split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.functional import RowStream


def ones(*shape, dtype=np.float64):
    return Tensor(np.ones(shape, dtype), requires_grad=True)


@given(p=st.sampled_from([0.1, 0.25, 0.5, 0.9]), shape=st.lists(st.integers(0, 4), max_size=3), seed=st.integers(0, 99))
def test_the_gradient_passes_where_the_value_did(p, shape, seed):
    rng = np.random.default_rng(seed)
    x = Tensor(rng.uniform(1, 2, shape), requires_grad=True)
    g = rng.normal(size=shape)
    y = F.dropout(x, p=p, rng=seed)
    y.backward(g)
    kept = y.data != 0
    np.testing.assert_allclose(y.data, np.where(kept, x.data / (1 - p), 0), rtol=1e-14)
    np.testing.assert_allclose(x.grad, np.where(kept, g / (1 - p), 0), rtol=1e-14)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_a_share_of_p_is_dropped_and_the_mean_stays(p):
    n = 100_000
    y = F.dropout(np.ones(n), p=p, rng=3)
    spread = np.sqrt(p * (1 - p) / n)
    assert abs((y == 0).mean() - p) < 4 * spread
    assert abs(y.mean() - 1) < 4 * spread / (1 - p)


def test_without_dropping_the_result_is_the_argument():
    x = ones(2, 3)
    y = F.dropout(x, p=0)
    assert np.shares_memory(x.data, y.data)
    assert not y.data.flags.writeable  # else writing to it would change x
    y.backward(np.full((2, 3), 5.0))
    assert (x.grad == 5).all()


def test_an_int_gives_the_same_mask_and_a_generator_goes_on():
    x = np.ones(50)
    np.testing.assert_array_equal(F.dropout(x, p=0.5, rng=1), F.dropout(x, p=0.5, rng=1))
    assert (F.dropout(x, p=0.5, rng=1) != F.dropout(x, p=0.5, rng=2)).any()
    generator, twin = np.random.default_rng(1), np.random.default_rng(1)
    first, second = F.dropout(x, p=0.5, rng=generator), F.dropout(x, p=0.5, rng=generator)
    assert (first != second).any()
    np.testing.assert_array_equal(first, F.dropout(x, p=0.5, rng=twin))
    assert (F.dropout(np.ones(200), p=0.5) != F.dropout(np.ones(200), p=0.5)).any()  # a fresh seed each time


def test_the_global_state_is_neither_used_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = F.dropout(np.ones(200), p=0.5)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    assert (F.dropout(np.ones(200), p=0.5) != first).any()


@pytest.mark.parametrize("source", [lambda: 5, lambda: np.random.default_rng(5), lambda: RowStream((5, 0))])
def test_the_decomposition_draws_the_same_mask(source):
    rng = np.random.default_rng(0)
    data, g = rng.normal(size=(2, 4, 3))
    a, b = Tensor(data, requires_grad=True), Tensor(data, requires_grad=True)
    fused = F.dropout(a, p=0.4, rng=source())
    with ad.decompose():
        parts = F.dropout(b, p=0.4, rng=source())
    assert (fused.node.op.name, parts.node.op.name) == ("dropout", "multiply")
    fused.backward(g)
    parts.backward(g)
    np.testing.assert_array_equal(fused.data, parts.data)
    np.testing.assert_array_equal(a.grad, b.grad)
    with ad.decompose():
        assert F.dropout(a, p=0.0) is a


def test_the_mask_does_not_depend_on_the_dtype():
    single, double = F.dropout(ones(99, dtype=np.float32), p=0.3, rng=4), F.dropout(ones(99), p=0.3, rng=4)
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(single.data == 0, double.data == 0)
    assert F.dropout(np.ones(9, int), p=0.3, rng=4).dtype == np.float64


def test_float32_stays_float32_in_the_gradient():
    x = ones(4, 5, dtype=np.float32)
    F.dropout(x, p=0.5, rng=0).sum().backward()
    assert x.grad.dtype == np.float32


def test_a_byte_for_each_entry_is_saved_and_not_the_argument():
    node = F.dropout(ones(4, 5), p=0.5, rng=0).node
    assert node.inputs is None
    assert node.extra["keep"].nbytes == 20


def test_a_scalar_can_be_dropped():
    results = {F.dropout(np.float64(3.0), p=0.5, rng=seed).item() for seed in range(20)}
    assert results == {0.0, 6.0}


@pytest.mark.parametrize("p", [1, 1.0, -0.1, 2.0, np.nan])
def test_a_senseless_probability_is_refused(p):
    with pytest.raises(ValueError, match=r"\[0, 1\); got"):
        F.dropout(np.ones(3), p=p, rng=0)


@pytest.mark.parametrize("rng", ["seed", 0.5, [1, 2]])
def test_a_source_that_is_none_is_refused(rng):
    with pytest.raises(TypeError, match=f"rng must be.*{type(rng).__name__}"):
        F.dropout(np.ones(3), p=0.5, rng=rng)


# --- streams by row ---


@given(
    rows=st.integers(0, 6),
    cut=st.integers(0, 6),
    first=st.sampled_from([0, 1, 1000, 2**40]),
    shape=st.lists(st.integers(0, 3), max_size=2),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_shards_draw_what_the_whole_batch_draws(rows, cut, first, shape, dtype):
    cut = min(cut, rows)
    key = (7, 3, 2)
    whole = RowStream(key, first).random((rows, *shape), dtype)
    upper = RowStream(key, first).random((cut, *shape), dtype)
    lower = RowStream(key, first + cut).random((rows - cut, *shape), dtype)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(np.concatenate([upper, lower]), whole)


def test_dropout_of_shards_is_dropout_of_the_batch():
    x = np.ones((6, 4, 3))
    whole = F.dropout(x, p=0.5, rng=RowStream((1, 2)))
    parts = [F.dropout(x[i : i + 2], p=0.5, rng=RowStream((1, 2), i)) for i in (0, 2, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_stream_keeps_no_state():
    stream = RowStream((1,))
    np.testing.assert_array_equal(stream.random((3, 4)), stream.random((3, 4)))


def test_keys_that_look_alike_give_different_numbers():
    keys = [(), (0,), (1,), (0, 0), (1, 0), (0, 1), (2**32,), (2**64,), (-1,), (10,), (1, 0, 0)]
    draws = {RowStream(key).random(2).tobytes() for key in keys}
    assert len(draws) == len(keys)
    assert RowStream((np.int64(1), 2)).random(2).tobytes() == RowStream((1, 2)).random(2).tobytes()


def test_the_numbers_are_uniform_and_rows_uncorrelated():
    draws = RowStream((3, 1)).random((200, 500))
    assert 0 <= draws.min() < 1e-3
    assert 1 - 1e-3 < draws.max() < 1
    counts = np.histogram(draws, 20, (0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # chi-square with 19 degrees of freedom, p = 0.001
    correlations = np.corrcoef(draws)[np.triu_indices(200, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(500)
    assert abs(correlations.mean()) < 4 / np.sqrt(500 * len(correlations))
    neighbours = np.concatenate([RowStream((3, step)).random((1, 500)) for step in range(100)])
    assert np.abs(np.corrcoef(neighbours)[np.triu_indices(100, 1)]).max() < 5 / np.sqrt(500)


def test_the_numbers_are_the_same_everywhere():
    # recorded once: a run must be reproducible on another machine, and by a later version
    double = RowStream((1, 2, 3), 4).random((2, 3))
    assert (double.ravel() * 2**32).astype(int).tolist() == [
        2047204189, 1925448953, 1390517440, 4243734339, 2070756035, 2738147362,
    ]  # fmt: skip
    single = RowStream((1, 2, 3), 4).random((2, 3), np.float32)
    assert (single.ravel() * 2**24).astype(int).tolist() == [1188471, 7996891, 12922978, 18265, 16577087, 3508994]


def test_one_axis_is_enough_and_none_is_not():
    assert RowStream((1,)).random(3).shape == (3,)
    with pytest.raises(ValueError, match="at least one axis"):
        RowStream((1,)).random(())


def test_bad_keys_and_rows_are_refused():
    with pytest.raises(TypeError):
        RowStream((1.5,))
    with pytest.raises(ValueError, match="first_row must be at least 0, got -1"):
        RowStream((1,), -1)
    assert repr(RowStream((1, 2), 3)) == "RowStream((1, 2), first_row=3)"
