"""Matrix products of all shapes, and einsum with everything its notation allows."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor


def leaf(data):
    return Tensor(np.asarray(data, float), requires_grad=True)


def whole(rng, shape):
    """Floats with integer values: their sums and products are exact in any order."""
    return rng.integers(-5, 6, size=shape).astype(float)


def check_multilinear(f, shapes):
    """A function that is linear in each argument: <v, f(.., u, ..)> = <g, u> for each, exactly, and once more for g."""
    rng = np.random.default_rng(0)
    xs = [leaf(whole(rng, shape)) for shape in shapes]
    y = f(*xs)
    v = leaf(whole(rng, y.shape))
    gs = ad.gradients(y, xs, v, create_graph=True)
    for i, (x, g) in enumerate(zip(xs, gs, strict=True)):
        assert g.shape == x.shape
        u = whole(rng, x.shape)
        replaced = [x.data for x in xs]
        replaced[i] = u
        assert np.sum(v.data * f(*replaced)) == np.sum(g.data * u)
        # <g, u> = <v, f(.., u, ..)> is linear in v and the other arguments: the same identity for each of them
        seconds = ad.gradients(g, [v, *xs[:i], *xs[i + 1 :]], u)
        np.testing.assert_array_equal(seconds[0].data, f(*replaced))
        for j, second in zip([k for k in range(len(xs)) if k != i], seconds[1:], strict=True):
            w = whole(rng, xs[j].shape)
            twice = list(replaced)
            twice[j] = w
            assert np.sum(second.data * w) == np.sum(v.data * f(*twice))


# --- matmul ---


@given(mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=3, min_side=0, max_side=3))
def test_matmul_of_all_shapes(shapes):
    check_multilinear(np.matmul, shapes.input_shapes)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 2, 3), (3,)), ((1,), (2, 2, 1, 1)),
        ((2, 4, 2, 3), (3, 5)), ((5, 3), (2, 4, 3, 2)), ((2, 1, 3, 3), (4, 3, 3)), ((0, 2, 3), (3, 2)),
        ((2, 0), (3, 0, 2)), ((3, 2), (0, 2, 3)), ((2, 3), (4, 3, 0)),
    ],
)  # fmt: skip
def test_matmul_of_vectors_batches_and_empty_matrices(shapes):
    check_multilinear(lambda a, b: a @ b, shapes)


def test_a_row_vector_times_a_matrix():
    a, b = leaf([1.0, 2.0]), leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (a @ b).sum().backward()
    np.testing.assert_array_equal(a.grad, [6.0, 15.0])
    np.testing.assert_array_equal(b.grad, [[1, 1, 1], [2, 2, 2]])


def test_a_matrix_times_a_column_vector():
    a, b = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([5.0, 6.0])
    (a @ b).sum().backward()
    np.testing.assert_array_equal(a.grad, [[5, 6], [5, 6]])
    np.testing.assert_array_equal(b.grad, [4.0, 6.0])


@pytest.mark.parametrize(
    ("shapes", "weight"),
    [(((2, 3, 4, 5), (5, 6)), 1), (((5, 6), (2, 3, 6, 4)), 0), (((2, 4, 5), (5,)), 1), (((5,), (2, 5, 3)), 0)],
)
def test_a_weight_gets_its_gradient_from_one_product(shapes, weight):
    # The rule itself returns the weight's shape: no gradient for every matrix of the batch is made, to be summed later.
    a, b = (leaf(np.ones(shape)) for shape in shapes)
    y = a @ b
    for rule, needs in y.node.plan.rules:
        if rule.arguments == (weight,):
            g = rule.run(y.node, np.ones(y.shape), needs)
            assert g.shape == shapes[weight]


def test_gradients_lie_in_memory_row_by_row():
    for shapes in (((4, 3), (3, 5)), ((2, 4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5)), ((4, 3), (2, 3, 5))):
        y = np.matmul(*(leaf(np.ones(shape)) for shape in shapes))
        for rule, needs in y.node.plan.rules:
            assert rule.run(y.node, np.ones(y.shape), needs).flags.c_contiguous


def test_matmul_keeps_float32_and_takes_integers():
    a = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    y = a @ np.arange(6, dtype=np.float32).reshape(3, 2)
    assert y.dtype == np.float32
    (rule, needs), *_ = y.node.plan.rules
    assert rule.run(y.node, np.ones((2, 2), np.float32), needs).dtype == np.float32
    x = leaf(np.ones((2, 3)))
    (x @ np.arange(3)).sum().backward()
    np.testing.assert_array_equal(x.grad, [[0, 1, 2], [0, 1, 2]])


def test_matmul_with_an_array_on_the_left():
    x = leaf([1.0, 2.0, 3.0])
    y = np.ones(3) @ x
    assert type(y) is Tensor
    y.backward()
    np.testing.assert_array_equal(x.grad, [1.0, 1.0, 1.0])


def test_matmul_names_its_arguments_shapes():
    with pytest.raises(ValueError, match="mismatch") as error:
        leaf(np.ones((2, 3))) @ np.ones((2, 3))
    assert "in the op 'matmul', on arguments of shapes (2, 3), (2, 3)" in error.value.__notes__


def test_the_same_matrix_on_both_sides():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    (x @ x).sum().backward()
    np.testing.assert_array_equal(x.grad, [[7.0, 11.0], [9.0, 13.0]])


# --- einsum ---


@st.composite
def contractions(draw):
    """Subscripts with repeated labels, labels of one operand, axes of length one, and ellipses; with fitting shapes."""
    sides = {label: draw(st.integers(0, 3)) for label in "aBcd"}
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.lists(st.sampled_from("aBcd"), max_size=3))
        narrow = [label for label in labels if labels.count(label) == 1 and draw(st.integers(0, 4)) == 0]
        shape = [1 if label in narrow else sides[label] for label in labels]
        term = "".join(labels)
        if draw(st.booleans()):
            place = draw(st.integers(0, len(labels)))
            own = [draw(st.sampled_from([1, side])) for side in batch[draw(st.integers(0, len(batch))) :]]
            term, shape = term[:place] + "..." + term[place:], shape[:place] + own + shape[place:]
        terms.append(term)
        shapes.append(tuple(shape))
    subscripts = draw(st.sampled_from([",", " , "])).join(terms)
    if draw(st.booleans()):
        used = sorted(set(subscripts) & set("aBcd"))
        output = draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        if "..." in subscripts:
            output.insert(draw(st.integers(0, len(output))), "...")
        subscripts += "->" + "".join(output)
    return subscripts, shapes


@given(contractions())
def test_einsum_of_all_forms(contraction):
    subscripts, shapes = contraction
    check_multilinear(lambda *xs: np.einsum(subscripts, *xs), shapes)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,kj", [(2, 3), (4, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
        ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("iij->ji", [(2, 2, 3)]), ("ij->", [(2, 3)]), ("ba", [(2, 3)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]), ("...ij,...jk->...ik", [(2, 1, 2, 3), (3, 3, 2)]), ("i,i->", [(5,), (1,)]),
        ("ij,kl->k", [(2, 3), (4, 5)]), (",ij->ji", [(), (2, 3)]), ("bthd,bshd->bhts", [(1, 2, 2, 3), (1, 4, 2, 3)]),
    ],
)  # fmt: skip
def test_einsum_against_pytorch(subscripts, shapes):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rng = np.random.default_rng(0)
    xs = [leaf(rng.normal(size=shape)) for shape in shapes]
    theirs = [torch.tensor(x.data, requires_grad=True) for x in xs]
    y, expected = F.einsum(subscripts, *xs), torch.einsum(subscripts, *theirs)
    np.testing.assert_allclose(y.data, expected.detach().numpy(), rtol=1e-12, atol=1e-13)
    c = rng.normal(size=y.shape)
    y.backward(c)
    expected.backward(torch.tensor(c))
    for x, t in zip(xs, theirs, strict=True):
        np.testing.assert_allclose(x.grad, t.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_the_trace_has_the_identity_as_gradient():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    np.einsum("ii->", x).backward()
    np.testing.assert_array_equal(x.grad, np.eye(2))


def test_a_trace_of_unequal_sides_is_refused():
    with pytest.raises(ValueError, match="collapsing index 'i'"):
        F.einsum("ii->", leaf(np.ones((4, 2))))


def test_infinite_cotangents_stay_on_the_diagonal():
    x = leaf(np.ones((2, 2)))
    F.einsum("ii->i", x).backward([np.inf, 1.0])
    np.testing.assert_array_equal(x.grad, [[np.inf, 0.0], [0.0, 1.0]])


def test_only_what_is_needed_is_computed_and_kept():
    x, fixed = leaf(np.ones((2, 3))), Tensor(np.ones((3, 2)))
    y = F.einsum("ij,jk,ki->", x, fixed, np.ones((2, 2)))
    y.backward()
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 2.0))
    assert F.einsum("ij->ji", x).node.inputs is None


def test_a_large_product_is_planned_and_the_same():
    rng = np.random.default_rng(0)
    shapes = (40, 50), (50, 60), (60, 10)
    xs = [leaf(whole(rng, shape)) for shape in shapes]
    results = []
    for optimize in (None, False, True, "greedy"):
        y = F.einsum("ij,jk,kl->il", *xs, optimize=optimize)
        results.append([y.data, *(g.data for g in ad.gradients(y, xs, np.ones(y.shape)))])
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(one, other)


def test_all_letters_may_be_used():
    shape = (1,) * 26
    x = leaf(np.ones((2, *shape[1:])))
    y = F.einsum(f"{string.ascii_letters[:26]},...->...{string.ascii_letters[1:26]}", x, leaf(np.ones(3)))
    assert y.shape == (3, *shape[1:])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, np.full(x.shape, 3.0))


def test_einsum_needs_its_subscripts_as_a_string_or_lists():
    x = leaf(np.ones((2, 2)))
    for call in (lambda: np.einsum(x), lambda: F.einsum(x)):
        with pytest.raises(TypeError, match=r"string like 'ij,jk->ik', or a list of axis numbers behind each operand"):
            call()
    with pytest.raises(TypeError, match="dtype"):
        np.einsum("ij->ji", x, dtype=np.float32)


def test_einsum_keeps_float32():
    x, y = (Tensor(np.ones((2, 2), np.float32), requires_grad=True) for _ in range(2))
    for z in (F.einsum("ii->i", x), F.einsum("ij,jk->k", x, y)):
        assert z.dtype == np.float32
        for rule, needs in z.node.plan.rules:
            answer = rule.run(z.node, np.ones(z.shape, np.float32), needs)
            assert all(g.dtype == np.float32 for g in (answer if rule.several else [answer]))


# --- triangles ---


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (4, 3), (1, 1), (0, 2)])
@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
def test_triangles(shape, k):
    check_multilinear(lambda x: np.tril(x, k), [shape])
    check_multilinear(lambda x: np.triu(x, k=k), [shape])


def test_an_infinite_cotangent_outside_of_the_triangle_is_dropped():
    x = leaf([[1.0, -np.inf], [2.0, 3.0]])
    y = np.tril(x)
    assert y.tolist() == [[1.0, 0.0], [2.0, 3.0]]
    y.backward([[1.0, np.inf], [1.0, 1.0]])
    np.testing.assert_array_equal(x.grad, [[1.0, 0.0], [1.0, 1.0]])
    x.grad = None
    np.triu(x).backward([[1.0, 2.0], [np.inf, 3.0]])
    np.testing.assert_array_equal(x.grad, [[1.0, 2.0], [0.0, 3.0]])


def test_triangles_of_vectors_are_refused():
    for f in (np.tril, np.triu):
        with pytest.raises(ValueError, match=r"m needs at least two; its shape is \(3,\)"):
            f(leaf(np.ones(3)))
