"""The command line as a whole: what is printed where, exit codes, fresh processes, odd consoles."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autodiff.__main__ import main
from autodiff.node import OPS, TWINS

ROOT = Path(__file__).resolve().parents[2]

RIGHT = '''
import numpy as np
import autodiff as ad

@ad.op(elementwise=True, samples=lambda rng: [(rng.normal(size=s),) for s in ((), (3,), (2, 3), (0, 3))])
def cube(x):
    """Third power."""
    return x**3

@cube.vjp("x")
def _(g, x):
    return g * 3 * x**2
'''
WRONG = RIGHT.replace("return g *", "return -g *")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ops, twins = dict(OPS), dict(TWINS)
    yield
    for table, before in ((OPS, ops), (TWINS, twins)):
        table.clear()
        table.update(before)


def write(text, name="my_ops.py"):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def run(capsys, *words, code=0):
    """Run a command; return what it wrote. A wrong call must be answered in one line, and by nothing of Python's."""
    try:
        assert main(words) == code
    except SystemExit as wrong_call:
        assert wrong_call.code == code  # noqa: PT017  # both ways out are right
    out, err = capsys.readouterr()
    if code == 2:
        assert err.count("\n") == 1, err
        assert err.startswith("python -m autodiff")
        assert "Traceback" not in err
    else:
        assert err == ""
    return out if code != 2 else err


def process(*words, **environment):
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii")


def rows(out):
    """The table of verdicts: op to (cases, worst error, verdict)."""
    found = re.findall(r"^(\w+) +(\d+) +(\S+) +[\d.]+ s  (.+)$", out, re.MULTILINE)
    return {name: (int(cases), worst, verdict) for name, cases, worst, verdict in found}


# --- check ---


def test_right_ops_pass(capsys):
    write(RIGHT)
    out = run(capsys, "check", "my_ops.py")
    cases, worst, verdict = rows(out)["cube"]
    assert (cases, verdict) == (4, "passed")
    assert 0 < float(worst) < 1e-6
    assert out.endswith("1 of 1 ops passed\n")


def test_wrong_rule_is_shown_in_full(capsys):
    write(WRONG)
    out = run(capsys, "check", "my_ops.py", code=1)
    assert rows(out)["cube"][2] == "value"
    assert "VJPError[value]: d cube / d x" in out
    assert "suspect: the sign is wrong" in out
    assert out.endswith("0 of 1 ops passed\n")


@pytest.mark.parametrize("seed", ["0", "7"])
def test_ways_to_see_a_failure_again_really_show_it(capsys, seed):
    write(WRONG)
    out = run(capsys, "check", "my_ops.py", "--rng", seed, code=1)
    words = re.search(r"again: +python -m autodiff (.*)", out)[1].split()
    assert run(capsys, *words, code=1).count("VJPError[value]") == 1
    first, line = re.search(r"in Python, first: +(.*)", out)[1], re.search(r"rerun: +(.*)", out)[1]
    code, _, err = process("-c", f"{first}\n{line}")
    assert code == 1
    numbers = re.findall(r"VJP (\S+)   numeric (\S+)", out)
    assert len(numbers) == 1
    assert re.findall(r"VJP (\S+)   numeric (\S+)", err) == numbers


NAMES = ["with-dash.py", "class.py", "it's one.py", "a.b.py", "folder/json.py", "folder/numpy.py"]


@pytest.mark.parametrize("name", NAMES)
def test_failures_in_a_file_of_any_name_can_be_seen_again(capsys, name):
    write(WRONG, name)
    out = run(capsys, "check", name, code=1)
    words = shlex.split(re.search(r"again: +python -m autodiff (.*)", out)[1])
    assert run(capsys, *words, code=1).count("VJPError[value]") == 1
    first, line = re.search(r"in Python, first: +(.*)", out)[1], re.search(r"rerun: +(.*)", out)[1]
    code, _, err = process("-c", f"{first}\n{line}")
    assert code == 1
    assert "VJPError[value]: d cube / d x" in err


SHOWN = {
    "settings": ("x, *, low, high", "np.clip(x, low, high)", "{'low': np.array([-np.inf, 0.0]), 'high': np.inf}", ""),
    "a list of numbers": ("x, *, low, high", "x.clip(low[0], high)", "{'low': [-np.inf], 'high': np.float64(2)}", ""),
    "a reference": ("x", "np.sign(x)", "{}", ", reference=np.tanh"),
    "tolerance and scheme": ("x", "x * x", "{}", ", wrt='x', rtol=1e-05, scheme='complex'"),
    "other options": ("x", "x * x", "{}", ", kinks='subgradient', linear=True, expect_zero=True"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_rerun_lines_carry_all_that_was_given(case):
    parameters, value, settings, options = SHOWN[case]
    kwargs = f", kwargs={settings}" if settings != "{}" else ""
    code = (
        f"import numpy as np\nimport autodiff as ad\nfrom autodiff.testing import *\n@ad.op\ndef f({parameters}): "
        f"return {value}\n@f.vjp('x')\ndef _(g, x): return g * np.exp(x)\n"
    )
    write(code + f"check_vjp(f, np.array([0.5, 1.5]){kwargs}{options})")
    code_of, _, err = process("my_ops.py")
    assert code_of == 1
    line = re.search(r"rerun: +(.*)", err)[1].strip()
    for option in options.split(", ")[1:]:
        assert option in line
    write(code + line)
    assert process("my_ops.py")[2].partition("VJPError[")[2] == err.partition("VJPError[")[2]


def test_a_failure_of_a_call_made_of_a_sample_reruns_that_sample(capsys):
    write("""
import numpy as np
import autodiff as ad

def fitted(g, x):
    g = g.sum(axis=tuple(range(g.ndim - x.ndim)))
    return g.sum(axis=tuple(i for i, n in enumerate(x.shape) if n == 1 != g.shape[i]), keepdims=True)

@ad.op(elementwise=True, samples=[(np.linspace(1.0, 2.0, 3), np.linspace(2.0, 4.0, 3))])
def f(x, y): return x * y

@f.vjp("x")
def _(g, x, y): return fitted(g * y if x.shape == y.shape else g * (y + 0 * x) * 2, x)

@f.vjp("y")
def _(g, x, y): return fitted(g * x, y)
""")
    out = run(capsys, "check", "my_ops.py", code=1)
    assert rows(out)["f"][2] == "broadcast"
    assert 'rerun:  check_vjp(f, *samples("f")[0], rng=0)' in out


def test_ops_of_a_file_are_taken_out_afterwards(capsys):
    ops, twins = dict(OPS), dict(TWINS)
    write(RIGHT.replace("elementwise", "numpy=np.spacing, elementwise"))
    write(WRONG, "other.py")
    write(RIGHT.replace("cube", "tanh").replace("@ad.op(", "@ad.op(override=True, "), "replaces.py")
    write(RIGHT + "1 / 0\n", "fails.py")
    run(capsys, "check", "my_ops.py")
    run(capsys, "check", "other.py", code=1)
    run(capsys, "check", "replaces.py")
    run(capsys, "check", "fails.py", code=2)
    run(capsys, "check", "my_ops.py")
    assert (OPS, TWINS) == (ops, twins)


def test_ops_of_neighbours_stay_since_those_do(capsys):
    write(RIGHT, "a_neighbour.py")
    write("import a_neighbour\n" + WRONG.replace("cube", "third"))
    for _ in range(2):
        run(capsys, "check", "my_ops.py", code=1)
    assert "cube" in OPS
    del sys.modules["a_neighbour"]


def test_a_file_of_a_package_is_asked_for_by_its_dotted_name(capsys):
    write("", "a_package/__init__.py")
    write("", "a_package/inner/__init__.py")
    write("from . import other\n", "a_package/inner/my_ops.py")
    said = run(capsys, "check", os.path.join("a_package", "inner", "my_ops.py"), code=2)
    assert "check a_package.inner.my_ops" in said


def test_only_what_the_file_registers_is_checked(capsys):
    write(WRONG, "neighbour.py")
    write("import neighbour\n" + RIGHT.replace("cube", "third"))
    assert list(rows(run(capsys, "check", "my_ops.py"))) == ["third"]
    write(RIGHT.replace("cube", "tanh").replace("@ad.op(", "@ad.op(override=True, "), "replaces.py")
    assert list(rows(run(capsys, "check", "replaces.py"))) == ["tanh"]


def test_one_op_of_several(capsys):
    write(RIGHT + WRONG.replace("cube", "third"))
    assert list(rows(run(capsys, "check", "my_ops.py", "cube"))) == ["cube"]
    assert list(rows(run(capsys, "check", "my_ops.py", code=1))) == ["cube", "third"]


def test_neighbours_are_found_and_the_path_is_left_as_it_was(capsys):
    write("SCALE = 3\n", "folder/helper.py")
    write("import helper\n" + RIGHT.replace("g * 3", "g * helper.SCALE"), "folder/my_ops.py")
    before = list(sys.path)
    run(capsys, "check", os.path.join("folder", "my_ops.py"))
    assert sys.path == before
    assert "my_ops" not in sys.modules


def test_modules_by_their_names(capsys):
    out = run(capsys, "check", "autodiff.functional.hyperbolic", "--rng", "1")
    assert {"tanh", "sinh", "arccosh"} <= rows(out).keys()
    assert not {"exp", "sin"} & rows(out).keys()
    assert list(rows(run(capsys, "check", "autodiff.functional", "exp"))) == ["exp"]


VERDICTS = {
    "no samples": ("@ad.op\ndef f(x, *, axis): return x", "rng.normal(size=(2, 3)), {'axis': ...}"),
    "vacuous": ("@ad.op(samples=[(np.ones(2),)])\ndef f(x): return 0 * x", "no output depends on x"),
    "saved-in-vain": ("@ad.op(samples=[(np.ones(2),)])\ndef f(x): return 2 * x", "no gradient depends on"),
    "inconclusive": ("@ad.op(samples=[(np.array([1.0, 0.0]),)])\ndef f(x): return np.sqrt(x)", "InconclusiveError"),
    "raises": ("@ad.op(samples=[(np.ones(2),)])\ndef f(x): return x @ np.ones(3)", "ValueError"),
    "samples": ("@ad.op(samples=lambda rng: 1 / 0)\ndef f(x): return 2 * x", "ZeroDivisionError"),
    "error sample": (
        "@ad.op(samples=[(np.ones(2),)], error_samples=[((np.ones(3),), ValueError)])\ndef f(x): return 2 * x",
        "error_samples[0] should raise ValueError: nothing was raised",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("verdict", "code", "text"), [(verdict, *case) for verdict, case in VERDICTS.items()])
def test_each_verdict_is_a_word_and_is_explained(capsys, verdict, code, text):
    keeps, factor = "g, x" if verdict == "saved-in-vain" else "g", 0 if verdict == "vacuous" else 2
    write(f'import numpy as np\nimport autodiff as ad\n{code}\n@f.vjp("x")\ndef _({keeps}): return {factor} * g\n')
    out = run(capsys, "check", "my_ops.py", code=1)
    assert rows(out)["f"][2] == verdict
    assert text in out


PASSES = {
    "passed, surrogate": '@f.vjp("x")\ndef _(g): return 1 * g',
    "passed, once": '@f.vjp("x")\ndef _(g, y): return 2 * g * y',
    "passed, constant": 'f.nondiff("x", varies=True)',
}


@pytest.mark.parametrize(("verdict", "rule"), PASSES.items())
def test_what_a_pass_does_not_say(capsys, verdict, rule):
    settings = "surrogate=('x',), " if "surrogate" in verdict else ""
    write(
        f"import numpy as np\nimport autodiff as ad\n@ad.op({settings}elementwise=True, samples=[(np.ones(2),)])\n"
        f"def f(x): return ad.save(x**2, y=np.array(x))\n{rule}\n"
    )
    out = run(capsys, "check", "my_ops.py")
    assert rows(out)["f"][2] == verdict
    assert f"\n{verdict.split()[1]}: " in out


RULE = '\n@f.vjp("x")\ndef _(g): return 2 * g\n'
LEAVES = {
    "rule": "@ad.op(samples=[(np.ones(2),)])\ndef f(x): return 2 * x\n@f.vjp('x')\ndef _(g): sys.exit(0)",
    "forward": "@ad.op(samples=[(np.ones(2),)])\ndef f(x): sys.exit(0)" + RULE,
    "samples": "@ad.op(samples=lambda rng: sys.exit(0))\ndef f(x): return 2 * x" + RULE,
    "bad input": (
        "@ad.op(samples=[(np.ones(2),)], error_samples=[((np.ones(3),), ValueError)])\n"
        "def f(x): return 2 * x if x.size < 3 else sys.exit(0)" + RULE
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", LEAVES)
def test_an_op_that_leaves_the_program_has_failed(capsys, where):
    write("import sys\nimport numpy as np\nimport autodiff as ad\n" + LEAVES[where] + RIGHT)
    out = run(capsys, "check", "my_ops.py", code=1)
    assert rows(out)["f"][2] == {"samples": "samples", "bad input": "error sample"}.get(where, "raises")
    assert "SystemExit: 0" in out
    assert rows(out)["cube"][2] == "passed"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('[((np.ones(2),), "ValueError")]', "error_samples[0] is ((array([1., 1.]),), 'ValueError'), but shall be"),
        ("[((), ValueError)]", "error_samples[0] should raise ValueError: TypeError"),
        ("[np.ones(2)]", "error_samples[0] is array([1., 1.]), but shall be a pair"),
        ("lambda rng: 3", "error_samples gives 3, but shall be a list"),
        ("[((np.ones(2),), (KeyError, ValueError))]", "should raise KeyError or ValueError: nothing was raised"),
    ],
)
def test_bad_error_samples_are_named(capsys, bad, said):
    code = f"@ad.op(samples=[(np.ones(2),)], error_samples={bad})\ndef f(x): return 2 * x"
    write(f"import numpy as np\nimport autodiff as ad\n{code}{RULE}{RIGHT}")
    out = run(capsys, "check", "my_ops.py", code=1)
    assert rows(out)["f"][2] == "error sample"
    assert said in out
    assert rows(out)["cube"][2] == "passed"


def test_several_exceptions_may_be_expected_and_a_single_array_is_a_call(capsys):
    bad = "[((np.ones(3),), (KeyError, ValueError)), (np.ones(3), ValueError)]"
    code = f"@ad.op(samples=[(np.ones((2, 2)),)], error_samples={bad})\ndef f(x):\n    p, q = x\n    return 2 * x"
    write(f"import numpy as np\nimport autodiff as ad\n{code}{RULE}")
    assert rows(run(capsys, "check", "my_ops.py"))["f"][2] == "passed"


# --- wrong calls ---


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (RIGHT, ["check", "my_op.py"], "no file my_op.py. Did you mean 'my_ops.py'?"),
        (RIGHT, ["check", "my_ops.py", "cub"], "no op 'cub'. Did you mean 'cube'?"),
        (RIGHT, ["check", "my_ops.py", "--rng=-1"], "not a whole number"),
        (RIGHT, ["check", "my_ops.py", "--mut"], "--mut"),
        (RIGHT, ["check"], "FILE.py"),
        (RIGHT, [], "COMMAND"),
        ("x = 1\n", ["check", "my_ops.py"], "registers no op"),
        ("import numpy\n\n1 / 0\n", ["check", "my_ops.py"], "ZeroDivisionError: division by zero (at "),
        ("def f(:\n", ["check", "my_ops.py"], "SyntaxError: "),
        ("from . import other\n", ["check", "my_ops.py"], "ImportError: "),
        ("import sys\nsys.exit(0)\n", ["check", "my_ops.py"], "SystemExit"),
        (RIGHT.replace("cube", "tanh"), ["check", "my_ops.py"], "ValueError: an op named 'tanh' exists"),
        (RIGHT, ["check", "no.such.module"], "neither a file nor a module"),
        (RIGHT, ["ops", "tanhh"], "Did you mean 'tanh'?"),
    ],
)
def test_a_wrong_call_is_answered_in_one_line(capsys, text, words, said):
    write(text)
    assert said in run(capsys, *words, code=2)


def test_an_import_that_fails_is_shown_where(capsys):
    write("import numpy\n\n1 / 0\n")
    assert "my_ops.py:3)" in run(capsys, "check", "my_ops.py", code=2)
    with pytest.raises(Exception, match="cannot be imported"):
        main(["check", "my_ops.py", "--debug"])


def test_an_interrupt_ends_it(monkeypatch):
    def interrupted(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("autodiff.__main__.check", interrupted)
    assert main(["check", "my_ops.py"]) == 130
    with pytest.raises(KeyboardInterrupt):
        main(["check", "my_ops.py", "--debug"])


# --- mutate ---


def test_survivors_are_shown_with_place_and_advice(capsys):
    write(re.sub("samples=.*\\]", "samples=[(np.array([1.0, 1.0]),)]", RIGHT))
    out = run(capsys, "check", "my_ops.py", "--mutate")
    line = next(i for i, text in enumerate(RIGHT.splitlines(), 1) if "return g *" in text)
    assert f"my_ops.py:{line}: not noticed" in out
    assert "  - return g * 3 * x**2\n  + return g * 3 * x\n" in out
    assert "would notice: a sample" in out
    planted, refused = map(int, re.search(r"(\d+) of (\d+) planted mistakes refused", out).groups()[::-1])
    assert 5 < refused < planted
    assert out.count("not noticed") == planted - refused


def test_good_samples_leave_no_survivor(capsys):
    write(RIGHT)
    out = run(capsys, "check", "my_ops.py", "--mutate")
    assert "100.0 %" in out
    assert "not noticed" not in out


def test_nothing_is_planted_in_what_fails(capsys):
    write(WRONG)
    assert "no mistakes were planted" in run(capsys, "check", "my_ops.py", "--mutate", code=1)


# --- ops ---


def test_list_of_ops(capsys):
    out = run(capsys, "ops")
    assert re.search(r"^  tanh\(x\)  \[np.tanh, primitive, elementwise\]\n      Hyperbolic tangent", out, re.MULTILINE)
    assert re.search(r"^  layer_norm\(x, gamma, beta, \*, eps\)  \[fused\]$", out, re.MULTILINE)
    listed = set(re.findall(r"^  (\w+)\(", out, re.MULTILINE))
    assert OPS.keys() <= listed
    assert {"roll", "norm", "set_at"} <= listed
    assert re.search(r"^hyperbolic: \w+", out, re.MULTILINE)


def test_explanation_of_one(capsys):
    assert "VJP rule for x, keeps out" in run(capsys, "ops", "tanh")
    assert run(capsys, "ops", "np.tanh") == run(capsys, "ops", "tanh")


# --- as users run it ---


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_any_console_shows_any_source(encoding):
    comment = "    # \u03c3' = 3 x\u00b2, written \u4e09\n    return -g *"
    write(RIGHT.replace('"""Third power."""', '"""Power \u4e09."""').replace("    return g *", comment))
    words = [sys.executable, "-m", "autodiff", "check", "my_ops.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    assert b"VJPError[value]" in done.stdout
    explained = subprocess.run(
        [sys.executable, "-m", "autodiff", "ops", "tanh"], env=environment, capture_output=True, check=False
    )
    assert explained.returncode == 0, explained.stderr
    explained.stdout.decode(encoding)


def test_help_shows_an_example_of_each_command():
    code, out, _ = process("-m", "autodiff", "--help")
    assert code == 0
    for command in ("check", "ops"):
        assert f"\n    {command}" in out
        code, page, _ = process("-m", "autodiff", command, "--help")
        assert code == 0
        assert f"python -m autodiff {command} " in page.partition("examples:")[2]
