"""Random streams: a generator for every use of randomness in a run, each a pure function of the run's seed.

Nothing is carried over from one step to the next, so a resumed run needs no generator state, and drawing more in one
stream (evaluating or sampling more often) cannot change another.
"""

from __future__ import annotations

import zlib

import numpy as np

from gpt.config import whole

__all__ = ["stream"]


def stream(seed: int, name: str, step: int = 0) -> np.random.Generator:
    """Return the generator of one use of randomness at one step.

    Parameters
    ----------
    seed : int
        The seed of the run, at least 0.
    name : str
        What the numbers are for, such as ``"batch"``. Different names give independent streams.
    step : int
        Training step (or any other counter), at least 0.

    Raises
    ------
    ValueError
        If `seed` or `step` is not an integer of at least 0.

    Notes
    -----
    The name and the step are the spawn key of a `numpy.random.SeedSequence`, which keeps them apart from the seed's own
    bits; adding numbers to the seed instead would let ``(seed + 1, step)`` repeat ``(seed, step + 1)``.

    Examples
    --------
    >>> stream(1, "batch", 7).integers(0, 100, 3).tolist() == stream(1, "batch", 7).integers(0, 100, 3).tolist()
    True
    """
    # crc32 rather than hash(): Python salts the hashes of strings anew in every process
    key = (zlib.crc32(name.encode()), whole("step", step, 0))
    return np.random.default_rng(np.random.SeedSequence(whole("seed", seed, 0), spawn_key=key))
