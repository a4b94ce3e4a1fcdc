"""What all ops and presets compute, bit for bit: ``python -m benchmarks baseline write before.jsonl``.

Code that is moved, split or rewritten must compute what it computed before. `write` puts down, a line for each array:

- the outputs and gradients of every sample of every op, in float64 and float32, fused and decomposed;
- the losses of twenty training steps of every preset, with dropout, on one thread and on two, and the weights after
  them.

``compare before.jsonl after.jsonl`` lists the lines in which two such files differ, and by how much; it fails if there
are any. Bits depend on the machine, on NumPy and on its BLAS: both files must come from the same.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autodiff as ad
from autodiff import Tensor, optim
from autodiff.testing import Case, op_cases
from gpt import GPT
from gpt.config import BATCH_SIZES, PRESETS, preset
from gpt.files import atomic_write
from gpt.shards import CutBatch, Pool

from .machine import machine
from .options import writable
from .report import progress, table

__all__ = ["compare", "main", "of_case", "of_ops", "of_preset"]

Line = dict[str, Any]

STEPS, DROPOUT = 20, 0.1
WINDOWS = {"gpt2": (2, 32)}
"""Rows and length of a batch where a whole one takes minutes; of the others `BATCH_SIZES` or four, all positions."""

WHOLE = 1024
"""Bytes up to which an array is written down; of a larger one, its digest."""


def line(name: str, array: Any) -> Line:
    """Write an array down: its name, dtype, shape, and its bits or their SHA-256.

    Examples
    --------
    >>> line("loss", np.array([1.0, -2.0], np.float32))
    {'name': 'loss', 'dtype': '<f4', 'shape': [2], 'bits': '0000803f000000c0'}
    """
    values = np.asarray(array)
    bits = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()  # in C order, whatever the layout
    key, text = ("bits", bits.hex()) if len(bits) <= WHOLE else ("sha256", hashlib.sha256(bits).hexdigest())
    return {"name": name, "dtype": values.dtype.newbyteorder("<").str, "shape": list(values.shape), key: text}


# --- ops ---


def of_ops() -> Iterator[Line]:
    """Yield the lines of every sample of every registered op."""
    cases = op_cases()
    for number, case in enumerate(cases):
        progress(f"sample {number} of {len(cases)}: {case}")
        yield from of_case(case)


def of_case(case: Case) -> Iterator[Line]:
    """Yield the outputs and gradients of one sample: for each dtype as one node, and in primitives if it is fused.

    Cotangents are drawn from a seed that the sample's name gives, so that a new op does not change those of others.
    """
    ways: dict[str, AbstractContextManager[Any]] = {"": nullcontext()}
    if case.op.decomposed is not None:
        ways[" decomposed"] = ad.decompose()
    for dtype, (way, mode) in itertools.product((np.float64, np.float32), ways.items()):
        name = f"{case} {np.dtype(dtype).name}{way}"
        given = [_argument(case, i, x, dtype) for i, x in enumerate(case.arrays)]
        with mode, np.errstate(all="ignore"):
            result = case.op(*given, **case.settings)
            outputs = list(result) if isinstance(result, (tuple, list)) else [result]
            for i, out in enumerate(outputs):
                yield line(f"{name} output {i}", out.data if isinstance(out, Tensor) else out)
            recorded = [out for out in outputs if isinstance(out, Tensor) and out.requires_grad]
            inputs = [x for x in given if isinstance(x, Tensor)]
            if not recorded:
                continue
            rng = np.random.default_rng(zlib.crc32(str(case).encode()))
            cotangents = [rng.normal(size=out.shape).astype(out.dtype) for out in recorded]
            for i, gradient in enumerate(ad.gradients(recorded, inputs, cotangents)):
                yield line(f"{name} gradient {i}", gradient.data)


def _argument(case: Case, i: int, value: Any, dtype: Any) -> Any:
    """Return an argument as it is given to the op: a leaf, if it is a floating array that has a gradient."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    array = value.astype(dtype)
    return array if i in case.op.nondifferentiable else Tensor(array, requires_grad=True)


# --- presets ---


def of_preset(name: str, threads: int, steps: int = STEPS) -> Iterator[Line]:
    """Yield the losses of training steps of a preset on random tokens, and the weights after them.

    Parameters
    ----------
    name : str
        Of the preset.
    threads : int
        Into so many shards each batch is cut; BLAS keeps to one thread in each.
    steps : int
        How many to take.
    """
    config = preset(name, dropout=DROPOUT)
    rows, length = WINDOWS.get(name, (BATCH_SIZES.get(name, 4), config.block_size))
    model = GPT(config, rng=0)
    parameters = list(model.parameters())
    optimizer = optim.AdamW(optim.decay_groups(model, 0.1), lr=1e-3)
    about = f"{name}, {threads} thread{'s' * (threads > 1)}"
    losses = []
    with Pool(threads) as pool:
        for step in range(steps):
            progress(f"{about}: step {step + 1} of {steps}")
            x, y = np.random.default_rng([1, step]).integers(0, config.vocab_size, (2, rows, length))
            batch = CutBatch(x, y, part=rows, shards=threads, seed=0, step=step)
            losses.append(batch.accumulate(model, parameters, pool))
            optim.clip_grad_norm(parameters, 1.0)
            optimizer.lr = optim.warmup_cosine(step, lr=1e-3, min_lr=1e-4, warmup=5, total=steps)
            optimizer.step()
            optimizer.zero_grad()
    yield line(f"{about}: losses", losses)
    for key, values in model.state_dict().items():
        yield line(f"{about}: {key}", values)


# --- files ---


def _write(path: Path, names: Sequence[str]) -> int:
    """Write the file, whole or not at all; the first line says on what machine."""
    lines: list[Line] = [{"machine": machine()}, *of_ops()]
    for name, threads in itertools.product(names, (1, 2)):
        lines += of_preset(name, threads)
    progress("")
    atomic_write(path, "".join(json.dumps(one) + "\n" for one in lines).encode())
    print(f"{len(lines) - 1:,} arrays written to {path}")
    return 0


def _read(path: Path) -> tuple[Any, dict[str, Line]]:
    """Return the machine and the lines by name."""
    first, *rest = (json.loads(text) for text in path.read_text(encoding="utf-8").splitlines())
    return first["machine"], {one["name"]: one for one in rest}


def compare(before: dict[str, Line], after: dict[str, Line]) -> list[tuple[str, str]]:
    """Return the names in which two baselines differ, each with how.

    Examples
    --------
    >>> one, two = line("a", [1.0, 2.0]), line("a", [1.0, 2.5])
    >>> compare({"a": one, "b": one}, {"a": two})
    [('a', '0.25'), ('b', 'gone')]
    """
    found = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old != new:
            found.append((name, "new" if old is None else "gone" if new is None else _difference(old, new)))
    return found


def _difference(old: Line, new: Line) -> str:
    """Say how two lines of one name differ: the largest difference by the largest value, where the bits are there."""
    kinds = [f"{one['dtype']} {tuple(one['shape'])}" for one in (old, new)]
    if kinds[0] != kinds[1]:
        return " -> ".join(kinds)
    if "bits" not in old:
        return "other bits"
    a, b = (_array(one) for one in (old, new))
    if a.dtype.kind != "f" or (np.isfinite(a) != np.isfinite(b)).any():
        return "other bits"
    finite = np.isfinite(a)
    scale = float(np.abs(a, where=finite, out=np.zeros_like(a)).max(initial=0))
    change = float(np.abs(a - b, where=finite, out=np.zeros_like(a)).max(initial=0))
    return f"{change / scale:.2g}" if scale and math.isfinite(change) else f"{change:.2g}"


def _array(one: Line) -> NDArray[Any]:
    return np.frombuffer(bytes.fromhex(one["bits"]), one["dtype"]).astype(np.dtype(one["dtype"]))


def _compare(before: Path, after: Path) -> int:
    """Print the differences of two files; return 1 if there are any."""
    machines, lines = zip(*map(_read, (before, after)), strict=True)
    for key in machines[0].keys() | machines[1].keys():
        values = [one.get(key) for one in machines]
        if values[0] != values[1]:
            print(f"note: {key} was {values[0]}, then {values[1]}: differences may come of that")
    found = compare(*lines)
    if found:
        table(["array", "relative difference"], found)
    print(f"{len(found):,} of {len(lines[0].keys() | lines[1].keys()):,} arrays differ")
    return int(bool(found))


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks baseline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write a baseline (some minutes)")
    writing.add_argument("file", type=writable)
    writing.add_argument(
        "--presets", type=_presets, default=list(PRESETS), metavar="A,B", help="train these only (default: all)"
    )
    comparing = commands.add_parser("compare", help="list what differs between two")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args(argv)
    if given.command == "write":
        return _write(given.file, given.presets)
    try:
        return _compare(given.before, given.after)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"cannot compare {given.before} and {given.after}, are both baselines? {error}")


def _presets(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        try:
            preset(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


if __name__ == "__main__":
    sys.exit(main())
