"""The benchmarks measure the same thing in every library, and say what is wrong with a command line."""

import dataclasses
import doctest
import importlib
import json
import math
import os
import pkgutil
import sys
from pathlib import Path

import numpy as np
import pytest

import autodiff.functional as F
import benchmarks
from benchmarks import adamw, everything, hand, memory, opcases, options, plot, scaling, sizes, timing
from benchmarks.__main__ import main
from benchmarks.menu import MEASUREMENTS, parser
from benchmarks.peers import OURS, PEERS, our_ops, ours
from benchmarks.workers import Answer, Worker, WorkerError, blas_threads
from gpt import GPT, GPTConfig
from gpt.machine import one_blas_thread

SMALL = sizes.Size(batch=3, length=5, vocab=7, width=8, heads=2, layers=2)
MODULES = [name for _, name, _ in pkgutil.iter_modules(benchmarks.__path__, "benchmarks.") if "__main__" not in name]


def peer_module(name, command):
    """Import the module of a peer's task, or skip."""
    package = PEERS[name].package
    pytest.importorskip(package, reason=f"{package} is not installed: the comparison with {name} needs it")
    module, _, function = PEERS[name].tasks[command].partition(":")
    return getattr(importlib.import_module(module), function), importlib.import_module(module)


@pytest.fixture(autouse=True)
def _threads_as_they_were():
    torch = sys.modules.get("torch")
    before = torch and torch.get_num_threads()
    with one_blas_thread():  # restores on its way out what a step has set for its process
        yield
    if torch:
        torch.set_num_threads(before)


# --- the same model everywhere ---


def losses(step, count=3):
    return [step() for _ in range(count)]


@pytest.mark.parametrize("name", ["hand", "torch", "torch-fused", "jax", "autograd", "mygrad"])
def test_losses_are_those_of_our_step(name, monkeypatch):
    # The first says that the model is the same; the others that gradient, clipping and optimiser are, too. Weights are
    # large enough for every nonlinearity to show, and so are the optimiser's settings; clipping sets in midway.
    step, module = peer_module(name, "step")
    monkeypatch.setattr(sizes, "STD", 0.5)
    for place in (module, ours, adamw):
        for setting, value in {"RATE": 0.02, "DECAY": 2.0, "CLIP": 0.8}.items():
            monkeypatch.setattr(place, setting, value, raising=False)
    expected = losses(ours.step(SMALL, 1)["step"], 5)
    np.testing.assert_allclose(losses(step(size=SMALL, threads=1)["step"], 5), expected, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 5, 70], ids=["one position", "one block", "blocks without weights"])
def test_hand_written_gradient_is_that_of_the_engine(length):
    size = dataclasses.replace(SMALL, length=length)
    weights = sizes.initial_weights(size, np.float64)
    gains = np.random.default_rng(2)
    weights = {name: value + 0.1 * gains.normal(size=value.shape) for name, value in weights.items()}
    model = GPT(GPTConfig(vocab_size=7, block_size=length, n_layer=2, n_head=2, n_embd=8, dtype="float64"))
    model.load_state_dict(weights)
    ids, targets = sizes.batch(size)
    loss = F.cross_entropy(model(ids), targets)
    loss.backward()
    gradient = {name: np.full_like(value, np.nan) for name, value in weights.items()}
    found = hand.loss_and_gradient(weights, gradient, ids, targets, size)
    assert math.isclose(found, loss.item(), rel_tol=1e-12)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(gradient[name], parameter.grad, rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("step", [hand.step, ours.step], ids=["hand", OURS])
def test_a_step_on_threads_is_the_same(step):
    np.testing.assert_allclose(losses(step(SMALL, 2)["step"]), losses(step(SMALL, 1)["step"]), rtol=1e-6)


def test_blas_gets_one_thread_beside_threads_of_ours():
    assert [blas_threads(name, "step", 2) for name in (OURS, "hand", "torch")] == [1, 1, 2]
    assert blas_threads(OURS, "generate", 2) == 2


def result(functions, op, convert):
    """Return what an op makes of the arguments that it is measured on."""
    seen = []

    def bind(function, floats):
        seen.append(np.asarray(function(*map(convert, floats))))
        return float, float

    opcases.tasks({op: functions[op]}, bind)[f"{op} forward"]()
    return seen[0]


@pytest.mark.parametrize("name", ["torch", "jax", "autograd"])
def test_ops_are_ours(name):
    _, module = peer_module(name, "ops")
    theirs, mine = module.functions(), our_ops.functions()
    assert theirs.keys() <= mine.keys() == opcases.CASES.keys()
    convert = module.torch.from_numpy if name == "torch" else np.asarray
    for op in theirs.keys() - {"dropout"}:
        found, expected = result(mine, op, np.asarray), result(theirs, op, convert)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=op)


@pytest.mark.parametrize("name", ["torch", "jax", "autograd"])
def test_ops_run(name):
    make, _ = peer_module(name, "ops")
    functions = make(threads=1)
    assert [functions["relu forward"](), functions["relu backward"]()] == [None, None]


def test_chain_and_demo_agree_with_micrograd(monkeypatch):
    monkeypatch.setattr("benchmarks.demo.STEPS", 3)
    monkeypatch.setattr("benchmarks.demo.POINTS", 10)
    expected = {**ours.chain(), **ours.moons()}
    chain, module = peer_module("micrograd", "chain")
    found = {**chain(), **module.moons()}
    for name, call in found.items():
        assert math.isclose(call(), expected[name](), rel_tol=1e-9), name


def test_chain_has_its_closed_form():
    from benchmarks.demo import CHAIN, FACTOR, START, TERM

    still = TERM / (1 - FACTOR)
    assert math.isclose(ours.chain()["forward"](), still + (START - still) * FACTOR**CHAIN, rel_tol=1e-9)


def test_greedy_texts_are_those_of_torch():
    generate, _ = peer_module("torch", "generate")
    size = sizes.Size(batch=1, length=12, vocab=7, width=8, heads=2, layers=2)
    assert generate(size=size, threads=1, rows=2)["greedy"]() == ours.generate(size, 1, 2)["greedy"]()


def test_flops_are_those_of_the_products():
    n, d, pairs = SMALL.batch * SMALL.length, SMALL.width, sum(range(1, SMALL.length + 1))
    products = [(n, d, 3 * d), (n, d, d), (n, d, 4 * d), (n, 4 * d, d)] * SMALL.layers + [(n, d, SMALL.vocab)]
    attention = SMALL.layers * SMALL.batch * SMALL.heads * pairs * SMALL.head_width * 2
    assert sizes.step_flops(SMALL) == 3 * (sum(2 * a * b * c for a, b, c in products) + 2 * attention)


# --- figures from times ---


@pytest.mark.parametrize("power", [0.5, 1.0, 2.5])
def test_exponent_is_found_again(power):
    values = [1, 2, 4, 8, 16]
    assert math.isclose(timing.exponent(values, [3 * value**power for value in values]), power)
    spread = [3 * value**power * factor for value, factor in zip(values, (1, 1.1, 1, 0.9, 1), strict=True)]
    assert abs(timing.exponent(values, spread) - power) < 0.1


def test_cliffs_are_jumps_in_the_cost_of_an_operation():
    flops = [1, 2, 4, 8, 16]
    assert scaling.cliffs(flops, flops) == []
    assert scaling.cliffs(flops, [9, 10, 12, 20, 40]) == []  # overhead at small sizes is none
    assert scaling.cliffs(flops, [1, 2, 4, 13, 26]) == [3]
    assert scaling.cliffs(flops, [1, 2, 7, 8, 16]) == [2]


def test_drift_of_the_machine_cancels():
    mine, theirs = [1.0, 2.0, 3.0], [4.0, 4.0, 8.0]
    drifting = [[[speed * value for value in taken] for speed in (1, 5, 0.2)] for taken in (mine, theirs)]
    assert math.isclose(timing.ratio(*drifting), 0.5)
    found = timing.summary(drifting[0])
    assert (found["min_ms"], found["median_ms"], found["calls"]) == (200.0, 2000.0, 9)


class Recorded:
    """Stands for a worker, and writes down who was called."""

    def __init__(self, name, log, error=None):
        self.name, self.log, self.error = name, log, error

    def run(self, function, repeats=1):
        if self.error:
            raise WorkerError(self.error)
        self.log.append(self.name)
        return Answer([0.001] * repeats, None)


def test_libraries_take_turns_and_one_that_fails_is_left_out(capsys):
    log = []
    entries = {name: timing.Entry(Recorded(name, log, "no compiler" if name == "c" else None), "f") for name in "abc"}
    times, failed = timing.alternate(entries, rounds=3, calls=2, needed=["a"])
    assert {name: [len(turn) for turn in turns] for name, turns in times.items()} == {"a": [2] * 3, "b": [2] * 3}
    assert log[-6:] == ["a", "b"] * 3
    assert failed == {"c": "no compiler"}
    assert "c is left out: no compiler" in capsys.readouterr().err
    with pytest.raises(WorkerError, match="no compiler"):
        timing.alternate(entries, rounds=1, calls=1, needed=["c"])


# --- processes ---

TASK = """
import os
def noisy(number):
    print("not an answer")
    def fail():
        raise ValueError("first line" + chr(10) + "second line")
    return {"value": lambda: number, "fail": fail, "die": lambda: os._exit(3)}
"""


def test_a_worker_answers_fails_and_dies(tmp_path, monkeypatch):
    (tmp_path / "noisy_task.py").write_text(TASK, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with Worker("noisy", "noisy_task:noisy", 1, number=4.5) as worker:
        answer = worker.run("value", 3)
        assert (len(answer.seconds), answer.value) == (3, 4.5)
        assert worker.functions() == ["value", "fail", "die"]
        with pytest.raises(WorkerError, match=r"^noisy: ValueError: first line$"):
            worker.run("fail")
        assert worker.run("value").value == 4.5
        with pytest.raises(WorkerError, match="the process of noisy ended with exit code 3"):
            worker.run("die")


# --- command lines ---


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("step --peers torhc", "unknown peer 'torhc'; choose from hand, torch, torch-fused, torch-compile"),
        ("step --peers autodiff", "autodiff is always measured"),
        ("scalar --peers torch", "unknown peer 'torch'; choose from micrograd"),
        ("step --threads 0", "'0' must be a whole number of at least 1, or 'best'"),
        ("memory --threads best", "'best' must be a whole number of at least 1"),
        ("step --rounds x", "'x' must be a whole number of at least 1"),
        ("ops --ops gelu,rleu", "unknown op 'rleu'; choose from softmax, "),
        ("ops --ops ,", "name an op: softmax, "),
        ("step --config huge", "invalid choice: 'huge'"),
        ("scaling --against depth", "invalid choice: 'depth'"),
        ("steps", "invalid choice: 'steps'"),
    ],
)
def test_command_line_says_what_is_wrong(line, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_peer_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(options, "installed", lambda name: name != "torch")
    with pytest.raises(SystemExit):
        main(["step", "--peers", "hand,torch"])
    error = " ".join(capsys.readouterr().err.split())
    assert 'torch needs the package torch, which is not installed: pip install "autodiff-gpt[bench]"' in error
    assert parser().parse_args(["step", "--peers", "all"]).peers[0] == "hand"
    assert "torch" not in parser().parse_args(["step", "--peers", "all"]).peers


@pytest.mark.parametrize(
    "name", [*MEASUREMENTS, "everything", "plot", "derivatives", "false_alarms", "recompute", "soak"]
)
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert f"python -m benchmarks {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


# --- each command, at its smallest ---


def measured(line, path):
    assert main([*line.split(), "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def test_step_measures_each_library_on_each_number_of_threads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(options, "usable_cores", lambda: 2)
    found = measured("step --config tiny --threads best --peers hand --rounds 2 --steps 1", tmp_path / "step.json")
    results = found["results"]
    assert {"numpy", "processor", "blas"} <= found["machine"].keys()
    assert results["seconds"].keys() == {f"{name}@{count}" for name in ("gemm", OURS, "hand") for count in (1, 2)}
    assert all(len(turns) == 2 for turns in results["seconds"].values())
    assert results["libraries"][OURS]["ratio"] == 1
    for row in results["libraries"].values():
        assert math.isclose(row["gflops"], results["flops"] / 1e6 / row["median_ms"], rel_tol=0.5)
    assert "NumPy by hand" in capsys.readouterr().out


def test_ops_and_generate(tmp_path, capsys):
    found = measured("ops --ops relu,sum --peers= --rounds 1", tmp_path / "ops.json")["results"]
    assert {(op, part) for op, rows in found.items() for part in rows[OURS]} == {
        (op, part) for op in ("relu", "sum") for part in ("forward", "backward")
    }
    found = measured("generate --config tiny --peers= --rounds 1 --rows 2", tmp_path / "generate.json")["results"]
    assert found["tokens"] == 2 * 15
    assert "tokens/s" in capsys.readouterr().out


def test_scalar(tmp_path):
    found = measured("scalar --peers= --rounds 1", tmp_path / "scalar.json")["results"]
    assert found["chain"].keys() == {f"{OURS}, forward", f"{OURS}, forward and backward"}
    assert found["moons"][OURS]["loss"] < 0.1


def test_memory_and_start(tmp_path):
    results = measured("memory --config tiny --peers hand --rounds 1", tmp_path / "memory.json")["results"]
    for row in results["libraries"].values():
        assert 0 < row["imported"] < 1000
        assert row["built_above_import"] + row["peak_above_built"] == pytest.approx(row["peak_above_import"])
    found = measured("start --config tiny --peers= --rounds 1", tmp_path / "start.json")["results"]
    assert found["processes"].keys() == {"import numpy", f"import {OURS}", f"first step, {OURS}"}


HUNGRY = """
import numpy as np
np.ones(2**25)  # what an import needs for a moment does not count
def step(size, threads):
    kept = np.ones(2**22)
    return {"step": lambda: float(np.ones(2**23).sum() + kept[0])}
"""


@pytest.mark.skipif(not memory.resettable(), reason="this system does not reset a process's peak of memory")
def test_memory_counts_what_a_step_holds(tmp_path, monkeypatch):
    (tmp_path / "hungry_task.py").write_text(HUNGRY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with Worker("hungry", "benchmarks.memory:stages", 1, task="hungry_task:step", size=SMALL, threads=1) as worker:
        imported, built, peak = (worker.run(stage).value for stage in ("imported", "built", "peak"))
    assert 30 < built - imported < 40
    assert 90 < peak - imported < 110


def test_scaling_fits_exponents():
    points = [SMALL, sizes.Size(batch=6, length=5, vocab=7, width=8, heads=2, layers=2)]
    found = scaling.measure("batch", points, threads=1, peers=[], rounds=1)
    assert found["values"] == [3, 6]
    assert math.isclose(found["flop_exponent"], 1)
    library = found["libraries"][OURS]
    medians = [point["median_ms"] for point in library["points"]]
    assert math.isclose(library["exponent"], math.log2(medians[1] / medians[0]))


def test_everything_goes_on_where_it_was_and_is_drawn(tmp_path, monkeypatch, capsys):
    for line in everything.plan():
        parser().parse_args(line)
    lines = [["step", "--config", "tiny", "--peers", "hand", "--steps", "1"]]
    monkeypatch.setattr(everything, "plan", lambda: lines)
    file = tmp_path / "all.json"
    assert main(["everything", "--json", str(file), "--rounds", "1"]) == 0
    first = json.loads(file.read_text(encoding="utf-8"))
    assert main(["everything", "--json", str(file), "--rounds", "1"]) == 0
    assert json.loads(file.read_text(encoding="utf-8"))["runs"] == first["runs"]
    assert f"is in {file}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["everything", "--json", str(file), "--only", "nothing"])


def test_plot_draws_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: drawing needs it")
    runs = [
        {"command": "step", "options": {"config": "nano", "threads": threads}, "results": {"libraries": libraries}}
        for threads, libraries in (([1], {"torch": {"ratio": 0.875}}), ([1, 2], {"torch": {"ratio": 1.25}}), ([2], {}))
    ]
    points = [{"median_ms": 1.0}, {"median_ms": 2.5}]
    against = {"values": [64, 128], "flops": [10, 20], "flop_exponent": 1.0}
    against["libraries"] = {OURS: {"points": points, "exponent": 1.32}}
    runs.append({"command": "scaling", "options": {"threads": [1]}, "results": {"T": against}})
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"runs": runs}), encoding="utf-8")
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        assert main(["plot", str(file), "-o", str(picture)]) == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert list(plot._bars(runs)) == [("nano\n1 thread", 0.875), ("nano\nbest threads", 1.25)]


def test_plot_refuses_another_file(tmp_path, capsys):
    file = tmp_path / "other.json"
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["plot", str(file), "-o", str(tmp_path / "a.svg")])
    assert "is not a file that 'everything' has written" in capsys.readouterr().err
    file.write_text('{"runs": []}', encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["plot", str(file), "-o", str(tmp_path / "a.svg")])
    assert "has neither steps beside PyTorch" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["", "folder", "nowhere/a.json", "/dev/null"])
@pytest.mark.parametrize("command", ["step", "everything"])
def test_a_file_that_cannot_be_written_is_refused_at_once(given, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(SystemExit) as stopped:
        main([command, "--json", given])
    assert stopped.value.code == 2
    assert "argument --json" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{}", "no json", '{"machine": {}, "runs": [{}]}'])
def test_everything_refuses_a_file_of_another_kind(content, tmp_path, capsys):
    file = tmp_path / "all.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["everything", "--json", str(file)])
    assert "does not hold what this command writes" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == content


def test_everything_refuses_figures_of_another_machine(tmp_path, capsys):
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"machine": {"processor": "another"}, "runs": []}), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["everything", "--json", str(file)])
    assert "was measured elsewhere (processor" in capsys.readouterr().err


def test_a_library_whose_process_ends_is_left_out_from_there_on():
    class Dying:
        calls = 0

        def run(self, function, repeats=1):
            self.calls += 1
            if self.calls > 5:
                raise WorkerError("the process of dying ended with exit code -9")
            return Answer([0.1] * repeats, 0.0)

    class Living(Dying):
        def run(self, function, repeats=1):
            return Answer([0.1] * repeats, 0.0)

    entries = {"living": timing.Entry(Living(), "step"), "dying": timing.Entry(Dying(), "step")}
    times, failed = timing.alternate(entries, rounds=4, calls=1, needed=["living"])
    assert times == {"living": [[0.1]] * 4}
    assert failed == {"dying": "the process of dying ended with exit code -9"}
    with pytest.raises(WorkerError):
        timing.alternate({"dying": timing.Entry(Dying(), "step")}, rounds=9, calls=1, needed=["dying"])
