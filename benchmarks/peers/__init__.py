"""What is measured: our library, and those beside it. Each writes its model as its users would.

A task is a function ``package.module:function`` that prepares something in a process of its own and returns what to
time there, by name. The modules of the peers import their library at their top, and nothing of ours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["OURS", "PEERS", "Peer", "installed", "label", "peers_of"]

OURS = "autodiff"


@dataclass(frozen=True)
class Peer:
    """Something to measure.

    Parameters
    ----------
    about : str
        What it is, in a few words.
    tasks : dict of str to str
        For each command that it takes part in, its task.
    package : str
        Whose presence it needs.
    shards : bool
        Whether its steps split the batch on threads of its own, so that its BLAS gets one thread in each.
    """

    about: str
    tasks: Mapping[str, str]
    package: str = "numpy"
    shards: bool = False


def _tasks(module: str, *commands: str, **renamed: str) -> dict[str, str]:
    """Name the tasks of a module: functions called as the commands are, or otherwise."""
    functions = {**{command: command for command in commands}, **renamed}
    return {command: f"benchmarks.peers.{module}:{function}" for command, function in functions.items()}


PEERS: Mapping[str, Peer] = {
    OURS: Peer(
        "gpt on autodiff", _tasks("ours", "step", "generate", "chain", "moons") | _tasks("our_ops", "ops"), shards=True
    ),
    "hand": Peer("NumPy by hand, no engine", {"step": "benchmarks.hand:step"}, shards=True),
    "torch": Peer("PyTorch, eager", _tasks("pytorch", "step", "generate") | _tasks("torch_ops", "ops"), "torch"),
    "torch-fused": Peer("PyTorch, eager, fused AdamW", _tasks("pytorch", step="fused_step"), "torch"),
    "torch-compile": Peer("PyTorch, torch.compile", _tasks("pytorch", step="compiled_step"), "torch"),
    "jax": Peer("JAX, jit", _tasks("jax_jit", "step", "ops"), "jax"),
    "autograd": Peer("HIPS autograd", _tasks("hips", "step", "ops"), "autograd"),
    "mygrad": Peer("MyGrad", _tasks("my_grad", "step"), "mygrad"),
    "micrograd": Peer("micrograd", _tasks("micro_grad", "chain", "moons"), "micrograd"),
}


def label(name: str) -> str:
    """Return what to call it in a table."""
    return OURS if name == OURS else PEERS[name].about


def peers_of(command: str) -> list[str]:
    """Return the names of those that a command can measure beside ours."""
    return [name for name, peer in PEERS.items() if command in peer.tasks and name != OURS]


def installed(name: str) -> bool:
    """Tell whether what a peer needs is there, without importing it."""
    return importlib.util.find_spec(PEERS[name].package) is not None
