"""The choice of the next token: filters, their order and borders, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpt.sample import distribution, next_token

logits = st.floats(-30, 30) | st.sampled_from([-math.inf, 0.0, 1.0])
rows = arrays(np.float64, st.integers(1, 12), elements=logits).filter(lambda z: z.max() > -math.inf)
temperatures = st.just(0.0) | st.floats(1e-320, 1e-300) | st.floats(0.01, 100)
top_ks = st.none() | st.integers(0, 15)
top_ps = st.none() | st.floats(1e-9, 1.0)


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


@given(rows, temperatures, top_ks, top_ps, st.integers(0, 99))
def test_whatever_the_settings_a_possible_token_is_drawn_from_a_distribution(z, temperature, top_k, top_p, seed):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    p = distribution(z, **settings)
    assert p.shape == z.shape
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    assert p[np.argmax(z)] > 0
    if top_k:
        assert (p > 0).sum() <= top_k
    assert not p[z == -math.inf].any()
    token = next_token(z, **settings, rng=seed)
    assert type(token) is int
    assert p[token] > 0


@given(rows, st.floats(0.05, 20))
def test_without_filters_it_is_the_softmax(z, temperature):
    np.testing.assert_allclose(distribution(z, temperature=temperature), softmax(z / temperature), rtol=1e-9)
    for off in ({"top_k": 0}, {"top_k": None}, {"top_k": len(z)}, {"top_k": 10**9}, {"top_p": 1.0}, {"top_p": 1}):
        np.testing.assert_array_equal(distribution(z, **off), distribution(z))


@given(rows, temperatures)
def test_temperature_zero_and_top_k_one_are_greedy_with_the_lowest_id(z, temperature):
    expected = np.zeros(len(z))
    expected[np.argmax(z)] = 1
    np.testing.assert_array_equal(distribution(z, temperature=0), expected)
    np.testing.assert_array_equal(distribution(z, temperature=0.01, top_k=1, top_p=0.8), expected)
    np.testing.assert_array_equal(distribution(z, temperature=temperature, top_k=1), expected)
    assert {next_token(z, temperature=0, rng=seed) for seed in range(5)} == {int(np.argmax(z))}


@given(rows, st.integers(1, 12))
def test_top_k_keeps_the_k_likeliest_and_their_proportions(z, k):
    p, full = distribution(z, top_k=k), distribution(z)
    order = sorted(range(len(z)), key=lambda i: (-full[i], i))
    kept = order[:k]
    assert not p[order[k:]].any()
    if k > 1:
        np.testing.assert_allclose(p[kept], full[kept] / full[kept].sum(), rtol=1e-9)


@given(rows, st.floats(0.01, 0.99))
def test_top_p_keeps_the_fewest_that_reach_it(z, top_p):
    p, full = distribution(z, top_p=top_p), distribution(z)
    order = sorted(range(len(z)), key=lambda i: (-full[i], i))
    cumulative = np.cumsum(full[order])
    assume(np.abs(cumulative - top_p).min() > 1e-9)
    count = 1 + int((cumulative < top_p).sum())
    assert not p[order[count:]].any()
    np.testing.assert_allclose(p[order[:count]], full[order[:count]] / cumulative[count - 1], rtol=1e-9)


def test_top_p_acts_on_what_top_k_left():
    z = np.log([0.4, 0.3, 0.2, 0.1])
    # of the first two, renormalised to 4/7 and 3/7, one alone reaches 0.5; of all four, two would be needed
    np.testing.assert_allclose(distribution(z, top_k=2, top_p=0.5), [1, 0, 0, 0])
    np.testing.assert_allclose(distribution(z, top_p=0.5), [4 / 7, 3 / 7, 0, 0])


def test_equal_logits_are_cut_at_the_lowest_ids():
    np.testing.assert_allclose(distribution([1.0, 2.0, 2.0, 2.0], top_k=2), [0, 0.5, 0.5, 0])
    np.testing.assert_allclose(distribution([1.0, 1.0, 1.0, 1.0], top_p=0.3), [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(distribution([1.0, 1.0, 1.0, 1.0], top_p=0.5), [0.5, 0.5, 0, 0])  # reached exactly


def test_draws_have_the_frequencies_of_the_distribution():
    rng = np.random.default_rng(0)
    z = np.log([0.5, 0.25, 0.125, 0.125])
    counts = np.bincount([next_token(z, rng=rng) for _ in range(4000)], minlength=4)
    np.testing.assert_allclose(counts / 4000, [0.5, 0.25, 0.125, 0.125], atol=0.03)  # four standard deviations


class Fixed(np.random.Generator):
    """A generator whose next number is known."""

    def __init__(self, value):
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, *args, **settings):
        return self.value


@pytest.mark.parametrize(("u", "token"), [(0.0, 1), (0.4999, 1), (0.5, 3), (np.nextafter(1, 0), 3)])
def test_the_ends_of_the_unit_interval_hit_possible_tokens(u, token):
    assert next_token([-math.inf, 0.0, -math.inf, 0.0, -math.inf], rng=Fixed(u)) == token


def test_one_random_number_a_draw_whatever_the_settings():
    generators = [np.random.default_rng(3) for _ in range(4)]
    z = np.zeros(5)
    for rng, settings in zip(generators, [{}, {"top_k": 1}, {"temperature": 0}, {"top_p": 0.5}], strict=True):
        next_token(z, rng=rng, **settings)
    assert len({rng.random() for rng in generators}) == 1


@pytest.mark.parametrize(("settings", "message"), [
    ({"temperature": -1}, "temperature=-1 "), ({"temperature": math.nan}, "temperature=nan"),
    ({"temperature": math.inf}, "temperature=inf"), ({"temperature": "1"}, "temperature='1'"),
    ({"temperature": True}, "temperature=True"), ({"temperature": None}, "temperature=None"),
    ({"top_k": -1}, "top_k=-1"), ({"top_k": 2.0}, "top_k=2.0"), ({"top_k": True}, "top_k=True"),
    ({"top_p": 0}, "top_p=0"), ({"top_p": 1.01}, "top_p=1.01"), ({"top_p": -0.1}, "top_p=-0.1"),
    ({"top_p": math.nan}, "top_p=nan"), ({"top_p": "x"}, "top_p='x'"),
])  # fmt: skip
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        next_token([0.0, 1.0], **settings)


@pytest.mark.parametrize(("logits", "message"), [
    ([0.0, math.nan, 1.0], "1 of 3 logits are NaN or infinite, first of token 1: nan"),
    ([0.0, math.inf], "1 of 2 logits are NaN or infinite, first of token 1: inf"),
    ([-math.inf, -math.inf], "all 2 logits are -inf"), ([], r"not \(0,\)"), ([[0.0]], r"not \(1, 1\)"),
])  # fmt: skip
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_without_a_distribution_are_refused(logits, message, temperature):
    with pytest.raises(ValueError, match=message):
        next_token(logits, temperature=temperature)


def test_float32_logits_are_taken_as_they_are():
    z = np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_allclose(distribution(z), softmax(z.astype(float)), rtol=1e-12)
