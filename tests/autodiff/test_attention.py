"""Attention: worked numbers, PyTorch, the decomposition, masks that leak nothing, grouped heads, layouts, dropout."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor
from autodiff.functional import RowStream

attention = F.scaled_dot_product_attention


def leaf(data, dtype=np.float64):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


def leaves(*shapes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [leaf(rng.normal(size=shape), dtype) for shape in shapes]


# --- two tokens, by hand ---


@pytest.mark.parametrize(
    ("causal", "out", "dv", "dq", "dk"),
    [
        (
            False,
            [[1.660477, 2.660477], [2.339523, 3.339523]],
            [[0.669762, 0.330238], [0.330238, 0.669762]],
            [[-0.312797, 0.312797], [-0.312797, 0.312797]],
            [[-0.312797, -0.312797], [0.312797, 0.312797]],
        ),
        (
            True,
            [[1.0, 2.0], [2.339523, 3.339523]],
            [[1.0, 0.330238], [0.0, 0.669762]],
            [[0.0, 0.0], [-0.312797, 0.312797]],
            [[0.0, -0.312797], [0.0, 0.312797]],
        ),
    ],
)
def test_the_numbers_worked_by_hand(causal, out, dv, dq, dk):
    q, k, v = leaf(np.eye(2)), leaf(np.eye(2)), leaf([[1.0, 2.0], [3.0, 4.0]])
    bias = leaf(np.zeros((2, 2)))
    o = attention(q, k, v, bias, causal=causal)
    o.backward(np.eye(2))
    np.testing.assert_allclose(o.data, out, atol=5e-7)
    np.testing.assert_allclose(v.grad, dv, atol=5e-7)
    np.testing.assert_allclose(q.grad, dq, atol=5e-7)
    np.testing.assert_allclose(k.grad, dk, atol=5e-7)
    row = [-0.442362, 0.442362]  # the gradient of the scaled scores
    np.testing.assert_allclose(bias.grad, [[0.0, 0.0] if causal else row, row], atol=5e-7)


def test_the_weights_with_and_without_the_scale():
    eye = np.eye(2)  # as values, they make the output the weights
    for settings, a, b in (({}, 0.669762, 0.330238), ({"scale": 1.0}, 0.731059, 0.268941)):
        np.testing.assert_allclose(attention(eye, eye, eye, **settings), [[a, b], [b, a]], atol=5e-7)


# --- many heads ---


def merge(heads):
    """(B, H, T, d) to (B, T, H * d)."""
    return np.reshape(np.swapaxes(heads, 1, 2), (heads.shape[0], heads.shape[2], -1))


def test_heads_are_split_by_reshape_and_swap():
    x = np.arange(80.0).reshape(2, 5, 8) / 80

    def split(a):
        return a.reshape(2, 5, 2, 4).swapaxes(1, 2)

    one_by_one = [attention(x[..., i : i + 4], x[..., i : i + 4], x[..., i : i + 4], causal=True) for i in (0, 4)]
    q = split(leaf(x))
    np.testing.assert_allclose(merge(attention(q, q, q, causal=True)).data, np.concatenate(one_by_one, -1), rtol=1e-14)
    # the trap: the right shape, and features of other tokens in it
    numbers = np.arange(80).reshape(2, 5, 8)
    assert (split(numbers) != numbers.reshape(2, 2, 5, 4)).sum() == 64
    wrong = x.reshape(2, 2, 5, 4)
    assert not np.allclose(merge(attention(wrong, wrong, wrong, causal=True)), np.concatenate(one_by_one, -1))


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_a_query_head_uses_the_key_head_of_its_group(kv_heads):
    q, k, v = leaves((2, 6, 4, 3), (2, kv_heads, 5, 3), (2, kv_heads, 5, 2), seed=1)
    g = np.random.default_rng(2).normal(size=(2, 6, 4, 2))
    out = attention(q, k, v, causal=True)
    out.backward(g)
    dk, dv = np.zeros(k.shape), np.zeros(v.shape)
    for h in range(6):
        own = h // (6 // kv_heads)
        one = [leaf(q.data[:, h]), leaf(k.data[:, own]), leaf(v.data[:, own])]
        single = attention(*one, causal=True)
        single.backward(g[:, h])
        np.testing.assert_allclose(out.data[:, h], single.data, rtol=1e-13)
        np.testing.assert_allclose(q.grad[:, h], one[0].grad, rtol=1e-12, atol=1e-14)
        dk[:, own] += one[1].grad
        dv[:, own] += one[2].grad
    np.testing.assert_allclose(k.grad, dk, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(v.grad, dv, rtol=1e-12, atol=1e-14)


# --- compared with others, and with its own meaning ---


@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "bias", "bias of a head", "scale", "grouped", "no drop"])
def test_agrees_with_pytorch(kind):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    rng = np.random.default_rng(4)
    kv_heads = 2 if kind == "grouped" else 4
    arrays = [rng.normal(size=s) for s in ((3, 4, 7, 6), (3, kv_heads, 7, 6), (3, kv_heads, 7, 5))]
    g = rng.normal(size=(3, 4, 7, 5))
    settings, theirs = {}, {}
    if kind in ("causal", "grouped"):
        settings, theirs = {"causal": True}, {"is_causal": True}
    if kind == "grouped":
        theirs["enable_gqa"] = True
    if kind == "boolean":
        mask = rng.random((3, 1, 7, 7)) < 0.6
        mask[..., 0] = True  # PyTorch gives NaN where a query may attend to nothing
        arrays.append(mask)
    if kind.startswith("bias"):
        arrays.append(rng.normal(size=(4, 7, 7) if kind == "bias" else (4, 1, 1)))
    if kind == "scale":
        settings = theirs = {"scale": 0.7}
    if kind == "no drop":
        settings = {"dropout": 0.0, "rng": 1}
    ours = [leaf(a) if a.dtype == float else a for a in arrays]
    its = [torch.tensor(a, requires_grad=a.dtype == float) for a in arrays]
    out = attention(*ours, **settings)
    out.backward(g)
    expected = torch.nn.functional.scaled_dot_product_attention(*its, **theirs)
    expected.backward(torch.tensor(g))
    np.testing.assert_allclose(out.data, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    for a, b in zip(ours, its, strict=True):
        if isinstance(a, Tensor):
            np.testing.assert_allclose(a.grad, b.grad.numpy(), rtol=1e-12, atol=1e-12)


@st.composite
def calls(draw):
    """Shapes, layouts, masks and settings of a call, with its arrays."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    lead = draw(st.lists(st.integers(1, 2), max_size=1))
    heads = draw(st.sampled_from([(), (1, 1), (2, 2), (2, 1), (4, 2)]))
    queries, keys, width, values = (draw(st.integers(1, 4)) for _ in range(4))
    many, few = ([*lead, heads[0]], [*lead, heads[1]]) if heads else ([], [])
    arrays = [rng.normal(size=s) for s in ((*many, queries, width), (*few, keys, width), (*few, keys, values))]
    layout = draw(st.sampled_from(["C", "packed", "F", "reversed", "strided"]))
    if layout == "packed" and heads:  # heads as views of the features
        arrays = [np.ascontiguousarray(a.swapaxes(-3, -2)).swapaxes(-3, -2) for a in arrays]
    elif layout == "F":
        arrays = [np.asfortranarray(a) for a in arrays]
    elif layout == "reversed":
        arrays = [a[..., ::-1, ::-1] for a in arrays]
    elif layout == "strided":
        arrays = [np.repeat(a, 2, axis=-1)[..., ::2] for a in arrays]
    full = (*many, queries, keys)
    kind = draw(st.sampled_from(["none", "boolean", "bias", "minus infinity"]))
    if kind != "none":
        cut = draw(st.integers(0, len(full)))
        ones = draw(st.lists(st.booleans(), min_size=len(full) - cut, max_size=len(full) - cut))
        shape = [1 if one else side for one, side in zip(ones, full[cut:], strict=True)]
        mask = rng.random(shape) < 0.6
        if kind != "boolean":
            bias = np.asarray(rng.normal(size=shape))
            mask = bias if kind == "bias" else np.where(mask, bias, -np.inf)
        arrays.append(np.asarray(mask))
    settings = {"causal": draw(st.booleans())}
    if draw(st.booleans()):
        settings["scale"] = 0.3
    if draw(st.booleans()):
        settings |= {"dropout": 0.4, "rng": draw(st.integers(0, 99))}
    return arrays, settings, rng.normal(size=(*many, queries, values))


def recorded(arrays, settings, g):
    tensors = [ad.as_tensor(a) for a in arrays]  # as they lie in memory
    for t in tensors:
        t.requires_grad = t.dtype.kind == "f"
    out = attention(*tensors, **settings)
    out.backward(g)
    return out, [t.grad for t in tensors if t.requires_grad]


@given(calls())
def test_the_decomposition_means_the_same(call):
    arrays, settings, g = call
    before = [a.copy() for a in arrays]
    fused, gradients = recorded(arrays, settings, g)
    with ad.decompose():
        parts, expected = recorded(arrays, settings, g)
    assert (fused.node.op.name, parts.node.op.name) == ("scaled_dot_product_attention", "matmul")
    np.testing.assert_allclose(fused.data, parts.data, rtol=1e-12, atol=1e-13)
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_second_derivative_through_the_decomposition():
    q, k, v = leaves((3, 2), (3, 2), (3, 2), seed=5)
    direction = np.random.default_rng(6).normal(size=(3, 2))

    def slope(data):  # of the output's square sum, with respect to q
        t = leaf(data)
        with ad.decompose():
            y = (attention(t, k.data, v.data, causal=True) ** 2).sum()
        return ad.gradients(y, t).data

    with ad.decompose():
        y = (attention(q, k.data, v.data, causal=True) ** 2).sum()
        first = ad.gradients(y, q, create_graph=True)
        product = (first * direction).sum()
    second = ad.gradients(product, q)
    h = 1e-5
    numeric = (slope(q.data + h * direction) - slope(q.data - h * direction)) / (2 * h)
    np.testing.assert_allclose(second.data, numeric, atol=1e-8)


# --- in blocks ---


@pytest.mark.parametrize(
    ("many", "queries", "keys", "kv_heads"),
    [
        ((30, 2), 70, 70, 2), ((2, 3), 300, 300, 1), ((3,), 33, 290, 3), ((2, 4), 290, 33, 2), ((2, 1), 300, 8, 1),
        ((2, 40), 257, 129, 40), ((2, 2), 1, 99, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["causal", "none", "boolean", "bias", "bias of keys", "dropped"])
def test_many_blocks_mean_what_the_decomposition_means(many, queries, keys, kv_heads, kind):
    rng = np.random.default_rng(queries + keys)
    few = (*many[:-1], kv_heads)
    arrays = [rng.normal(size=s) for s in ((*many, queries, 3), (*few, keys, 3), (*few, keys, 2))]
    settings = {"causal": kind != "none"}
    if kind == "boolean":
        arrays.append(rng.random((*many[:-1], 1, queries, keys)) < 0.7)
    elif kind.startswith("bias"):
        arrays.append(rng.normal(size=(many[-1], queries, keys) if kind == "bias" else (*many[:-1], 1, 1, keys)))
    elif kind == "dropped":
        settings |= {"dropout": 0.3, "rng": 1}
    g = rng.normal(size=(*many, queries, 2))
    fused, gradients = recorded(arrays, settings, g)
    with ad.decompose():
        parts, expected = recorded(arrays, settings, g)
    np.testing.assert_allclose(fused.data, parts.data, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * max(1, np.abs(b).max()))


def peak_of_a_step(length):
    tensors = leaves((2, length, 8), (2, length, 8), (2, length, 8), dtype=np.float32)
    g = np.ones((2, length, 8), np.float32)
    tracemalloc.start()
    try:
        attention(*tensors, causal=True).backward(g)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_as_the_length_not_as_its_square():
    peak_of_a_step(16)  # what is made once, is made before
    short, long = peak_of_a_step(1024), peak_of_a_step(4096)
    assert long < 4.5 * short
    assert long < 2 * 4096**2 * 4 / 8  # all weights at once take eight times as much


def test_weights_computed_again_are_those_of_the_forward_however_large_the_scores():
    # Equal scores of 1e12 give weights 1/n. From the scores and the logarithm of their sum they would come out as 1:
    # beside 1e12 its log(n) is lost.
    n = 150
    q, k, v = leaf(np.full((n, 1), 1e6)), leaf(np.full((n, 1), 1e6)), leaf(np.arange(float(n))[:, None])
    out = attention(q, k, v)
    assert out.node.extra["weights"] is None
    np.testing.assert_allclose(out.data, (n - 1) / 2)
    out.backward(np.ones((n, 1)))
    np.testing.assert_allclose(v.grad, 1)


# --- masks ---


@given(
    dtype=st.sampled_from([np.float32, np.float64]),
    length=st.one_of(st.integers(2, 9), st.sampled_from([65, 150, 300])),
    size=st.sampled_from([1.0, 1e4, 1e15]),
    seed=st.integers(0, 99),
)
def test_later_tokens_do_not_change_a_bit_of_earlier_results(dtype, length, size, seed):
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(1, length))
    arrays = [rng.normal(size=(2, 2, length, 4)).astype(dtype) for _ in range(3)]
    changed = [a.copy() for a in arrays]
    for a in changed:
        a[..., cut:, :] = size * rng.normal(size=a[..., cut:, :].shape)
    first, second = attention(*arrays, causal=True), attention(*changed, causal=True)
    np.testing.assert_array_equal(first[..., :cut, :], second[..., :cut, :])
    # nor do later tokens get a gradient from earlier results: exactly none
    tensors = [leaf(a, dtype) for a in arrays]
    g = np.zeros(first.shape, dtype)
    g[..., :cut, :] = rng.normal(size=g[..., :cut, :].shape)
    attention(*tensors, causal=True).backward(g)
    for t in tensors:
        assert not t.grad[..., cut:, :].any()


def test_neither_infinity_nor_nan_gets_out_of_a_forbidden_key():
    q, k, v = (t.data for t in leaves((4, 3), (4, 3), (4, 3)))
    for poison in (np.inf, -np.inf, np.nan):
        bad = k.copy()
        bad[2] = poison
        for mask in (np.array([True, True, False, True]), np.array([[True, True, False, True]] * 4)):
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(attention(q, bad, v, mask), attention(q, k, v, mask))
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(attention(q, bad, v, causal=True)[:2], attention(q, k, v, causal=True)[:2])


@pytest.mark.parametrize("kind", ["boolean", "minus infinity"])
@pytest.mark.parametrize("decomposed", [False, True])
def test_a_query_without_any_key_gives_zeros_and_disturbs_no_other(kind, decomposed):
    allowed = np.array([[True, False, True], [False, False, False], [True, True, True]])
    mask = allowed if kind == "boolean" else leaf(np.where(allowed, 0.5, -np.inf))
    q, k, v = leaves((3, 2), (3, 2), (3, 4), seed=7)
    g = np.random.default_rng(8).normal(size=(3, 4))
    with ad.decompose() if decomposed else ad.scope("fused"):
        out = attention(q, k, v, mask)
        out.backward(g)
    assert not out.data[1].any()
    assert not q.grad[1].any()
    if kind != "boolean":
        assert not mask.grad[~allowed].any()
    without = [leaf(q.data[[0, 2]]), leaf(k.data), leaf(v.data)]
    attention(*without, allowed[[0, 2]]).backward(g[[0, 2]])
    np.testing.assert_allclose(q.grad[[0, 2]], without[0].grad, rtol=1e-12)
    np.testing.assert_allclose(k.grad, without[1].grad, rtol=1e-12)
    np.testing.assert_allclose(v.grad, without[2].grad, rtol=1e-12)


@given(queries=st.integers(0, 4), keys=st.integers(0, 4))
def test_the_last_query_sees_all_keys(queries, keys):
    allowed = np.array([[j <= i + keys - queries for j in range(keys)] for i in range(queries)], bool)
    q, k, v = leaves((queries, 3), (keys, 3), (keys, 2))
    np.testing.assert_array_equal(
        attention(q, k, v, causal=True).data, attention(q, k, v, allowed.reshape(queries, keys)).data
    )


def test_queries_behind_a_cache_get_what_they_get_in_one_piece():
    q, k, v = (t.data for t in leaves((2, 2, 6, 4), (2, 2, 6, 4), (2, 2, 6, 4)))
    whole = attention(q, k, v, causal=True)
    for count in (1, 2, 5):
        np.testing.assert_allclose(attention(q[..., -count:, :], k, v, causal=True), whole[..., -count:, :], rtol=1e-13)


def test_a_mask_and_causality_both_hold():
    q, k, v = leaves((4, 3), (4, 3), (4, 3))
    padding = np.array([False, True, True, True])
    both = np.tri(4, dtype=bool) & padding
    np.testing.assert_array_equal(attention(q, k, v, padding, causal=True).data, attention(q, k, v, both).data)
    assert not attention(q, k, v, padding, causal=True).data[0].any()


def test_the_gradients_of_the_scores_of_a_query_sum_to_zero():
    q, k, v, bias = leaves((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 5))
    attention(q, k, v, bias, causal=True).backward(np.random.default_rng(1).normal(size=(2, 3, 5, 4)))
    assert np.abs(bias.grad).max() > 0.1
    np.testing.assert_allclose(bias.grad.sum(-1), 0, atol=1e-15)


@pytest.mark.parametrize("size", [1e4, 1e15])
def test_large_scores_stay_finite(size):
    tensors = leaves((2, 4, 8), (2, 4, 8), (2, 4, 8), dtype=np.float32)
    for t in tensors[:2]:
        t.data *= np.float32(size)
    out = attention(*tensors, causal=True)
    out.sum().backward()
    assert all(np.isfinite(a).all() for a in (out.data, *(t.grad for t in tensors)))


# --- dropout ---


def test_shards_of_a_batch_drop_the_same_weights():
    q, k, v = (t.data for t in leaves((4, 2, 3, 3), (4, 2, 3, 3), (4, 2, 3, 3)))
    whole = attention(q, k, v, dropout=0.5, rng=RowStream((1, 2)))
    parts = [attention(q[i : i + 2], k[i : i + 2], v[i : i + 2], dropout=0.5, rng=RowStream((1, 2), i)) for i in (0, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_weights_are_dropped_one_by_one_and_keep_their_mean():
    eye = np.eye(40)
    weights = attention(np.zeros((30, 40, 40)), np.zeros((30, 40, 40)), np.tile(eye, (30, 1, 1)), dropout=0.25, rng=1)
    values, counts = np.unique(weights.round(12), return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / 40 / 0.75], atol=1e-11)
    assert abs(counts[0] / weights.size - 0.25) < 4 * math.sqrt(0.25 * 0.75 / weights.size)


def test_a_seed_repeats_and_a_generator_goes_on():
    arrays = [t.data for t in leaves((4, 3), (4, 3), (4, 3))]
    first = attention(*arrays, dropout=0.5, rng=3)
    np.testing.assert_array_equal(first, attention(*arrays, dropout=0.5, rng=3))
    generator = np.random.default_rng(3)
    np.testing.assert_array_equal(first, attention(*arrays, dropout=0.5, rng=generator))
    assert (attention(*arrays, dropout=0.5, rng=generator) != first).any()


# --- layout, dtype, what is saved, what is refused ---


def test_heads_split_off_by_a_view_are_merged_without_a_copy():
    packed = np.random.default_rng(0).normal(size=(2, 5, 3 * 8))
    q, k, v = (packed[..., i : i + 8].reshape(2, 5, 4, 2).swapaxes(1, 2) for i in (0, 8, 16))
    out = attention(q, k, v)
    assert np.shares_memory(merge(out), out)
    np.testing.assert_allclose(out, attention(*map(np.ascontiguousarray, (q, k, v))), rtol=1e-14)


def test_float32_stays_float32_and_mixtures_promote_as_in_numpy():
    tensors = leaves((2, 4, 3), (2, 4, 3), (2, 4, 3), (4, 4), dtype=np.float32)
    out = attention(*tensors, causal=True, dropout=0.3, rng=0, scale=0.2)
    assert out.dtype == np.float32
    assert {weights.dtype for weights in out.node.extra["weights"]} == {np.dtype(np.float32)}
    assert out.node.extra["keep"].dtype == bool
    out.backward(np.ones(out.shape))
    assert {t.grad.dtype for t in tensors} == {np.dtype(np.float32)}
    q, k, v, _ = tensors
    assert attention(q, k, v, np.zeros((4, 4))).dtype == np.float64
    assert attention(q, k, leaf(v.data)).dtype == np.float64
    ones = np.ones((2, 2), int)
    np.testing.assert_allclose(attention(ones, ones, ones), ones)


def test_only_what_a_rule_needs_is_saved():
    y = attention(*leaves((3, 2), (3, 2), (3, 2)))
    node = y.node
    assert node.out is y._values  # which the next layer holds anyway
    assert sorted(node.extra) == ["keep", "rows", "weights"]
    assert [weights.shape for weights in node.extra["weights"]] == [(1, 1, 3, 3)]
    assert node.extra["rows"] is None
    long = attention(*leaves((99, 2), (99, 2), (99, 2))).node.extra
    assert long["weights"] is None
    assert long["rows"].size == 2 * 99


@pytest.mark.parametrize("length", [5, 70])
def test_packed_heads_are_split_and_their_gradients_joined_without_a_copy_of_each(length):
    packed = leaf(np.random.default_rng(0).normal(size=(2, length, 8 * 3)))
    heads = packed.reshape(2, length, 8, 3).swapaxes(1, 2)
    q, k, v = F.split(heads, [4, 6], axis=1)
    assert all(part.data.strides == heads.data.strides for part in (q, k, v))
    joined = ad.gradients((attention(q, k, v, causal=True) ** 2).sum(), heads).data
    assert joined.swapaxes(1, 2).flags.c_contiguous  # so its reshape to the features is a view


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (3,), (0, 2), (1, 3)])
def test_a_part_of_the_gradients_is_the_same_as_all_of_them(wanted):
    everything = leaves((4, 3, 2), (2, 3, 2), (2, 3, 2), (3, 3))
    g = np.random.default_rng(0).normal(size=(4, 3, 2))
    attention(*everything, causal=True).backward(g)
    some = [Tensor(t.data, requires_grad=i in wanted) for i, t in enumerate(everything)]
    attention(*some, causal=True).backward(g)
    for i, (a, b) in enumerate(zip(some, everything, strict=True)):
        if i in wanted:
            np.testing.assert_array_equal(a.grad, b.grad)
        else:
            assert a.grad is None


def test_changed_data_are_noticed_before_the_backward_pass():
    q, k, v = leaves((3, 2), (3, 2), (3, 2))
    out = attention(q, k, v).sum()
    k.data = np.zeros((3, 2))
    with pytest.raises(RuntimeError, match="'k' of 'scaled_dot_product_attention'"):
        out.backward()


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        (((2, 3), (2, 4), (2, 3)), r"q \(2, 3\), k \(2, 4\)"),
        (((2, 3), (2, 3), (4, 3)), r"v of \(..., Hkv, Tk, dv\)"),
        (((3, 2, 3), (2, 2, 3), (2, 2, 3)), "2 key heads must divide the 3 query heads"),
        (((2, 2, 2, 3), (1, 2, 2, 3), (1, 2, 2, 3)), "got q"),
        (((2, 2, 3), (2, 3), (2, 3)), "same number of axes"),
        (((2, 3), (2, 3), (2, 3), (3, 2)), r"mask must broadcast.*\(2, 2\).*\(3, 2\)"),
        (((2, 3), (2, 3), (2, 3), (1, 2, 2)), r"mask must broadcast.*\(1, 2, 2\)"),
    ],
)
@pytest.mark.parametrize("decomposed", [False, True])
def test_shapes_that_do_not_fit_are_named(shapes, named, decomposed):
    tensors = [leaf(np.ones(shape)) for shape in shapes]
    with pytest.raises(ValueError, match=named), ad.decompose() if decomposed else ad.scope("fused"):
        attention(*tensors)


def test_a_mask_of_integers_is_refused():
    with pytest.raises(TypeError, match=r"mask must be boolean.*int64"):
        attention(np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 2), np.int64))


def test_a_senseless_dropout_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\); got 1.5"):
        attention(np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), dropout=1.5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_scale_does_not_promote(dtype):
    q = np.ones((2, 3), dtype)
    assert F.scaled_dot_product_attention(q, q, q, scale=np.float64(0.5)).dtype == dtype
    with ad.decompose():
        fused = F.scaled_dot_product_attention(Tensor(q, requires_grad=True), q, q, scale=np.float64(0.5))
    assert fused.dtype == dtype
