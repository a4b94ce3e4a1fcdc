"""The command line as a whole: what is printed where, exit codes, signals, fresh processes, odd consoles."""

import builtins
import errno
import importlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpt.__main__ import main
from gpt.checkpoint import load_checkpoint
from gpt.run import Run
from gpt.trainer import Trainer

from .commands import ROOT, SMALL, TEXT, gpt, process, train

TRAIN = importlib.import_module("gpt.train")  # the attribute `gpt.train` is the function
pytestmark = pytest.mark.usefixtures("here")
run_of_signals = pytest.mark.skipif(os.name == "nt", reason="Windows cannot send a signal to one process alone")


def tensors(path):
    return load_checkpoint(Path(path) / "checkpoint.safetensors")[0]


# --- train ---


def test_without_options_the_text_that_python_carries(capsys, reports):
    out, _ = gpt(capsys, "train", "--max-steps=1", "--batch-size=32")
    found = dict(re.findall(r"^(\S+(?: \S+)*?)  +(.*)$", out, re.MULTILINE))
    assert "built-in text" in found["source"]
    assert int(found["tokens"].replace(",", "")) > 300_000
    assert int(found["vocab size"]) > 80
    assert int(found["parameters"].replace(",", "")) > 10_000
    assert re.search(r"uniform \(ln V\) 4\.\d+, unigram 3\.\d+, bigram 2\.\d+ nats", found["baselines"])
    assert re.fullmatch(r"\d\.\d{4} nats per token, \d\.\d{4} bits per byte", found["validation loss"])
    assert re.search(r"the model is \d\.\d{4} (above|below)", found["bigram"])
    assert "--- sample ---" in out
    folder = Path(found["run"])
    assert folder.parent == Path("runs")
    assert {path.name for path in folder.iterdir()} == {
        "checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "config.json", "loss.svg", "report.html",
    }  # fmt: skip


def test_learns_its_text(capsys):
    out, err = train(capsys, "--max-steps=300", "--lr=0.02", "--n-embd=16", "--out=run")
    assert re.search(r"bigram .*the model is \d\.\d+ below", out)
    assert err.splitlines()[-1].startswith("step 300/300")


def test_precedence_of_flags_file_preset_and_default(capsys):
    Path("a.toml").write_text('preset = "classic"\nn_layer = 1\nlr = 0.5\nmax_steps = 2\n', encoding="utf-8")
    words = ["train", "--data", "wood.txt", "--config=a.toml", "--lr=0.25", "--n-embd=16", "--out=run"]
    gpt(capsys, *words)
    saved = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    config, settings = saved["config"], saved["settings"]
    assert (config["pos"], config["n_layer"], config["n_embd"], config["n_head"]) == ("sinusoidal", 1, 16, 4)
    assert (settings["lr"], settings["max_steps"]) == (0.25, 2)
    assert config["vocab_size"] == saved["data"]["vocab_size"] != 65


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"pos": "rope", "n_layer": 2, "n_embd": 64, "d_ff": 192, "batch_size": 12, "lr": 3e-3}),
        (["--n-embd=32"], {"pos": "rope", "n_layer": 2, "n_embd": 32, "d_ff": 128}),
        (["--preset=tiny"], {"pos": "learned", "n_layer": 1, "block_size": 16, "batch_size": 16, "lr": 1e-3}),
        (["--task=copy"], {"pos": "learned", "n_layer": 3, "n_embd": 48, "block_size": 11, "batch_size": 64}),
        (["--task=copy", "--preset=tiny"], {"n_layer": 1, "block_size": 11, "batch_size": 64, "min_lr": 2e-4}),
    ],
)
def test_defaults_suit_what_is_trained(capsys, words, expected):
    data = [] if "--task=copy" in words else ["--data", "wood.txt"]
    gpt(capsys, "train", *data, *words, "--max-steps=1", "--out=run")
    saved = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    found = {**saved["config"], **saved["settings"]}
    assert {name: found[name] for name in expected} == expected


def test_json_lines_alone_on_standard_output(capsys):
    out, err = train(capsys, "--max-steps=4", "--eval-interval=2", "--log-json")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    assert ["val_loss" in record for record in records] == [False, True, False, True]
    assert "validation loss" in err


def test_task_reports_exact_answers(capsys):
    out, err = train(capsys, "--task", "copy", "--max-steps=2", "--n-embd=16", "--out=run")
    assert re.search(r"exact +\d+\.\d\d % of the held-out questions", out)
    assert "exact 0" in err or "%" in err
    assert "--- sample ---" not in out
    assert json.loads(Path("run/config.json").read_text(encoding="utf-8"))["config"]["block_size"] == 11
    assert "exact" in gpt(capsys, "eval", "run")[0]


def test_two_files_and_their_encoding(capsys):
    Path("a.txt").write_text("中文" * 50, encoding="gb18030")
    out, _ = train(capsys, "--data", "a.txt", "a.txt", "--encoding=gb18030", "--max-steps=1", "--out=run")
    assert "a.txt + a.txt" in out
    assert re.search(r"^vocab size +3$", out, re.MULTILINE)  # both characters, and the line end between the files
    assert "validation loss" in gpt(capsys, "eval", "run")[0]


def test_short_text_says_how_it_is_validated(capsys):
    Path("short.txt").write_text("to be or n", encoding="utf-8")
    out, err = train(capsys, "--data", "short.txt", "--max-steps=1")
    assert "note: no validation: " in err
    assert "validation loss" not in out
    assert "run" in out


# --- resuming ---


@pytest.mark.parametrize("threads", [1, 2])
def test_resumed_in_a_fresh_process_bitwise(capsys, threads):
    words = ["--dropout=0.2", "--max-steps=20", f"--threads={threads}"]
    train(capsys, *words, "--out=whole")
    train(capsys, *words, "--out=cut", "--stop-at=10")
    with process("train", "--resume", "--out=cut") as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err.decode()
    whole, cut = tensors("whole"), tensors("cut")
    assert whole.keys() == cut.keys()
    assert all(whole[name].tobytes() == cut[name].tobytes() for name in whole)
    losses = [
        [json.loads(line)["loss"] for line in Path(name, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("whole", "cut")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 20


def test_resuming_a_finished_run_trains_no_more(capsys):
    train(capsys, "--max-steps=5", "--out=run")
    before = tensors("run")
    out, _ = gpt(capsys, "train", "--resume", "--out=run")
    assert re.search(r"^steps +5$", out, re.MULTILINE)
    assert len(Path("run/metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 5
    assert all(np.array_equal(before[name], array) for name, array in tensors("run").items())


def test_newest_run_is_resumed_with_changes_named(capsys):
    train(capsys, "--max-steps=4", "--stop-at=2")
    _, err = gpt(capsys, "train", "--resume", "--lr=0.001", "--max-steps=3")
    assert "note: lr changes from 0.01 to 0.001" in err
    assert "note: min_lr changes from 0.001 to 0.0001" in err
    assert "note: max_steps changes from 4 to 3" in err


def test_lowest_rate_that_was_chosen_stays(capsys):
    train(capsys, "--max-steps=2", "--stop-at=1", "--min-lr=0.002", "--out=run")
    _, err = gpt(capsys, "train", "--resume", "--out=run", "--lr=0.01")
    assert "changes" not in err


def test_same_command_with_resume_goes_on(capsys):
    words = ["--max-steps=4", "--out=run", "--preset=tiny", "--dropout=0.1"]
    train(capsys, *words, "--stop-at=2")
    out, err = train(capsys, *words, "--data", "wood.txt", "--resume")
    assert re.search(r"^steps +4$", out, re.MULTILINE)
    assert "changes" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n-layer=2", "--n-embd=16"], "(n_layer=1 in the run, 2 now; n_embd=8 in the run, 16 now)"),
        (["--block-size=16"], "block_size=8 in the run, 16 now"),
        (["--preset=toy"], "tied=True in the run, False now"),
        (["--vocab-size=9"], "in the run, 9 now"),
        (["--data", "other.txt"], "trained on other data (wood.txt) than other.txt"),
        (["--data", "strange.txt"], "strange.txt: characters outside the vocabulary: '\\xe9' (U+00E9) at position 4"),
        (["--task", "sort"], "trained on other data (wood.txt) than task sort"),
    ],
)
def test_resume_with_something_else_is_refused(capsys, words, message):
    train(capsys, "--max-steps=2", "--out=run")
    Path("other.txt").write_text(TEXT[::-1], encoding="utf-8")
    Path("strange.txt").write_text("wood\xe9" + TEXT, encoding="utf-8")
    _, err = gpt(capsys, "train", "--resume", "--out=run", *words, code=1)
    assert message.replace("\\xe9", "\xe9") in err


def test_resume_of_changed_or_missing_data_is_refused(capsys):
    train(capsys, "--max-steps=2", "--out=run")
    Path("wood.txt").write_text(TEXT + "wood", encoding="utf-8")
    assert "trained on other data" in gpt(capsys, "train", "--resume", "--out=run", code=1)[1]
    Path("wood.txt").unlink()
    assert "wood.txt does not exist" in gpt(capsys, "train", "--resume", "--out=run", code=1)[1]


# --- bad input ---


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--data", "missing.txt"], 1, "missing.txt does not exist"),
        (["--data", "empty.txt"], 1, "empty.txt is empty"),
        (["--data", "."], 1, ". is a folder"),
        (["--data", "abc.txt"], 1, "abc.txt: 3 token(s) are too few for block_size=8"),
        (["--data", "bytes.txt"], 1, "bytes.txt is not utf-8: byte 0xff at offset 2"),
        (["--data", "gbk.txt"], 1, "--encoding gb18030"),
        (["--data", "mark.txt"], 1, "mark.txt is not utf-16-le"),
        (["--data", "wood.txt", "--encoding=utf-9"], 1, "unknown text encoding 'utf-9'"),
        (["--encoding=gbk", "--task", "sort"], 2, "--encoding is that of the files of --data"),
        (["--data", "wood.txt", "--task=sort"], 2, "--data and --task exclude each other"),
        (["--data", "wood.txt", "--vocab-size=500"], 2, "tokens; leave it out"),
        (["--n-head=3"], 2, "n_embd=8 is not divisible by n_head=3"),
        (["--n-embd=6", "--n-head=2", "--pos=rope"], 2, "must be even with pos='rope'"),
        (["--n-embd=1000000000"], 2, "reduce a size"),
        (["--task", "sort", "--block-size=4"], 2, "windows of 11 tokens of task sort do not fit"),
        (["--max-steps=0"], 2, "max_steps=0 must be an integer from 1"),
        (["--min-lr=1"], 2, "min_lr=1.0 is above lr=0.01"),
        (["--dropout=1"], 2, "dropout"),
        (["--seed=-1"], 2, "seed=-1"),
        (["--max_iters=5"], 2, "here it is --max-steps"),
        (["--n_layer=2.5"], 2, "--n-layer: '2.5' is not a whole number"),
        (["--out=wood.txt"], 1, "wood.txt already exists; choose another --out"),
        (["--out=wood.txt/run"], 1, "cannot be made: wood.txt is not a folder"),
        (["--out=taken"], 1, "taken already exists"),
        (["--resume"], 1, "there is no run under runs"),
        (["--resume", "--out=nowhere"], 1, "nowhere does not exist"),
        (["--resume", "--out=taken"], 1, "taken holds no checkpoint.safetensors"),
        (["--resume", "--out=damaged"], 1, "checkpoint.safetensors: truncated"),
        (["--config=none.toml"], 2, "--config none.toml: cannot be read"),
    ],
)
def test_bad_input_is_one_line(capsys, words, code, message):
    for name, content in {
        "empty.txt": b"", "abc.txt": b"abc", "bytes.txt": b"ab\xff\xfe", "gbk.txt": "中文".encode("gbk") * 20,
        "mark.txt": b"\xff\xfea",
    }.items():  # fmt: skip
        Path(name).write_bytes(content)
    Path("taken").mkdir()
    Path("damaged").mkdir()
    Path("damaged/checkpoint.safetensors").write_bytes(b"abc")
    out, err = train(capsys, *words, code=code)
    assert message in err
    assert "--- sample ---" not in out


def test_numbers_may_be_written_as_integers(capsys):
    train(capsys, "--dropout=0", "--lr=1", "--max-steps=1", "--clip=0")


def test_debug_shows_where(capsys):
    with pytest.raises(ValueError, match=r"missing\.txt"):
        main(["train", "--data", "missing.txt", "--debug"])


def test_existing_run_is_refused(capsys):
    train(capsys, "--max-steps=1", "--out=run")
    before = Path("run/checkpoint.safetensors").read_bytes()
    assert "run already holds a run; go on with it by --resume" in train(capsys, "--out=run", code=1)[1]
    assert Path("run/checkpoint.safetensors").read_bytes() == before


def test_divergence_is_one_line_with_step_and_op(capsys, monkeypatch):
    monkeypatch.setattr("gpt.console.PAUSE", 1e9)
    words = ["--lr=1e3", "--min-lr=1e3", "--max-steps=300", "--save-interval=2", "--eval-interval=1000", "--out=run"]
    _, err = train(capsys, *words, code=1)
    assert re.search(r"(loss|gradient of \S+) became (nan|inf) in step \d+", err)
    assert "run keeps the state of step" in err
    assert all(np.isfinite(array).all() for array in tensors("run").values())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_disk_that_cannot_be_written(capsys, monkeypatch, code):
    def fail(descriptor, content):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("gpt.files.os.write", fail)
    _, err = train(capsys, "--max-steps=1", "--out=run", code=1)
    assert re.search(rf"cannot write [\d,]+ bytes: {os.strerror(code)}.*checkpoint\.safetensors", err)
    assert not Path("run").exists()


def test_memory_that_does_not_suffice(capsys, monkeypatch):
    def fail(*arguments, **settings):
        raise MemoryError("Unable to allocate 8.00 TiB")

    monkeypatch.setattr("gpt.__main__.GPT", fail)
    assert "Unable to allocate" in train(capsys, code=1)[1]


def test_interrupt_before_training_is_quiet(capsys, monkeypatch):
    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpt.__main__.open_data", interrupt)
    assert train(capsys, code=130) == ("", "")


def test_python_without_its_help_topics(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert "--data FILE" in gpt(capsys, "train", code=1)[1]


def test_without_the_extras_all_but_the_picture(capsys, monkeypatch, reports):
    for name in ("tqdm", "matplotlib", "threadpoolctl"):
        monkeypatch.setitem(sys.modules, name, None)
    out, err = train(capsys, "--max-steps=2", "--out=run")
    assert "validation loss" in out
    for name in ("tqdm", "matplotlib", "threadpoolctl"):
        assert f"note: without {name}, " in err
    assert err.count("pip install 'autodiff-gpt[train]'") == 3
    assert not Path("run/loss.svg").exists()
    assert Path("run/report.html").exists()


def test_extras_whose_import_fails(capsys, monkeypatch, reports):
    real = builtins.__import__

    def refuse(name, *arguments, **settings):
        if name.split(".")[0] in {"tqdm", "matplotlib", "threadpoolctl"}:
            raise ImportError(name)
        return real(name, *arguments, **settings)

    monkeypatch.setattr(builtins, "__import__", refuse)
    out, err = train(capsys, "--max-steps=2", "--out=run")
    assert "validation loss" in out
    assert "needs matplotlib: pip install" in err


# --- processes ---


def test_module_runs():
    child = subprocess.run(
        [sys.executable, "-m", "gpt", "info"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (1, "")
    assert child.stderr.startswith("python -m gpt info: there is no run under runs")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("where", ["step", "evaluate", "save"])
def test_signal_at_any_time_leaves_a_run_to_go_on_with(capsys, monkeypatch, where, number, code):
    places = {"step": (Trainer, "step"), "evaluate": (TRAIN, "evaluate"), "save": (Run, "append")}
    owner, name = places[where]
    inner, calls = getattr(owner, name), itertools.count(1)

    def interrupted(*arguments, **settings):
        if next(calls) == 2:
            signal.raise_signal(number)
        return inner(*arguments, **settings)

    monkeypatch.setattr(owner, name, interrupted)
    out, err = train(capsys, "--max-steps=100", "--eval-interval=1", "--eval-batches=1", "--out=run", code=code)
    assert "--- sample ---" not in out
    step = load_checkpoint("run/checkpoint.safetensors")[1]["step"]
    assert step in {2, 3}
    assert f"note: signal {signal.Signals(number).name}; step {step} is saved, go on with --resume --out run" in err


@run_of_signals
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_finishes_the_step_and_saves(capsys, number, code, threads):
    words = [*SMALL, "--data", "wood.txt", "--max-steps=100000", "--dropout=0.1", "--save-interval=0", "--out=run"]
    with process("train", *words, f"--threads={threads}", "--log-json") as child:
        for _ in range(5):
            child.stdout.readline()
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert b"Traceback" not in err
    assert b"go on with --resume --out run" in err
    step = json.loads(out.splitlines()[-1])["step"]
    assert load_checkpoint("run/checkpoint.safetensors")[1]["step"] == step
    assert not list(Path("run").glob("*.tmp"))
    out, _ = gpt(capsys, "train", "--resume", "--out=run", f"--stop-at={step + 2}")
    assert f"{step + 2} (ended by stop_at={step + 2})" in out


@pytest.mark.skipif(os.name == "nt", reason="Windows has no broken pipes")
def test_reader_that_leaves_is_no_traceback(trained):
    with process("sample", trained, "--max-new-tokens=20", "--seed=1") as child:
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 1
