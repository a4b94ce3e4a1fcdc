"""The switches: what they change, and that they always change it back."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, modes


@pytest.fixture
def x():
    return Tensor([1.0, 2.0], requires_grad=True)


def test_no_grad_records_nothing(x):
    with ad.no_grad():
        assert not (x * x).requires_grad
    assert (x * x).requires_grad


def test_no_grad_stays_off_after_a_decorated_call(x):
    @ad.no_grad()
    def evaluate():
        return x * x

    with ad.no_grad():
        assert not evaluate().requires_grad
        assert not (x * x).requires_grad
    assert not evaluate().requires_grad
    assert (x * x).requires_grad


def test_an_exception_restores_the_mode(x):
    with pytest.raises(KeyError), ad.no_grad(), ad.decompose(), ad.scope("a"):
        raise KeyError
    assert modes.current() == modes.Mode()


def test_one_switch_can_be_entered_again_and_shared(x):
    switch = ad.no_grad()
    with switch:
        with switch:
            assert not modes.current().record
        assert not modes.current().record
    assert modes.current().record


def test_a_decorated_generator_never_changes_its_callers_mode(x):
    @ad.no_grad()
    def squares():
        received = yield (x * x).requires_grad
        yield received, (x * x).requires_grad

    generator = squares()
    assert next(generator) is False
    assert (x * x).requires_grad
    assert generator.send("hello") == ("hello", False)
    assert (x * x).requires_grad
    generator.close()
    assert modes.current() == modes.Mode()


def test_a_decorated_generator_passes_exceptions_and_its_result():
    @ad.scope("inside")
    def generator():
        try:
            yield 1
        except ValueError:
            yield modes.current().scope
        return "result"

    g = generator()
    next(g)
    assert g.throw(ValueError) == "inside"
    with pytest.raises(StopIteration) as stop:
        next(g)
    assert stop.value.value == "result"


def test_a_closed_generator_runs_its_clean_up_in_its_mode():
    seen = []

    @ad.no_grad()
    def generator():
        try:
            yield
        finally:
            seen.append(modes.current().record)

    g = generator()
    next(g)
    g.close()
    assert seen == [False]


def test_asynchronous_functions_are_refused():
    async def f():
        pass

    with pytest.raises(TypeError, match="asynchronous"):
        ad.no_grad()(f)


def test_a_mode_does_not_reach_another_thread(x):
    seen = []
    with ad.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * x).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True]


def test_decompose_records_primitives_with_the_same_values(x):
    fused = F.softmax(x)
    with ad.decompose():
        parts = F.softmax(x)
    assert fused.node.op.name == "softmax"
    assert parts.node.op.decomposed is None
    assert parts.node.scope == "softmax"
    np.testing.assert_allclose(fused.data, parts.data, rtol=1e-15)


def test_a_decomposition_gets_arrays_where_lists_were_given():
    q = Tensor(np.eye(2)[None], requires_grad=True)
    mask = [[True, False], [True, True]]
    fused = F.scaled_dot_product_attention(q, q, q, mask)
    with ad.decompose():
        np.testing.assert_allclose(F.scaled_dot_product_attention(q, q, q, mask).data, fused.data, rtol=1e-15)


def test_scopes_are_kept_by_the_nodes(x):
    with ad.scope("blocks"), ad.scope("0"):
        inside = x * x
    assert inside.node.scope == "blocks.0"
    assert (x * x).node.scope == ""


def test_a_switch_goes_by_the_mode_that_it_is_entered_from(x):
    inner = ad.scope("inner")
    for outer, path in (("a", "a.inner"), ("b", "b.inner"), ("b", "b.inner")):
        with ad.scope(outer), inner:
            assert (x * x).node.scope == path
    with inner:
        assert (x * x).node.scope == "inner"
    with ad.no_grad(), inner:
        assert (x * x).node is None


def test_scope_is_a_decorator(x):
    @ad.scope("f")
    def f():
        return x * x

    assert f().node.scope == "f"
    assert f.__name__ == "f"
