"""The command line and threads: how many there are, and why, is printed; flags, resumed runs, evaluation."""

import json
import re
import threading as threading_module
from pathlib import Path

import pytest

from gpt.__main__ import main

TEXT = "how much wood would a woodchuck chuck if a woodchuck could chuck wood? as much as it could.\n" * 8
SMALL = ["--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--batch-size=4", "--max-steps=4"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wood.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr("gpt.__main__.write_report", lambda *arguments: None)  # it takes longer than all the rest


@pytest.fixture
def pretend(monkeypatch):
    """Pretend that threads are worth while here."""

    def change(cores, name="fine-blas", limited=True):
        monkeypatch.setattr("gpt.shards.usable_cores", lambda: cores)
        monkeypatch.setattr("gpt.shards.TURN", 1.0)
        for module in ("shards", "__main__"):
            monkeypatch.setattr(f"gpt.{module}.blas", lambda: (name, limited))

    return change


def threads(capsys, *words):
    """Train, and return what is printed of threads."""
    assert main(["train", *words]) == 0
    out, err = capsys.readouterr()
    assert "threads changes" not in err  # the line says it
    return re.search(r"^threads +(.*)$", out, re.MULTILINE)[1]


def begin(capsys, *words):
    return threads(capsys, *SMALL, "--data", "wood.txt", "--out=run", *words)


def test_number_of_threads_and_its_reason_are_printed(capsys, pretend):
    pretend(2)
    assert begin(capsys) == "2, of 2 cores; BLAS (fine-blas) on one thread each"


def test_little_work_is_for_one_thread(capsys):
    assert re.fullmatch(r"1, .* for more: 0 MFLOP; BLAS \(\S+\) .*", begin(capsys))


def test_blas_that_cannot_be_limited_is_named(capsys, pretend):
    pretend(2, "accelerate", limited=False)
    cannot = r"BLAS \(accelerate\) cannot be limited to one thread each"
    assert re.fullmatch(rf"[12], by timing: \d+ ms on 1 against \d+ ms on 2; {cannot}", begin(capsys))
    assert re.fullmatch(rf"3, as asked for; {cannot}", begin(capsys, "--threads=3", "--out=other"))


def test_resumed_run_keeps_its_number_unless_asked(capsys, pretend):
    pretend(2)
    begin(capsys, "--stop-at=1")
    pretend(4)
    assert threads(capsys, "--resume", "--out=run", "--stop-at=2").startswith("2, as before;")
    assert threads(capsys, "--resume", "--out=run", "--threads=3").startswith("3, as asked for;")
    assert json.loads(Path("run/config.json").read_text(encoding="utf-8"))["settings"]["threads"] == 3


def test_number_in_a_file_of_flags(capsys):
    Path("a.toml").write_text("threads = 2\n", encoding="utf-8")
    assert begin(capsys, "--config=a.toml").startswith("2, as asked for;")


def test_evaluation_does_not_depend_on_it(capsys):
    found = set()
    for number in (1, 3):
        begin(capsys, "--lr=0", f"--threads={number}", f"--out={number}")
        assert main(["eval", str(number)]) == 0
        *scores, checkpoint = capsys.readouterr().out.splitlines()
        assert checkpoint.startswith("checkpoint")
        found.add(tuple(scores))
    assert len(found) == 1


@pytest.mark.parametrize("value", ["0", "-1", "1025"])
def test_number_is_checked(capsys, value):
    assert main(["train", *SMALL, "--data", "wood.txt", f"--threads={value}"]) == 2
    assert f"threads={value} must be an integer from 1 to 1024" in capsys.readouterr().err


def test_evaluation_starts_no_more_threads_than_a_batch_has_rows(capsys, monkeypatch):
    main(["train", "--data", "wood.txt", *SMALL, "--threads", "1000"])
    begun = []
    begin = threading_module.Thread.start
    monkeypatch.setattr(threading_module.Thread, "start", lambda thread: (begun.append(thread), begin(thread)))
    assert main(["eval"]) == 0
    assert len(begun) == 3


def test_without_so_many_threads_no_folder_is_left(capsys, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading_module.Thread, "start", refuse)
    assert main(["train", "--data", "wood.txt", *SMALL, "--threads", "2", "--out", "new"]) == 1
    assert "2 threads could not be started" in capsys.readouterr().err
    assert not Path("new").exists()
