"""The commands that read a run: sample, eval, info."""

import json
import re
import sys
from pathlib import Path

import pytest

from .commands import TEXT, gpt, process, train

pytestmark = pytest.mark.usefixtures("here")


# --- sample ---


def test_greedy_needs_no_seed(capsys, trained):
    words = ["sample", trained, "--temperature=0", "--max-new-tokens=30", "--prompt=wood"]
    texts = {gpt(capsys, *words, *more)[0] for more in ([], ["--seed=1"], ["--seed=2", "--top-k=5"], ["--top-p=0.5"])}
    assert len(texts) == 1
    assert texts.pop().startswith("wood")
    top = {gpt(capsys, "sample", trained, "--top-k=1", "--max-new-tokens=30", "--prompt=wood")[0] for _ in range(2)}
    assert len(top) == 1


def test_seed_decides(capsys, trained):
    words = ["sample", trained, "--max-new-tokens=40", "--temperature=1.5"]
    one, same, other, any_, another = (
        gpt(capsys, *words, *seed)[0] for seed in (["--seed=1"], ["--seed=1"], ["--seed=2"], [], [])
    )
    assert one == same != other
    assert any_ != another


def test_samples_are_independent_of_their_number(capsys, trained):
    words = ["sample", trained, "--seed=3", "--max-new-tokens=20", "--temperature=1.5", "--prompt=how"]
    one, three = gpt(capsys, *words)[0], gpt(capsys, *words, "-n", "3")[0]
    parts = three.removesuffix("\n").split("\n---\n")
    assert len(parts) == len(set(parts)) == 3
    assert parts[0] == one.removesuffix("\n")


def test_top_k_of_zero_or_of_many_is_off(capsys, trained):
    words = ["sample", trained, "--seed=3", "--max-new-tokens=20"]
    assert len({gpt(capsys, *words, *more)[0] for more in ([], ["--top-k=0"], ["--top-k=99"], ["--top-p=1"])}) == 1


def test_past_the_context(capsys, trained):
    out, _ = gpt(capsys, "sample", trained, "--prompt=wood", "--max-new-tokens=40", "--seed=0")
    assert len(out.removesuffix("\n")) == 44


def test_prompt_longer_than_the_context_is_noted(capsys, trained):
    out, err = gpt(capsys, "sample", trained, "--prompt=how much wood", "--max-new-tokens=1")
    assert err == "note: the prompt has 13 tokens, the model sees only the last block_size=8 of them\n"
    assert out.startswith("how much wood")


def test_default_prompt_where_the_text_has_no_line_end(capsys):
    Path("plain.txt").write_text("abcabcabd" * 20, encoding="utf-8")
    train(capsys, "--data", "plain.txt", "--max-steps=1", "--out=run")
    assert gpt(capsys, "sample", "run", "--max-new-tokens=2")[0].startswith("a")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--prompt=h\xe9\u2603"], 2, "'\xe9' (U+00E9) at position 1, '\u2603' (U+2603) at position 2"),
        (["--prompt="], 2, "--prompt is empty"),
        (["--temperature=-1"], 2, "temperature=-1.0"),
        (["--temperature=nan"], 2, "'nan' is not a number"),
        (["--top-k=-1"], 2, "top_k=-1"),
        (["--top-p=0"], 2, "top_p=0.0"),
        (["--top-p=2"], 2, "top_p=2.0"),
        (["-n", "0"], 2, "--num-samples 0"),
        (["--max-new-tokens=-1"], 2, "max_new_tokens=-1"),
        (["--seed=-1"], 2, "seed=-1"),
        (["--start=x"], 2, "here it is --prompt"),
        (["more"], 2, "unexpected argument 'more'"),
    ],
)
def test_bad_request_for_a_sample_is_one_line(capsys, trained, words, code, message):
    assert message in gpt(capsys, "sample", trained, *words, code=code)[1]


def test_sampling_needs_a_run_and_a_tokenizer(capsys):
    assert "there is no run" in gpt(capsys, "sample", code=1)[1]
    from gpt import GPT, GPTConfig, Settings
    from gpt import train as train_model
    from gpt.data import TextData

    model = GPT(GPTConfig(vocab_size=3, block_size=4, n_layer=1, n_head=1, n_embd=4))
    train_model(model, TextData([0, 1, 2] * 9, vocab_size=3, block_size=4), Settings(max_steps=1), out="run")
    assert "no tokenizer" in gpt(capsys, "sample", "run", code=1)[1]
    assert "not read from files" in gpt(capsys, "eval", "run", code=1)[1]


def test_terminal_is_safe_from_what_is_sampled(capsys, monkeypatch):
    Path("escape.txt").write_text("\x1b[31m\x07" * 40, encoding="utf-8")
    out, _ = train(capsys, "--data", "escape.txt", "--max-steps=1", "--out=run")
    assert "\x1b" not in out
    words = ["sample", "run", "--prompt=\x1b[", "--max-new-tokens=20"]
    assert "\x1b[" in gpt(capsys, *words)[0]  # into a file or a pipe as it is
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown, _ = gpt(capsys, *words)
    assert "\x1b" not in shown
    assert shown.startswith("\\x1b[")


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_console_that_cannot_show_a_character(capsys, encoding):
    Path("wide.txt").write_text("中é\u2603" * 40, encoding="utf-8")
    train(capsys, "--data", "wide.txt", "--max-steps=1", "--out=run")
    words = ["sample", "run", "--prompt=中é\u2603", "--max-new-tokens=0"]
    with process(*words, PYTHONIOENCODING=encoding, PYTHONUTF8="1") as child:
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")
    assert out.strip() == "中é\u2603".encode(encoding, "backslashreplace")


# --- eval and info ---


def test_eval_repeats_the_loss_of_training(capsys, trained):
    out, _ = gpt(capsys, "eval", trained)
    last = json.loads(Path(trained, "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert re.search(rf"^validation loss +{last['val_loss']:.4f} nats per token, ", out, re.MULTILINE)
    assert "bigram" in out
    assert "checkpoint.safetensors" in out.splitlines()[-1]  # it says which run it took, also where none was named
    out, _ = gpt(capsys, "eval", f"{trained}/best.safetensors")
    assert out.startswith("source")
    assert out.splitlines()[-1].endswith(f"{trained}/best.safetensors")


def test_eval_on_another_text_in_the_same_letters(capsys, trained):
    Path("other.txt").write_text("would a woodchuck chuck wood? " * 20, encoding="utf-8")  # fewer letters, other ids
    out, _ = gpt(capsys, "eval", trained, "--data", "other.txt")
    assert float(re.search(r"validation loss +(\S+)", out)[1]) < 2.9
    Path("other.txt").write_text("\xe9" + TEXT, encoding="utf-8")
    assert "outside the vocabulary" in gpt(capsys, "eval", trained, "--data", "other.txt", code=1)[1]


def test_eval_without_validation_data(capsys, trained):
    Path("short.txt").write_text("how much w", encoding="utf-8")
    assert "too short to validate on" in gpt(capsys, "eval", trained, "--data", "short.txt", code=1)[1]


def test_info_is_json(capsys, trained):
    out, _ = gpt(capsys, "info", trained)
    manifest = json.loads(out)
    assert manifest["step"] == 60
    assert manifest["config"]["n_embd"] == 8
    assert manifest["file"].endswith("checkpoint.safetensors")
    assert out.count("\n") < 20
