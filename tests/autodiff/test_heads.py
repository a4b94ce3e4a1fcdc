"""Splitting features into heads and joining them: which feature of which position goes where, and as views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


@given(
    lead=st.lists(st.integers(0, 3), max_size=2),
    length=st.integers(0, 4),
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(sum),
    width=st.integers(0, 3),
)
def test_every_feature_of_every_position(lead, length, counts, width):
    x = np.arange(np.prod([*lead, length, sum(counts) * width], dtype=int), dtype=float)
    x = x.reshape(*lead, length, sum(counts) * width)
    parts = F.split_heads(x, counts=counts)
    assert [part.shape for part in parts] == [(*lead, count, length, width) for count in counts]
    heads = [part[..., i, :, :] for part, count in zip(parts, counts, strict=True) for i in range(count)]
    for n, head in enumerate(heads):
        np.testing.assert_array_equal(head, x[..., n * width : (n + 1) * width])
    np.testing.assert_array_equal(F.merge_heads(np.concatenate(parts, axis=-3)), x)


def test_not_the_reshape_that_fits_too():
    x = np.arange(80).reshape(2, 5, 8)
    (heads,) = F.split_heads(x, counts=[2])
    assert (heads == x.reshape(2, 2, 5, 4)).sum() == 16  # of 80 entries


def test_nothing_is_copied_on_the_way_to_attention_and_back():
    x = np.arange(48.0).reshape(2, 3, 8)
    parts = F.split_heads(x, counts=(2, 1, 1))
    assert all(np.shares_memory(part, x) for part in parts)
    (heads,) = F.split_heads(x, counts=(4,))
    assert np.shares_memory(F.merge_heads(heads), x)


def test_part_that_is_not_used_gets_zeros():
    x = Tensor(np.ones((3, 6)), requires_grad=True)
    q, _, v = F.split_heads(x, counts=(1, 1, 1))
    (2 * q.sum() + 3 * v.sum()).backward()
    assert x.grad.tolist() == [[2, 2, 0, 0, 3, 3]] * 3


def test_results_of_a_leaf_are_noticed_when_it_changes():
    x = Tensor(np.ones((3, 4)), requires_grad=True)
    q, k = F.split_heads(x, counts=(1, 1))
    y = (q * k).sum()
    x.data[...] = 2.0
    x.stamp()
    with pytest.raises(RuntimeError, match="changed"):
        y.backward()


def test_counts_of_narrow_integers_do_not_wrap():
    parts = F.split_heads(np.ones((1, 300)), counts=(np.uint8(200), np.uint8(100)))
    assert [part.shape for part in parts] == [(200, 1, 1), (100, 1, 1)]
    with pytest.raises(ValueError, match="counts of heads"):
        F.split_heads(np.ones((1, 88)), counts=(np.uint8(200), np.uint8(100)))


@pytest.mark.parametrize("counts", [3, np.array([2, 2]), "ab", (2.0, 2.0), ("a",)])
def test_counts_are_a_list(counts):
    with pytest.raises(TypeError, match="counts must be a list or tuple"):
        F.split_heads(np.ones((3, 4)), counts=counts)


@pytest.mark.parametrize(("shape", "counts"), [((3, 4), (3,)), ((4,), (2,)), ((3, 4), (5, -1)), ((3, 4), ())])
def test_what_cannot_be_split(shape, counts):
    with pytest.raises(ValueError, match=r"counts of heads, N together; got \("):
        F.split_heads(np.ones(shape), counts=counts)


def test_what_cannot_be_merged():
    with pytest.raises(ValueError, match=r"\(\.\.\., N, T, d\), got \(2, 3\)"):
        F.merge_heads(Tensor(np.ones((2, 3))))


def test_in_primitives():
    x = Tensor(np.ones((2, 3, 4)), requires_grad=True)
    with ad.decompose():
        y = F.merge_heads(F.split_heads(x, counts=(2, 2))[0])
    assert y.node.op.name == "reshape"
