"""What the machine does in a training step besides computing: cores, threads of the BLAS, pages of memory."""

from __future__ import annotations

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

__all__ = ["blas", "keep_freed_memory", "one_blas_thread", "usable_cores"]

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # of mallopt, in malloc.h


def usable_cores() -> int:
    """Return how many of the machine's cores this process may use."""
    if hasattr(os, "process_cpu_count"):  # from Python 3.13 on
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas() -> tuple[str, bool]:
    """Return the name of NumPy's BLAS, and whether `one_blas_thread` can limit it.

    It cannot without the package threadpoolctl, which in turn does not know every BLAS; Apple's Accelerate is one.
    """
    built: Any = np.show_config(mode="dicts")
    name = str(built.get("Build Dependencies", {}).get("blas", {}).get("name", "of unknown name"))
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return name, False
    known = any(library["user_api"] == "blas" for library in threadpool_info())
    return name, known and name != "accelerate"  # another library, such as SciPy, may have brought one of its own


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
    """Let the C library keep the memory that a step frees for the next step, from here on.

    glibc takes large blocks from the system one by one, and gives the top of its heaps back, when more than a threshold
    lies free there. The next step then pays for each of these pages anew: 17,000 page faults in a step of the preset
    ``mid``, a seventh of its time. So large blocks are to lie in the heaps too, and these are to stay: the main one by
    the threshold, those of other threads, which are given back whole, by the room to be left free. Room is not memory
    until it is used. Other C libraries have other habits, and are left alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # there is none, or, on Windows, no way to ask
        return
    if not mallopt(MMAP_THRESHOLD, 1 << 30):
        mallopt(MMAP_THRESHOLD, 1 << 25)  # the most that glibc before 2.35 allows
    mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
    mallopt(TOP_PAD, 1 << 26)  # the largest heap of a thread
