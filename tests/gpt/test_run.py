"""A run's folder: made once, found again, read without trust."""

import datetime
import json
import os
from pathlib import Path

import numpy as np
import pytest

from gpt import GPT, GPTConfig, Settings, load
from gpt.checkpoint import CheckpointError, save_checkpoint
from gpt.data import TextData
from gpt.run import BEST, CHECKPOINT, Run, RunError, State, checkpoint_of, newest, read_state
from gpt.trainer import Trainer

TEXT = "to be or not to be, that is the question. " * 10


def make_state(**manifest):
    data = TextData.from_text(TEXT, block_size=8)
    model = GPT(GPTConfig(vocab_size=data.vocab_size, block_size=8, n_layer=1, n_head=1, n_embd=4), rng=0)
    trainer = Trainer(model, data, Settings(max_steps=2, batch_size=2))
    trainer.step()
    state = trainer.state()
    state.manifest.update(manifest)
    return state


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run")
    made.save(CHECKPOINT, make_state())
    return made


# --- making ---


def test_named_folder_is_made_with_those_above(tmp_path):
    assert Run.create(tmp_path / "a" / "b" / "c").path.is_dir()


def test_existing_folder_is_refused(tmp_path, run):
    with pytest.raises(RunError, match=r"already holds a run; go on with it by --resume, or choose another --out"):
        Run.create(run.path)
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match=r"other already exists; choose another --out"):
        Run.create(tmp_path / "other")


def test_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for path in (tmp_path / "file" / "run", tmp_path / "file" / "more" / "run"):
        with pytest.raises(RunError, match=r"cannot be made: .*; choose another --out"):
            Run.create(path)
    with pytest.raises(RunError, match="already exists"):
        Run.create(tmp_path / "file")


@pytest.mark.parametrize("which", ["run", "above"])
def test_forbidden_folder_is_refused(tmp_path, monkeypatch, which):
    mkdir = Path.mkdir

    def forbidden(self, *arguments, **settings):
        if self.name == which:
            raise PermissionError(13, "Permission denied", str(self))
        mkdir(self, *arguments, **settings)

    monkeypatch.setattr(Path, "mkdir", forbidden)
    with pytest.raises(RunError, match=r"run cannot be made: Permission denied; choose another --out"):
        Run.create(tmp_path / "above" / "run")


def test_default_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    today = datetime.date.today().isoformat()
    assert [Run.create().path.name for _ in range(3)] == [f"{today}-1", f"{today}-2", f"{today}-3"]


def test_default_folders_run_out(tmp_path, monkeypatch):
    def exists(path):
        raise FileExistsError

    monkeypatch.setattr(Run, "_make", exists)
    with pytest.raises(RunError, match="is full of today's runs; name a folder with --out"):
        Run.create()


# --- finding ---


def test_newest_is_that_of_the_newest_checkpoint(tmp_path):
    for name, age in (("b", 30), ("a", 10), ("c", 20)):
        made = Run.create(tmp_path / name)
        made.save(CHECKPOINT, make_state())
        os.utime(made.path / CHECKPOINT, (1e9 - age, 1e9 - age))
    Run.create(tmp_path / "empty")
    assert newest(tmp_path).name == "a"


def test_no_run_yet(tmp_path):
    with pytest.raises(RunError, match=r"there is no run under .*train one first"):
        newest(tmp_path)


def test_checkpoint_of(tmp_path, run):
    assert checkpoint_of(run.path) == checkpoint_of(str(run.path / CHECKPOINT)) == run.path / CHECKPOINT
    with pytest.raises(RunError, match=r"holds no checkpoint\.safetensors"):
        checkpoint_of(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        checkpoint_of(tmp_path / "nothing")


# --- reading ---


def test_state_comes_back(run):
    saved, read = make_state(), run.restore()
    for before, after in ((saved.weights, read.weights), (saved.moments, read.moments)):
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)
    assert read.manifest == saved.manifest
    assert read.settings() == Settings(max_steps=2, batch_size=2, threads=1)  # as many as such a step is worth
    assert read.tokenizer().decode([0, 1]) == " ,"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", "3"), ("step", None), ("best", "low"), ("config", [1]), ("settings", None), ("data", "text"),
        ("tokenizer", 3), ("optimizer", None),
    ],
)  # fmt: skip
def test_manifest_of_another_kind_is_refused(run, name, value):
    run.save(CHECKPOINT, make_state(**{name: value}))
    with pytest.raises(CheckpointError, match=f"manifest's '{name}' is .*not a checkpoint of a run"):
        run.restore()


def test_checkpoint_that_is_none_of_a_run_is_refused(tmp_path):
    save_checkpoint(tmp_path / "other.safetensors", {"w": np.zeros(2)}, {"step": 1})
    with pytest.raises(CheckpointError, match="the manifest's 'best' is missing"):
        read_state(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("settings", {"max_stepps": 2}, "settings are not valid"),
        ("settings", {"max_steps": "2"}, "settings are not valid"),
        ("tokenizer", {"type": "word"}, "tokenizer is not valid"),
        ("tokenizer", {"type": "char", "chars": ["a", "b"]}, "the tokenizer has 2 tokens, the model vocab_size=15"),
        ("config", {"vocab_size": 14, "n_layers": 2}, "config is not valid: unknown config field 'n_layers'"),
        ("config", {"vocab_size": 15, "n_layer": 2}, "does not fit"),
    ],
)
def test_manifest_with_other_values_is_refused(run, name, value, message):
    run.save(CHECKPOINT, make_state(**{name: value}))
    with pytest.raises(CheckpointError, match=f"{CHECKPOINT}.*{message}"):
        load(run.path)


def test_damaged_checkpoint_is_refused(run):
    content = bytearray((run.path / CHECKPOINT).read_bytes())
    content[-1] ^= 1
    (run.path / CHECKPOINT).write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="damaged"):
        load(run.path)


def test_load_gives_the_model_back(run):
    state = make_state()
    run.save(BEST, State(state.weights, {}, state.manifest))
    for path in (run.path, str(run.path), run.path / BEST):
        model = load(path)
        assert not model.training
        assert model.config.n_embd == 4
        assert all(np.array_equal(array, state.weights[name]) for name, array in model.state_dict().items())


# --- metrics ---


def test_metrics_come_back_up_to_the_damage(run):
    for step in (1, 2, 3):
        run.append({"step": step, "loss": 1 / step})
    assert [record["step"] for record in run.metrics()] == [1, 2, 3]
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    for damage in (b'{"step": 4, "lo', b"\xff\xfe\n", b"[1]\n", b'{"step": 4}\n', b'{"step": "4", "loss": 1.0}\n'):
        path.write_bytes(whole + damage + b'{"step": 9, "loss": 1.0}\n')
        assert [record["step"] for record in run.metrics()] == [1, 2, 3]
    path.write_bytes(whole[:-5])
    assert [record["step"] for record in run.metrics()] == [1, 2]


def test_forgetting_the_steps_that_were_lost(run):
    run.forget_after(3)
    assert run.metrics() == []
    for step in (1, 2, 3, 4):
        run.append({"step": step, "loss": 0.1 + step})
    run.forget_after(2)
    run.append({"step": 3, "loss": 7.0})
    assert [record["loss"] for record in run.metrics()] == [1.1, 2.1, 7.0]


def test_metrics_are_strict_json(run):
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.append({"step": 1, "loss": float("nan")})


def test_unwritable_metrics_are_named(run, monkeypatch):
    (run.path / "metrics.jsonl").mkdir()
    with pytest.raises(OSError, match=r"cannot write: .*metrics\.jsonl"):
        run.append({"step": 1, "loss": 1.0})


def test_config_is_readable_by_others(run):
    run.write_config({"data": {"source": "\u6587.txt"}, "settings": {"lr": 0.1}})
    assert json.loads((run.path / "config.json").read_bytes()) == run.config()
    assert run.config()["data"]["source"] == "\u6587.txt"
