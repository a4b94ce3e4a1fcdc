"""What the figures were measured on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import autodiff
from gpt.machine import usable_cores

from .peers import PEERS

__all__ = ["described", "machine"]


def machine() -> dict[str, str]:
    """Describe processor, system and versions."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {
        "processor": _processor(), "cores": str(usable_cores()), "platform": platform.platform(),
        "python": platform.python_version(), "blas": f"{blas['name']} {blas['version']}",
        "autodiff-gpt": autodiff.__version__,
    }  # fmt: skip
    for package in dict.fromkeys(peer.package for peer in PEERS.values()):
        try:
            found.setdefault(package, version(package))
        except PackageNotFoundError:
            continue
    return found


def described() -> str:
    """Return the same on one line."""
    return "  ".join(f"{key}: {value}" for key, value in machine().items())


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
