"""Progress, signals, and text that does nothing to a terminal."""

import io
import json
import os
import signal
import sys
import threading
import unicodedata

import pytest

from autodiff.commands.console import printable
from gpt.console import catch_signals, note, show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def record(step, **scores):
    return {"step": step, "loss": 2.5 - step / 10, "lr": 1e-3, "grad_norm": 1.0, "tokens_per_s": 12345.6, **scores}


# --- text ---


def test_no_control_reaches_the_terminal():
    everything = "".join(map(chr, range(0x3000)))
    shown = printable(everything)
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI"}]
    assert printable("\x1b]0;title\x07\r\x9b31m\x7f") == r"\x1b]0;title\x07\x0d\x9b31m\x7f"
    assert printable("\u202eabc") == r"\u202eabc"


def test_text_of_people_stays():
    text = "Tab\tand line\nend, ÄÖ, 中文, \u200d, 🙂, \\x1b"
    assert printable(text) == text


def test_note_is_one_safe_line(capsys):
    note("a\x1bb")
    assert capsys.readouterr() == ("", "note: a\\x1bb\n")


# --- progress ---


def test_lines_come_at_evaluations_and_at_the_end(capsys):
    with show_progress(0, 5) as watch:
        for step in (1, 2, 3, 4, 5):
            watch(record(step, **({"val_loss": 2.25} if step == 3 else {})))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split()[1] for line in lines] == ["3/5", "5/5"]
    assert "loss 2.2000  val 2.2500  tok/s 12,346" in lines[0]
    assert lines[1].endswith("0 s left")


def test_lines_come_now_and_then(capsys, monkeypatch):
    clock = iter([100.0, *(100.0 + 4 * step for step in range(1, 7))])
    monkeypatch.setattr("gpt.console.time.monotonic", lambda: next(clock))
    with show_progress(10, 100) as watch:
        for step in range(11, 17):
            watch(record(step))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["13/100", "16/100"]
    assert lines[0].endswith("348 s left")  # 87 more at 4 s each


def test_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with show_progress(2, 5) as watch:
        for step in (3, 4, 5):
            watch(record(step, **({"val_loss": 2.25, "exact": 0.5} if step == 3 else {})))
    shown = terminal.getvalue()
    assert "5/5" in shown
    score = "loss=2.000, val=2.250, exact=50.0%, tok/s=12,346"
    for part in ("2/5", score, "left", "step 3/5  loss 2.2000  val 2.2500"):
        assert part in shown


def test_lines_on_a_terminal_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with show_progress(0, 1) as watch:
        watch(record(1))
    assert terminal.getvalue().startswith("step 1/1  loss 2.4000")


def test_json_lines_go_to_standard_output(capsys):
    with show_progress(0, 2, log_json=True) as watch:
        watch(record(1))
        watch(record(2, val_loss=2.0))
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [record(1), record(2, val_loss=2.0)]
    assert err == ""


# --- signals ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_is_noted_and_handlers_come_back(number, code, capfd):
    before = signal.getsignal(number)
    with catch_signals() as stop:
        assert (stop.reason(), stop.code) == (None, 0)
        signal.raise_signal(number)
        assert (stop.reason(), stop.code) == (f"signal {number.name}", code)
        assert signal.getsignal(number) is before  # a second one acts as it would have
    assert signal.getsignal(number) is before
    assert "once more to stop at once" in capfd.readouterr().err


def test_second_interrupt_interrupts():
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with catch_signals() as stop:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert stop.code == 130
    finally:
        signal.signal(signal.SIGINT, previous)


def test_ignored_signal_stays_ignored():
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with catch_signals() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert stop.reason() is None
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_other_threads_install_nothing():
    found = []

    def work():
        with catch_signals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_signal_does_not_need_a_standard_error():
    kept = os.dup(2)
    os.close(2)
    try:
        with catch_signals() as stop:
            signal.raise_signal(signal.SIGTERM)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert stop.code == 143
