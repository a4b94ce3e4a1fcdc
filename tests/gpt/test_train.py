"""The loop: exact resumption, what a run's folder holds, how a run ends."""

import errno
import importlib
import json
import math
import os
import re
import sys
import threading

import numpy as np
import pytest

import gpt
from gpt import GPT, GPTConfig, Settings, train
from gpt.checkpoint import CheckpointError, load_checkpoint
from gpt.data import TaskData, TextData
from gpt.run import Run, RunError, read_state
from gpt.trainer import NonFiniteError, evaluate

MODULE = importlib.import_module("gpt.train")  # the attribute `gpt.train` is the function
TEXT = "how much wood would a woodchuck chuck if a woodchuck could chuck wood? as much as it could. " * 8


def make_data(**settings):
    return TextData.from_text(TEXT, **{"block_size": 8, **settings})


def make_model(data, rng=0, **fields):
    small = {"block_size": data.block_size, "n_layer": 1, "n_head": 2, "n_embd": 8, "dropout": 0.2, **fields}
    return GPT(GPTConfig(vocab_size=data.vocab_size, **small), rng=rng)


def make_settings(**settings):
    return Settings(**{"max_steps": 6, "batch_size": 3, "lr": 0.01, "eval_interval": 2, "eval_batches": 1, **settings})


def go(out, rng=0, fields=(), data=None, resume=False, watch=None, should_stop=None, **settings):
    data = make_data() if data is None else data
    model, settings = make_model(data, rng, **dict(fields)), make_settings(**settings)
    return train(model, data, settings, out=out, resume=resume, watch=watch, should_stop=should_stop)


def tensors(out, name="checkpoint.safetensors"):
    return load_checkpoint(out / name)[0]


def manifest(out, name="checkpoint.safetensors"):
    return load_checkpoint(out / name)[1]


def course(out):
    """What training did in each step, without what depends on the clock, the evaluations and the end."""
    return [{name: record[name] for name in ("step", "loss", "lr", "grad_norm")} for record in Run(out).metrics()]


def assert_same_run(a, b):
    assert course(a) == course(b)
    mine, theirs = tensors(a), tensors(b)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert mine[name].tobytes() == theirs[name].tobytes(), name
    assert manifest(a)["optimizer"] == manifest(b)["optimizer"]


# --- resuming ---


@pytest.mark.parametrize(("accumulate", "threads"), [(1, 1), (2, 1), (2, 2), (1, 4)])
def test_cut_anywhere_resumes_exactly(tmp_path, accumulate, threads):
    go(tmp_path / "whole", accumulate=accumulate, threads=threads)
    for k in range(1, 6):
        go(tmp_path / f"{k}", accumulate=accumulate, threads=threads, stop_at=k)
        go(tmp_path / f"{k}", rng=99, accumulate=accumulate, resume=True)  # a run keeps its number of threads
        assert_same_run(tmp_path / "whole", tmp_path / f"{k}")


def test_resumed_on_another_number_of_threads(tmp_path):
    go(tmp_path / "whole", fields={"dtype": "float64"})
    go(tmp_path / "run", fields={"dtype": "float64"}, stop_at=2)
    go(tmp_path / "run", fields={"dtype": "float64"}, stop_at=4, resume=True, threads=3)
    result = go(tmp_path / "run", fields={"dtype": "float64"}, resume=True, threads=2)
    assert result.steps == 6
    for mine, whole in zip(course(tmp_path / "run"), course(tmp_path / "whole"), strict=True):
        assert mine == pytest.approx(whole, rel=1e-9)
    assert manifest(tmp_path / "run")["settings"]["threads"] == 2


def test_resuming_what_was_resumed(tmp_path):
    go(tmp_path / "whole")
    go(tmp_path / "cut", stop_at=1)
    for k in (2, 3, 5, 6):
        go(tmp_path / "cut", rng=k, stop_at=k, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_killed_between_checkpoints_repeats_the_lost_steps(tmp_path):
    class Killed(BaseException):
        pass

    def kill(record):
        if record["step"] == 5:
            raise Killed

    go(tmp_path / "whole")
    with pytest.raises(Killed):
        go(tmp_path / "cut", save_interval=2, watch=kill)
    assert manifest(tmp_path / "cut")["step"] == 4
    assert [record["step"] for record in Run(tmp_path / "cut").metrics()] == [1, 2, 3, 4, 5]
    go(tmp_path / "cut", rng=5, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_evaluating_and_saving_more_often_changes_nothing(tmp_path):
    go(tmp_path / "seldom", eval_interval=100, save_interval=0)
    go(tmp_path / "often", eval_interval=1, eval_batches=7, save_interval=1)
    assert_same_run(tmp_path / "seldom", tmp_path / "often")


def test_all_steps_are_taken_and_no_more(tmp_path):
    result = go(tmp_path / "run", max_steps=5)
    assert result.steps == len(course(tmp_path / "run")) == manifest(tmp_path / "run")["step"] == 5
    assert set(manifest(tmp_path / "run")["optimizer"]["steps"].values()) == {5}
    before = tensors(tmp_path / "run")
    again = go(tmp_path / "run", rng=1, max_steps=5, resume=True)
    assert (again.steps, again.loss, again.stopped, again.val_loss) == (5, None, None, result.val_loss)
    assert len(course(tmp_path / "run")) == 5
    after = tensors(tmp_path / "run")
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_longer_schedule_goes_on(tmp_path):
    go(tmp_path / "run", max_steps=4)
    result = go(tmp_path / "run", max_steps=7, resume=True)
    assert result.steps == 7
    assert [record["step"] for record in course(tmp_path / "run")] == [1, 2, 3, 4, 5, 6, 7]


def test_stop_that_has_passed_takes_no_step(tmp_path):
    go(tmp_path / "run", stop_at=3)
    result = go(tmp_path / "run", stop_at=2, resume=True)
    assert (result.steps, result.loss) == (3, None)


def test_changed_rate_is_allowed(tmp_path):
    go(tmp_path / "run", stop_at=3)
    go(tmp_path / "run", fields={"dropout": 0.0}, resume=True, lr=0.5)
    assert course(tmp_path / "run")[-2]["lr"] > 0.05
    kept = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert (kept["settings"]["lr"], kept["config"]["dropout"]) == (0.5, 0.0)


def test_other_architecture_or_data_are_refused_and_nothing_is_touched(tmp_path):
    go(tmp_path / "run", stop_at=3)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(RunError, match="n_layer=1 in the run, 2 now"):
        go(tmp_path / "run", fields={"n_layer": 2}, resume=True)
    with pytest.raises(RunError, match="trained on other data"):
        go(tmp_path / "run", data=TextData.from_text(TEXT[::-1], block_size=8), resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_best_weights_can_be_sampled_from_but_not_resumed(tmp_path):
    go(tmp_path / "run")
    best = (tmp_path / "run" / "best.safetensors").read_bytes()
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(best)
    assert gpt.load(tmp_path / "run").generate([0], 3).shape == (4,)
    with pytest.raises(CheckpointError, match="no optimiser state"):
        go(tmp_path / "run", resume=True)


def test_resuming_needs_a_run(tmp_path):
    with pytest.raises(RunError, match="needs the folder"):
        go(None, resume=True)
    with pytest.raises(RunError, match=r"nothing does not exist"):
        go(tmp_path / "nothing", resume=True)
    with pytest.raises(RunError, match=r"holds no checkpoint\.safetensors"):
        go(tmp_path, resume=True)


# --- the folder ---


def test_folder_holds_what_is_promised(tmp_path):
    result = go(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "config.json",
    }  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert all({"step", "loss", "lr", "grad_norm", "tokens_per_s"} <= line.keys() for line in lines)
    assert [line["step"] for line in lines if "val_loss" in line] == [2, 4, 6]
    assert lines[-1]["val_loss"] == result.val_loss
    assert lines[-1]["loss"] == result.loss
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["config"]["n_embd"] == 8
    assert config["settings"]["max_steps"] == 6
    assert config["data"]["val_tokens"] == len(make_data().val)


def test_last_validation_is_on_everything(tmp_path):
    data = make_data()
    model = make_model(data)
    result = train(model, data, make_settings(), out=tmp_path / "run")
    assert result.val_loss == evaluate(model, data, 3) != evaluate(model, data, 3, 1)


def test_best_is_the_lowest_validation(tmp_path):
    go(tmp_path / "run", max_steps=30, lr=0.3, eval_interval=1)  # so high a rate that it goes up and down
    losses = {record["step"]: record["val_loss"] for record in Run(tmp_path / "run").metrics()}
    best = manifest(tmp_path / "run", "best.safetensors")
    assert best["best"] == min(losses.values()) < losses[30]
    assert losses[best["step"]] == best["best"]
    assert manifest(tmp_path / "run")["best"] == best["best"]


def test_model_gets_the_tokenizer_and_is_saved_with_it(tmp_path):
    data = make_data()
    model = make_model(data)
    train(model, data, make_settings(), out=tmp_path / "run")
    assert model.tokenizer == data.tokenizer == gpt.load(tmp_path / "run").tokenizer


def test_checkpoint_stands_before_the_first_step(tmp_path):
    def look(record):
        if record["step"] == 1:
            state = read_state(tmp_path / "run" / "checkpoint.safetensors")
            assert state.manifest["step"] == 0
            assert state.moments == {}

            seen.append(record)

    seen = []
    go(tmp_path / "run", watch=look)
    assert seen


def test_started_and_not_stepped_can_be_resumed(tmp_path):
    def kill(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "run", watch=kill)
    go(tmp_path / "run", rng=3, resume=True)
    go(tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_text_without_validation_trains(tmp_path):
    data = TextData.from_text("to be or", block_size=7)
    result = go(tmp_path / "run", data=data)
    assert (result.steps, result.val_loss) == (6, None)
    assert not any("val_loss" in record for record in Run(tmp_path / "run").metrics())
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_task_is_judged_by_exact_answers(tmp_path):
    seen = []
    result = go(tmp_path / "run", data=TaskData("copy", length=2, symbols=3), watch=seen.append)
    assert [record["step"] for record in seen if "exact" in record] == [2, 4, 6]
    assert result.exact == seen[-1]["exact"]
    assert 0 <= result.exact <= 1


def test_bare_ids_train_and_load(tmp_path):
    data = TextData(np.arange(400) % 7, vocab_size=7, block_size=8)
    go(tmp_path / "run", data=data)
    assert gpt.load(tmp_path / "run").tokenizer is None


# --- ends ---


def test_asked_to_stop_it_saves_without_evaluating(tmp_path):
    steps = []
    result = go(
        tmp_path / "run", watch=lambda record: steps.append(record["step"]),
        should_stop=lambda: "enough" if len(steps) == 2 else None,
    )  # fmt: skip
    assert (result.steps, result.stopped, result.val_loss) == (3, "enough", None)
    assert manifest(tmp_path / "run")["step"] == 3


def test_stop_at_and_minutes_say_why(tmp_path):
    assert go(tmp_path / "a", stop_at=2).stopped == "stop_at=2"
    late = go(tmp_path / "b", minutes=1e-9)
    assert (late.steps, late.stopped) == (1, "minutes=1e-09")
    assert late.val_loss is not None
    assert go(tmp_path / "c", stop_at=6).stopped is None


def test_divergence_keeps_what_was_saved(tmp_path):
    seen = []
    with pytest.raises(NonFiniteError, match=r"step \d+.*keeps the state of step \d+") as caught:
        go(tmp_path / "run", max_steps=300, lr=1e3, min_lr=1e3, save_interval=3, eval_interval=1000, watch=seen.append)
    failed = seen[-1]["step"] + 1
    assert re.search(rf"in step {failed}\b", str(caught.value))
    assert manifest(tmp_path / "run")["step"] == (failed - 1) // 3 * 3 >= 3
    assert all(np.isfinite(array).all() for array in tensors(tmp_path / "run").values())
    assert [record["step"] for record in Run(tmp_path / "run").metrics()] == list(range(1, failed))


def test_validation_loss_that_is_not_finite_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "evaluate", lambda *arguments: math.nan)
    with pytest.raises(NonFiniteError, match=r"validation loss became nan after step 2; .* keeps the state of step 0"):
        go(tmp_path / "run")
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_disk_full_while_saving_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    write = os.write
    full = []

    def limited(descriptor, content):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", limited)
    with pytest.raises(OSError, match=r"cannot write [\d,]+ bytes: No space left"):
        go(tmp_path / "run", save_interval=2, watch=lambda record: full.append(1) if record["step"] == 3 else None)
    monkeypatch.undo()
    assert manifest(tmp_path / "run")["step"] == 2
    assert not list((tmp_path / "run").glob("*.tmp"))


def test_default_folder_and_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_data()
    monkeypatch.setattr(MODULE, "Settings", lambda: make_settings(max_steps=1))
    first = train(make_model(data), data).run.path
    assert first.parent.name == "runs"
    assert go(None).run.path != first


def test_no_thread_is_left_behind(tmp_path):
    def interrupt(record):
        working.append(threading.active_count())
        if record["step"] == 2:
            raise KeyboardInterrupt

    before, working = threading.active_count(), []
    go(tmp_path / "a", threads=3)
    assert threading.active_count() == before
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "b", threads=3, watch=interrupt)
    assert threading.active_count() == before
    assert working == [before + 2] * 2


def test_without_threadpoolctl(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert go(tmp_path / "run").steps == 6
