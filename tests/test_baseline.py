"""A baseline holds what ops and presets compute, and a comparison tells what has changed since."""

import json

import numpy as np
import pytest

import autodiff as ad
from autodiff.testing import Case, op_cases
from benchmarks import baseline
from benchmarks.__main__ import main
from benchmarks.baseline import compare, line, of_case, of_preset


def case_of(name):
    return next(case for case in op_cases() if case.op.name == name and all(np.size(x) for x in case.arrays))


def by_name(lines):
    return {one["name"]: one for one in lines}


def test_a_fused_op_is_written_in_both_dtypes_and_both_forms():
    case = case_of("layer_norm")
    found = by_name(of_case(case))
    outputs = [name.removeprefix(str(case)) for name in found if "output" in name]
    assert outputs == [f" {dtype}{way} output 0" for dtype in ("float64", "float32") for way in ("", " decomposed")]
    assert len([name for name in found if "gradient" in name]) == 4 * len(case.arrays)
    assert found == by_name(of_case(case))


def test_bits_are_those_of_the_op():
    case = case_of("exp")
    found = by_name(of_case(case))[f"{case} float32 output 0"]
    assert found == line(found["name"], np.exp(case.arrays[0].astype(np.float32)))


def test_a_changed_rule_is_found():
    @ad.op(elementwise=True)
    def double(x):
        return 2 * x

    case = Case(double, 0, (np.array([1.0, 2.0]),))
    double.vjp("x")(lambda g: 2 * g)
    before = by_name(of_case(case))
    double.vjp("x")(lambda g: 2.002 * g)
    found = compare(before, by_name(of_case(case)))
    assert found == [(f"{case} {dtype} gradient 0", "0.001") for dtype in ("float64", "float32")]


def test_presets_train_with_dropout_and_are_the_same_each_time(monkeypatch):
    found = by_name(of_preset("tiny", 2, steps=2))
    assert found == by_name(of_preset("tiny", 2, steps=2))
    losses = found["tiny, 2 threads: losses"]
    assert losses["shape"] == [2]
    assert "tiny, 2 threads: embedding.weight" in found
    monkeypatch.setattr(baseline, "DROPOUT", 0.0)
    assert losses["bits"] != by_name(of_preset("tiny", 2, steps=2))["tiny, 2 threads: losses"]["bits"]


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        ([1.0, 2.0], [1.0, 3.0], "0.5"),
        ([0.0], [-0.0], "0"),
        ([np.nan, 4.0], [np.nan, 5.0], "0.25"),
        ([np.inf], [1.0], "other bits"),
        ([1.0], [[1.0]], "<f8 (1,) -> <f8 (1, 1)"),
        ([1], [2], "other bits"),
        (np.zeros(1000), np.ones(1000), "other bits"),
        (np.float32(1), np.float64(1), "<f4 () -> <f8 ()"),
    ],
)
def test_differences_are_said(before, after, how):
    assert compare({"a": line("a", before)}, {"a": line("a", after)}) == [("a", how)]


def test_command_compares_files(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(baseline, "of_ops", lambda: iter([line("x", [1.0])]))
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert main(["baseline", "write", str(one), "--presets", ""]) == 0
    assert main(["baseline", "compare", str(one), str(one)]) == 0
    assert "0 of 1 arrays differ" in capsys.readouterr().out
    texts = [json.loads(text) for text in one.read_text(encoding="utf-8").splitlines()]
    texts[0]["machine"]["numpy"] = "1.0"
    texts[1] = line("x", [1.5])
    two.write_text("\n".join(map(json.dumps, texts)), encoding="utf-8")
    assert main(["baseline", "compare", str(one), str(two)]) == 1
    out = capsys.readouterr().out
    assert "note: numpy was " in out
    assert "1 of 1 arrays differ" in out


@pytest.mark.parametrize("text", ["", "[]", "{}\nnot JSON", None])
def test_command_refuses_what_is_no_baseline(text, tmp_path, capsys):
    file = tmp_path / "other.jsonl"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["baseline", "compare", str(file), str(file)])
    assert "cannot compare" in capsys.readouterr().err


def test_command_refuses_an_unknown_preset(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["baseline", "write", str(tmp_path / "a"), "--presets", "nanno"])
    assert "did you mean 'nano'?" in capsys.readouterr().err
