"""Functions named by text, as a process is told on its command line what to run."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["function_of"]


def function_of(target: str) -> Any:
    """Return the function that ``module:function`` names, importing its module."""
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)
