"""What the machine does in a training step besides computing: threads of the BLAS, pages of memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

__all__ = ["keep_freed_memory", "one_blas_thread"]

LARGEST = (1 << 25) - (1 << 13)  # bytes: just below the size at which glibc stops to learn


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread, if that can be done: on matrices this small more threads lose more than they gain.

    Returns
    -------
    context manager
        That does nothing where the package threadpoolctl is missing.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def keep_freed_memory() -> None:
    """Let the C library keep the memory that a step frees for the next step.

    glibc gives the top of its heap back to the system when more lies free there than a threshold, and the next step
    then pays for each of its pages anew: 8,700 page faults in a step of the preset ``nano``, a seventh of its time. The
    threshold follows the largest block that the program has freed. So one large block is taken here and freed, without
    being touched. Other C libraries do not mind.
    """
    np.empty(LARGEST, np.uint8)
