"""Is the checker ever wrong about a right rule? ``python -m benchmarks false_alarms --runs 10000``.

Every op that comes with the library is checked on its samples, again and again: each round draws the samples and the
cotangents anew. An alarm (VJPError) is false, since the same rules pass the tests; InconclusiveError is no verdict, and
counted apart. Prints each of the two kinds by op, with the rerun line of the first, and a summary; fails on an alarm.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from autodiff.node import OPS
from autodiff.testing import Case, InconclusiveError, VJPError, samples
from autodiff.testing.vjp import examine

__all__ = ["main"]


def rounds() -> Iterator[tuple[Case, int]]:
    """Yield samples of all ops without end, each with a seed; another seed in each round."""
    for seed in itertools.count():
        for op in OPS.values():
            for number, sample in enumerate(samples(op, seed)):
                yield Case(op, number, sample), seed


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks false_alarms", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="checks to make (default 10,000)")
    runs = parser.parse_args(argv).runs
    found: dict[str, Counter[str]] = {"alarm": Counter(), "inconclusive": Counter()}
    start = time.perf_counter()
    seed = 0
    for case, seed in itertools.islice(rounds(), runs):
        try:
            examine(case.op, case.arguments, None, None, seed)
        except (VJPError, InconclusiveError) as error:
            what = "alarm" if isinstance(error, VJPError) else "inconclusive"
            if not found[what][case.op.name]:
                print(f"{what}, round {seed}: {error}\n", flush=True)
            found[what][case.op.name] += 1
    for what, counts in found.items():
        for name, count in counts.most_common():
            print(f"{what}: {name} {count}")
    alarms, unclear = (sum(counts.values()) for counts in found.values())
    print(
        f"{alarms} false alarms and {unclear} inconclusive in {runs} runs: {len(OPS)} ops, {seed + 1} rounds of newly "
        f"drawn samples, {(time.perf_counter() - start) / max(runs, 1) * 1e3:.1f} ms a run"
    )
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
