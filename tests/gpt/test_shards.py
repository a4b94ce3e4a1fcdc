"""Batches on several threads: the gradient of the whole, the same bits whoever is faster, and nobody left behind."""

import itertools
import os
import subprocess
import sys
import threading
import time
import traceback
import types
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn
from autodiff.node import OPS
from gpt import GPT, GPTConfig, Settings, machine, shards
from gpt.config import preset
from gpt.data import TaskData, TextData
from gpt.machine import blas, usable_cores
from gpt.shards import CutBatch, Pool, choose_threads, step_flops
from gpt.trainer import NonFiniteError, Trainer, evaluate

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"vocab_size": 11, "block_size": 6, "n_layer": 2, "n_head": 2, "n_embd": 8, "dtype": "float64"}


def make_model(kind=GPT, **fields):
    return kind(GPTConfig(**{**SMALL, **fields}), rng=1)


def make_batch(rows, part=None, shards=1, ignored=0.0, length=6, **more):
    rng = np.random.default_rng([rows, 7])
    x, y = rng.integers(0, 11, (2, rows, length))
    y[rng.random(y.shape) < ignored] = -1
    return CutBatch(x, y, rows if part is None else part, shards, **more)


def gradient(model, batch, pool=None):
    """Compute the loss, and the gradient by name; None where there is none."""
    model.zero_grad()
    loss = batch.accumulate(model, list(model.parameters()), Pool(1) if pool is None else pool)
    return loss, {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_close(one, other, rtol):
    assert other[0] == pytest.approx(one[0], rel=rtol)
    for name, g in one[1].items():
        np.testing.assert_allclose(other[1][name], g, rtol=rtol, atol=rtol * np.abs(g).max(), err_msg=name)


def bits(found):
    return found[0], {name: g.tobytes() for name, g in found[1].items()}


def others():
    return [thread for thread in threading.enumerate() if thread.name.startswith("shard")]


@pytest.fixture(autouse=True)
def nobody_is_left_behind():
    assert not others()
    yield
    assert not others()


# --- threads ---


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_order_whoever_is_first(threads):
    def slow_first(i):
        time.sleep(0.01 * (3 - i))
        return i

    with Pool(threads) as pool:
        for count in (0, 1, 3, 4):
            assert pool.map(slow_first, count) == list(range(count))
        assert len(others()) == threads - 1


def test_calls_run_side_by_side_while_the_pool_is_entered():
    pool = Pool(3)
    with pool:
        everybody = threading.Barrier(3, timeout=30)
        pool.map(lambda i: everybody.wait(), 3)
    assert len(set(pool.map(lambda i: threading.get_ident(), 3))) == 1
    with pool:  # again
        assert len(others()) == 2
        with pytest.raises(RuntimeError, match="at work already"), pool:
            pass
        assert len(others()) == 2


def test_calls_run_in_the_caller_context():
    x = Tensor([1.0, 0.0], requires_grad=True)

    def look(i):
        return (x * x).requires_grad, bool(np.isinf(1 / x.data).any()), float(nn.Dropout(0.5)(np.ones(64)).sum())

    with Pool(3) as pool, np.errstate(divide="ignore"), nn.dropout_stream(1, 2):
        assert {found[0] for found in pool.map(look, 3)} == {True}
        with ad.no_grad():
            found = pool.map(look, 3)
    assert found == found[:1] * 3
    assert not found[0][0]


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_an_exception_surfaces_as_itself_once_all_have_ended(bad):
    class Odd(Exception):
        pass

    ended = []

    def fail_here(i):
        if i == bad:
            raise Odd("number", i)
        time.sleep(0.05)
        ended.append(i)

    with Pool(3) as pool:
        with pytest.raises(Odd) as caught:
            pool.map(fail_here, 3)
        assert sorted(ended) == sorted({0, 1, 2} - {bad})
        assert caught.value.args == ("number", bad)
        assert "in fail_here" in "".join(traceback.format_exception(caught.value))
        assert pool.map(str, 3) == ["0", "1", "2"]  # it goes on working


def test_threads_end_with_an_exception_too():
    with pytest.raises(KeyboardInterrupt), Pool(3):
        raise KeyboardInterrupt


def test_blas_keeps_to_one_thread_in_each_and_gets_back_what_it_had():
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="limits BLAS")

    def limits(i=0):
        return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = limits()
        with Pool(3) as pool:
            assert pool.map(limits, 3) == [{1}] * 3
        assert limits() == before


def test_a_thread_that_cannot_be_made_ready_says_why(monkeypatch):
    here = threading.get_ident()
    real = shards.one_blas_thread

    def fail_elsewhere():
        if threading.get_ident() != here:
            raise OSError("no such library")
        return real()

    monkeypatch.setattr(shards, "one_blas_thread", fail_elsewhere)
    with pytest.raises(OSError, match="no such library"), Pool(3):
        pass


@pytest.mark.parametrize("threads", [0, -1, 1.5, None])
def test_number_of_threads_is_checked(threads):
    with pytest.raises(ValueError, match="threads="):
        Pool(threads)


# --- gradients ---


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9), part=st.integers(1, 9), count=st.integers(1, 6), ignored=st.sampled_from([0.0, 0.6, 1.0]),
    dropout=st.sampled_from([0.0, 0.4]), tied=st.booleans(),
)  # fmt: skip
def test_cut_batch_has_the_gradient_of_the_whole(rows, part, count, ignored, dropout, tied):
    model = make_model(dropout=dropout, tied=tied)
    whole = gradient(model, make_batch(rows, ignored=ignored, seed=3, step=5))
    with Pool(count) as pool:
        cut = gradient(model, make_batch(rows, part, count, ignored, seed=3, step=5), pool)
    assert_close(whole, cut, 1e-11)


def test_float32_agrees_to_a_millionth():
    model = make_model(dtype="float32", n_embd=32, dropout=0.1)
    whole = gradient(model, make_batch(12))
    for count in (2, 3, 5, 12):
        loss, cut = gradient(model, make_batch(12, shards=count))
        assert loss == pytest.approx(whole[0], rel=1e-6)
        for name, g in whole[1].items():
            assert np.linalg.norm(cut[name] - g) <= 1e-6 * np.linalg.norm(g), name


def test_mean_is_over_the_targets_of_all_shards():
    model, batch = make_model(), make_batch(4, shards=2)
    batch.y[:2] = -1
    batch.y[2, 1:] = -1
    loss = F.cross_entropy(model(batch.x), batch.y, ignore_index=-1)
    with Pool(2) as pool:
        assert gradient(model, batch, pool)[0] == pytest.approx(loss.item(), rel=1e-12)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_same_number_of_shards_same_bits_whatever_the_scheduling(monkeypatch, count):
    model, batch = make_model(dropout=0.2, dtype="float32"), make_batch(7, part=4, shards=count)
    alone = bits(gradient(model, batch))
    real, rng = shards.summed_loss, np.random.default_rng(0)

    def late(*arguments):
        time.sleep(rng.uniform(0, 0.005))
        return real(*arguments)

    monkeypatch.setattr(shards, "summed_loss", late)
    for threads in (2, count, count + 3):
        with Pool(threads) as pool:
            for _ in range(3):
                assert bits(gradient(model, batch, pool)) == alone


@pytest.fixture
def restless():
    """Let Python's threads take turns at every opportunity."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("fields", [{"pos": "rope", "mlp": "swiglu", "norm": "rmsnorm"}, {"dropout": 0.3}])
def test_what_is_made_at_the_first_call_may_be_made_by_several_at_once(fields):
    for _ in range(5):
        for op in OPS.values():
            op.plans.clear()
        model, batch = make_model(**fields), make_batch(8, shards=4)
        with Pool(4) as pool:
            found = bits(gradient(model, batch, pool))
        assert found == bits(gradient(model, batch))


def test_gradient_is_added_to_what_is_there():
    model, batch = make_model(), make_batch(4, shards=2)
    parameters = list(model.parameters())
    with Pool(2) as pool:
        once = gradient(model, batch, pool)[1]
        once = {name: g.copy() for name, g in once.items()}
        batch.accumulate(model, parameters, pool)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, 2 * once[name], rtol=1e-12)


class Expert(GPT):
    """Has a parameter for windows that begin with token 0, and one for nobody."""

    def __init__(self, config, rng):
        super().__init__(config, rng)
        self.special, self.idle = nn.Linear(1, 1, rng=0), nn.Linear(1, 1, rng=0)

    def forward(self, tokens, cache=None):
        chosen = tokens[:, 0] == 0
        logits = super().forward(tokens, cache)
        return logits * self.special(chosen.astype(float)[:, None, None]) if chosen.any() else logits


@pytest.mark.parametrize("chosen", [0, 3])
def test_parameter_that_some_shards_do_not_use(chosen):
    model = make_model(Expert)
    batch = make_batch(4, shards=4)
    batch.x[:, 0] = 1
    batch.x[chosen, 0] = 0
    found = gradient(model, batch)[1]
    assert found["special.weight"] is not None
    assert found["idle.weight"] is None  # as where the batch is not cut: the optimiser leaves it alone


def test_parameters_that_were_frozen_get_no_gradient():
    found = []
    for count in (1, 3):
        model = make_model()
        parameters = list(model.parameters())
        model.embedding.weight.requires_grad = False
        loss = make_batch(5, shards=count).accumulate(model, parameters, Pool(1))
        assert model.embedding.weight.grad is None
        found.append((loss, {name: parameter.grad for name, parameter in model.named_parameters()}))
    assert_close(*found, 1e-11)


def test_memory_of_a_part_is_free_before_the_next(monkeypatch):
    model, nodes = make_model(), []
    real = shards.summed_loss

    def look(*arguments):
        for share in nodes:
            with pytest.raises(RuntimeError, match="released"):
                share.backward()
        nodes.append(real(*arguments))
        return nodes[-1]

    monkeypatch.setattr(shards, "summed_loss", look)
    gradient(model, make_batch(6, part=2, shards=2))
    assert len(nodes) == 6


# --- training ---


def make_data(**fields):
    return TextData.from_text("how much wood would a woodchuck chuck " * 20, **{"block_size": 8, **fields})


def make_trainer(threads, data=None, kind=GPT, dtype="float32", **settings):
    data = make_data() if data is None else data
    fields = {"block_size": data.block_size, "n_layer": 2, "n_head": 2, "n_embd": 8, "dropout": 0.2, "dtype": dtype}
    model = kind(GPTConfig(vocab_size=data.vocab_size, **fields), rng=0)
    usual = {"max_steps": 20, "batch_size": 5, "lr": 0.01}
    return Trainer(model, data, Settings(threads=threads, **{**usual, **settings}))


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("make", [make_data, lambda: TaskData("sort")])
def test_training_is_the_same_on_any_number_of_threads(make, accumulate):
    courses = {}
    for threads in (1, 2, 3, 8):
        trainer = make_trainer(threads, make(), accumulate=accumulate)
        with trainer.pool:
            courses[threads] = [trainer.step() for _ in range(4)]
        alone = make_trainer(threads, make(), accumulate=accumulate)
        assert [alone.step()["loss"] for _ in range(4)] == [record["loss"] for record in courses[threads]]
        for mine, theirs in zip(trainer.model.parameters(), alone.model.parameters(), strict=True):
            assert np.array_equal(mine.data, theirs.data)
    for threads, course in courses.items():
        for record, one in zip(course, courses[1], strict=True):
            assert record["loss"] == pytest.approx(one["loss"], rel=1e-5), threads
            assert record["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4), threads


def test_validation_loss_is_the_same_bit_for_bit():
    data = make_data()
    model = make_trainer(1, data, dtype="float64").model  # sums of a few float32 numbers would not even round
    for size, batches in itertools.product((1, 4, 100), (None, 3)):
        alone = evaluate(model, data, size, batches)
        for threads in (1, 2, 3, 8):
            with Pool(threads) as pool:
                assert evaluate(model, data, size, batches, pool) == alone
    assert model.training


class Cusp(GPT):
    """Adds the root of a zero that depends on a weight: the loss is finite, the gradient is not."""

    def forward(self, tokens, cache=None):
        return super().forward(tokens, cache) + np.sqrt(self.embedding.weight[0, 0] * 0)


@pytest.mark.parametrize("threads", [2, 4])
def test_first_bad_op_is_named_on_several_threads(threads):
    trainer = make_trainer(threads)
    trainer.model.blocks[1].mlp.down.weight.data[...] = 1e38
    trainer.model.blocks[1].mlp.up.weight.data[0] = 1e3
    with (
        trainer.pool,
        pytest.raises(
            NonFiniteError, match=r"loss became \S+ in step 1: the forward of 'linear' in blocks\.1\.mlp\.down"
        ),
    ):
        trainer.step()
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    trainer = make_trainer(threads, kind=Cusp)
    with trainer.pool, pytest.raises(NonFiniteError, match=r"became nan in step 1: the VJP rule of 'sqrt'"):
        trainer.step()
    assert trainer.done == 0


class Touchy(GPT):
    """Divides by zero for windows that begin with token 1."""

    def forward(self, tokens, cache=None):
        return super().forward(tokens, cache) / (tokens[:, :1, None] != 1).astype(np.float32)


@pytest.mark.parametrize("row", [0, 2, 4])
def test_loss_that_is_lost_in_one_shard_only(row):
    trainer = make_trainer(5, kind=Touchy)
    x, y = trainer.data.batch(0, 5)
    x[:, 0] = np.arange(5) == row
    trainer.data.batch = lambda step, size: (x, y)
    with trainer.pool, pytest.raises(NonFiniteError, match=r"loss became \S+ in step 1: the forward of 'divide' made"):
        trainer.step()
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_number_of_threads_belongs_to_a_run():
    trainer = make_trainer(3)
    trainer.step()
    state = trainer.state()
    assert state.manifest["settings"]["threads"] == 3
    kept, changed = make_trainer(None), make_trainer(2)
    assert kept.pool.threads == 1
    for again, threads in ((kept, 3), (changed, 2)):
        again.restore(state)
        assert again.pool.threads == again.settings.threads == threads
    assert kept.step()["loss"] == trainer.step()["loss"]
    del state.manifest["settings"]["threads"]  # written before there were threads
    old = make_trainer(None)
    old.restore(state)
    assert old.pool.threads == 1


# --- how many ---


def test_work_is_that_of_the_matrix_products():
    for name in ("tiny", "nano", "toy", "micro", "classic", "llama-toy"):
        model = GPT(preset(name, n_layer=1, block_size=16), rng=0)
        x = np.zeros((2, 16), np.int64)
        with ad.decompose():
            nodes, stack = set(), [F.cross_entropy(model(x), x).node]
        while stack:
            node = stack.pop()
            if type(node).__name__ == "Node" and node not in nodes:
                nodes.add(node)
                stack += [parent for parent in node.parents if parent is not None]
        products = [node for node in nodes if node.op.name == "matmul"]
        forward = sum(2 * np.prod(node.shape) * node.parents[0].shape[-1] for node in products)
        assert step_flops(model.config, 2, 16) == pytest.approx(3 * forward, rel=0.03), name


@pytest.fixture
def machine_of(monkeypatch):
    """Pretend to have some cores, and a BLAS."""

    def pretend(cores, limited=True):
        monkeypatch.setattr(shards, "usable_cores", lambda: cores)
        monkeypatch.setattr(shards, "blas", lambda: ("fine-blas", limited))

    return pretend


def choose(name, rows, **changes):
    config = preset(name, **changes)
    tokens = np.zeros((rows, config.block_size), np.int64)
    model = types.SimpleNamespace(config=config)  # its weights do not matter
    return choose_threads(model, tokens, tokens)


def test_threads_are_chosen_by_work_cores_and_rows(machine_of):
    machine_of(8)
    assert choose("tiny", 16).number == 1
    assert "too little work" in choose("tiny", 16).why
    assert [choose("mid", rows).number for rows in (1, 2, 3, 8, 12, 64)] == [1, 2, 3, 8, 6, 8]
    assert "one window" in choose("mid", 1).why
    assert choose("mid", 64).why == "of 8 cores"
    assert choose("nano", 12).number == 3  # more would wait for each other
    machine_of(2)
    assert choose("nano", 12).number == choose("mid", 64).number == 2
    machine_of(1)
    assert choose("mid", 64) == (1, choose("mid", 64).why)
    assert "one core" in choose("mid", 64).why


@pytest.mark.parametrize(("several", "number"), [(0.5, 2), (2.0, 1)])
def test_where_blas_cannot_be_limited_both_are_timed(machine_of, monkeypatch, several, number):
    machine_of(2, limited=False)
    monkeypatch.setattr(shards, "_seconds", lambda model, batch: 1.0 if batch.shards == 1 else several)
    found = choose("nano", 12)
    assert found == (number, f"by timing: 1000 ms on 1 against {1000 * several:.0f} ms on 2")


def test_timing_leaves_no_trace(machine_of, monkeypatch):
    machine_of(2, limited=False)
    monkeypatch.setattr(shards, "TURN", 1.0)
    model, batch = make_model(), make_batch(4)
    before = {name: p.data.copy() for name, p in model.named_parameters()}
    assert choose_threads(model, batch.x, batch.y).number in (1, 2)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        assert np.array_equal(parameter.data, before[name])


# --- the machine ---


def test_usable_cores(monkeypatch):
    assert 1 <= usable_cores() <= os.cpu_count()
    monkeypatch.setattr(os, "process_cpu_count", lambda: 3, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 5, 7}, raising=False)
    assert usable_cores() == 4
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


FAULTS = """
import resource
import numpy as np
from gpt.shards import Pool

def faults(thread):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    arrays = [np.ones(10_000_000, np.float32) for _ in range(3)] + [np.ones(500_000) for _ in range(30)]
    del arrays
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

with Pool(2) as pool:
    pool.map(faults, 2)
    print(*pool.map(faults, 2), 240_000_000 // resource.getpagesize())
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", ()), reason="only glibc needs to be told")
def test_freed_memory_is_kept_in_every_thread():
    process = subprocess.run(
        [sys.executable, "-c", FAULTS], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=100, check=True,
    )  # fmt: skip
    *found, pages = map(int, process.stdout.split())
    assert len(found) == 2
    assert max(found) < 0.02 * pages


@pytest.mark.parametrize("missing", [AttributeError, OSError, TypeError])
def test_other_c_libraries_are_left_alone(monkeypatch, missing):
    def refuse(name):
        raise missing

    monkeypatch.setattr(machine.ctypes, "CDLL", refuse)
    machine.keep_freed_memory()


def test_older_glibc_gets_the_threshold_that_it_allows(monkeypatch):
    def mallopt(what, value):
        asked.append((what, value))
        return int(what != machine.MMAP_THRESHOLD or value <= 1 << 25)

    asked = []
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: types.SimpleNamespace(mallopt=mallopt))
    machine.keep_freed_memory()
    assert (machine.MMAP_THRESHOLD, 1 << 25) in asked


def test_blas_and_whether_it_can_be_limited(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="limits BLAS")
    found = [{"user_api": "openmp"}, {"user_api": "blas"}]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: found)
    for name, limited in (("scipy-openblas", True), ("accelerate", False)):
        built = {"Build Dependencies": {"blas": {"name": name}}}
        monkeypatch.setattr(machine.np, "show_config", lambda mode, built=built: built)
        assert blas() == (name, limited)
    monkeypatch.setattr(machine.np, "show_config", lambda mode: {})
    assert blas() == ("of unknown name", True)
    found.pop()
    assert not blas()[1]
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert not blas()[1]


def test_threads_that_cannot_be_started_are_one_error_and_leave_none(monkeypatch):
    started = []

    def start(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        begin(thread)

    begin = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match=r"5 threads could not be started \(can't start new thread\); give fewer"):
        Pool(5).__enter__()
    assert len(started) == 2
    assert not any(thread.is_alive() for thread in started)
