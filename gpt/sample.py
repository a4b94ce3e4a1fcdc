"""Choosing the next token: from a row of logits to a distribution to an id.

One rule, used wherever tokens are sampled. The filters act in this order: temperature, then `top_k`, then `top_p` on
the renormalised rest. A token that is filtered out has probability exactly zero, and the most likely one always stays.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpt.config import whole

__all__ = ["check_sampling", "distribution", "next_token"]


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuse settings that no distribution corresponds to.

    Parameters
    ----------
    temperature, top_k, top_p
        As of `distribution`.

    Raises
    ------
    ValueError
        If one is out of range; the message names it and its value.

    Examples
    --------
    >>> check_sampling(-1.0, None, None)
    Traceback (most recent call last):
        ...
    ValueError: temperature=-1.0 must be a finite number of at least 0 (0 always takes the most likely token)
    """
    if not _is_number(temperature) or not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature={temperature!r} must be a finite number of at least 0 (0 always takes the most likely token)"
        )
    if top_k is not None:
        whole("top_k", top_k, 0)
    if top_p is not None and (not _is_number(top_p) or not 0 < top_p <= 1):
        raise ValueError(f"top_p={top_p!r} must be a number greater than 0 and at most 1 (None or 1 is off)")


def distribution(
    logits: npt.ArrayLike, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> npt.NDArray[np.float64]:
    """Return the probabilities that the next token is drawn from.

    Parameters
    ----------
    logits : array_like [V]
        One per token of the vocabulary. Minus infinity rules a token out.
    temperature : float
        Divides the logits: below 1 sharpens the distribution, above 1 flattens it. 0 gives everything to the largest
        logit; of several equal ones, to the lowest id.
    top_k : int, optional
        Keep the k most likely tokens; of equally likely ones at the border, those of lowest id. None and 0 are off, and
        so is a k that is not less than V.
    top_p : float, optional
        Keep the most likely tokens, as few as have at least this probability together, after the other filters. None
        and 1 are off.

    Returns
    -------
    ndarray of float64 [V]
        Adds up to 1; exactly 0 for every token that is filtered out.

    Raises
    ------
    ValueError
        If a setting is out of range, or the logits contain NaN or plus infinity, or are all minus infinity.

    References
    ----------
    Fan et al., Hierarchical Neural Story Generation, 2018 (top-k). Holtzman et al., The Curious Case of Neural Text
    Degeneration, 2020, equation 2 (top-p, nucleus sampling).

    Examples
    --------
    >>> distribution([2.0, 1.0, 0.0]).round(4)
    array([0.6652, 0.2447, 0.09  ])
    >>> distribution([2.0, 1.0, 0.0], top_k=2).round(4)
    array([0.7311, 0.2689, 0.    ])
    >>> distribution([2.0, 1.0, 0.0], temperature=0)
    array([1., 0., 0.])
    """
    check_sampling(temperature, top_k, top_p)
    z = _finite_logits(logits)
    likeliest = np.zeros(len(z))
    likeliest[np.argmax(z)] = 1.0
    if temperature == 0 or top_k == 1:
        return likeliest
    p: npt.NDArray[np.float64]
    with np.errstate(over="ignore", under="ignore"):  # a tiny temperature sends all but the largest to -inf, rightly
        p = np.exp((z - z.max()) / temperature)  # the largest first: it is 0 / temperature, whatever the temperature
    p /= p.sum()
    if top_k and top_k < len(p):
        p = _keep(p, _by_probability(p)[:top_k])
    if top_p is not None and top_p < 1:
        order = _by_probability(p)
        before = np.cumsum(p[order]) - p[order]  # what the more likely ones have together; 0 for the first
        p = _keep(p, order[before < top_p])
    return p


def next_token(
    logits: npt.ArrayLike, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
    rng: int | np.random.Generator | None = None,
) -> int:  # fmt: skip
    """Draw the next token.

    Parameters
    ----------
    logits, temperature, top_k, top_p
        As of `distribution`.
    rng : int or Generator, optional
        Seed or source of the one random number that a draw takes, whatever the settings are.

    Returns
    -------
    int
        An id from 0 to V - 1 whose probability is not zero.

    Raises
    ------
    ValueError
        As `distribution`.

    Examples
    --------
    >>> next_token([0.0, 3.0, 0.0], temperature=0)
    1
    >>> [next_token([0.0, 3.0, 0.0], rng=seed) for seed in range(8)]
    [1, 1, 1, 1, 1, 1, 1, 1]
    """
    p = distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    u = np.random.default_rng(rng).random()
    # Inversion: the first id up to which the probabilities add up to more than u. Looked up among the possible ids
    # only, so that no rounding of the sums can hit an impossible one.
    possible = np.flatnonzero(p)
    cumulative = np.cumsum(p[possible])
    place = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    return int(possible[min(place, len(possible) - 1)])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _finite_logits(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return logits in float64; refuse those that no distribution comes from."""
    z = np.asarray(logits, np.float64)
    if z.ndim != 1 or not len(z):
        raise ValueError(f"logits must have the shape [V] of one row with V of at least 1, not {z.shape}")
    wrong = np.flatnonzero(np.isnan(z) | (z == math.inf))
    if len(wrong):
        raise ValueError(
            f"{len(wrong)} of {len(z)} logits are NaN or infinite, first of token {wrong[0]}: {z[wrong[0]]}; "
            f"the model's parameters or activations are not finite"
        )
    if z.max() == -math.inf:
        raise ValueError(f"all {len(z)} logits are -inf: no token is left to choose from")
    return z


def _by_probability(p: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the ids, most likely first; of equally likely ones, lowest first."""
    return np.argsort(-p, kind="stable")


def _keep(p: npt.NDArray[np.float64], ids: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return the distribution with only these ids left."""
    kept = np.zeros_like(p)
    kept[ids] = p[ids]
    kept /= kept.sum()
    return kept
