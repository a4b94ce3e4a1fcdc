"""What a run has where nothing else is chosen: a model, and settings that suit it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["MODEL", "PRESET_SETTINGS", "TASK_MODEL", "TASK_SETTINGS"]

#: Fields of the model of a text. With the defaults of `Settings`, the best we know for less than a minute.
MODEL: Mapping[str, Any] = MappingProxyType(
    {"n_layer": 2, "n_head": 4, "n_embd": 64, "d_ff": 192, "norm": "rmsnorm", "pos": "rope", "mlp": "swiglu"}
)

#: Those of the model of a task: minGPT's. It learns to sort sooner with learned positions than with rotated ones.
TASK_MODEL: Mapping[str, Any] = MappingProxyType({"n_layer": 3, "n_head": 3, "n_embd": 48})

#: Settings where they differ: the sequences of a task are short, ...
TASK_SETTINGS: Mapping[str, Any] = MappingProxyType(
    {"max_steps": 1000, "batch_size": 64, "lr": 2e-3, "eval_interval": 100}
)

#: ... and the models of the presets are mostly larger than ours.
PRESET_SETTINGS: Mapping[str, Any] = MappingProxyType({"lr": 1e-3})
