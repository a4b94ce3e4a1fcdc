"""What `python -m autodiff check` says beside a verdict: what the samples leave out, and what is not installed."""


import sys

import numpy as np
import pytest

from autodiff.op import Op
from autodiff.testing import check_op, check_vjp, missing_samples, op_cases

from .test_main import here, rows, run, write  # noqa: F401  # a fixture

IMPORTS = "import numpy as np\nimport autodiff as ad\n"

# --- settings that no sample varies ---

UNVARIED = {
    "slope": ("x, *, slope=0.1", "np.where(x > 0, x, slope * x)", "g, x", "np.where(x > 0, g, 0.1 * g)", [{}, {}]),
    "ddof, mode": (
        "x, *, ddof=0, mode='mean'", "ad.save(x.sum() / (x.size - ddof), n=x.size, shape=x.shape)", "g, n, shape",
        "np.broadcast_to(g / n, shape)", [{}, {"ddof": 0}]),
    "eps": ("x, *, eps, k=1.0", "k * np.sqrt(x * x + eps)", "g, x, k", "g * k * x / np.sqrt(x * x + 1.0)",
            [{"eps": 1.0}, {"eps": 1.0, "k": 2.0}]),
    "words": ("x, *, axis=0, words=('a',)", "np.cumsum(2 * x, axis)", "g, axis",
              "2 * (np.flip(np.cumsum(np.flip(g, axis), axis), axis) if axis is not None else "
              "np.flip(np.cumsum(np.flip(g))))", [{}]),
}  # fmt: skip


def source(case, extra=()):
    parameters, value, asked, gradient, settings = UNVARIED[case]
    samples = ", ".join(f"(np.array([[-1.5, 0.5, 2.5]]), {given})" for given in [*settings, *extra])
    return f"""{IMPORTS}
@ad.op(samples=[{samples}])
def f({parameters}):
    return {value}

@f.vjp("x")
def _({asked}):
    result = {gradient}
    return result if result.ndim == 2 else result.reshape(1, 3)
"""


@pytest.mark.parametrize("case", UNVARIED)
def test_settings_that_no_sample_varies_are_named_beside_the_verdict(capsys, case):
    write(source(case))
    out = run(capsys, "check", "my_ops.py")
    assert rows(out)["f"][2] == f"passed, never varied: {case}"
    assert "\nnever varied: a setting has one value in all samples" in out


@pytest.mark.parametrize(("case", "other"), [("slope", {"slope": 0.3}), ("eps", {"eps": 2.0})])
def test_a_sample_that_varies_it_shows_the_mistake(capsys, case, other):
    write(source(case, [other]))
    assert rows(run(capsys, "check", "my_ops.py", code=1))["f"][2] == "value"


def scaled(*samples):
    op = Op(lambda x, *, factor=2.0, axis=0: factor * np.flip(x, axis), samples=samples)
    op.vjp("x")(lambda g, factor, axis: factor * np.flip(g, axis))
    return op


def test_reports_name_them_too():
    x = np.array([1.0, 2.0])
    assert check_vjp(scaled(), x).never_varied == ("factor",)
    assert "\n  never varied: factor" in str(check_vjp(scaled(), x))
    assert check_vjp(scaled(), x, kwargs={"factor": 3.0}).never_varied == ()
    assert [found.never_varied for found in check_op(scaled((x,), (x, {"factor": 2.0})))] == [("factor",)] * 2
    found = check_op(scaled((x,), (x, {"factor": 3.0})))
    assert [report.never_varied for report in found] == [(), ()]
    assert "never varied" not in str(found[0])


# --- packages that are not installed ---


class Hidden:
    """An importer that finds no SciPy."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def blocked(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])


def emptied(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    monkeypatch.setitem(sys.modules, "scipy", None)


NEEDY = {
    "autodiff.functional.special": ["erf", "erfc", "erfinv", "logit", "ndtr", "xlog1py", "xlogy"],
    "autodiff.functional.gammas": ["gamma", "gammaln", "polygamma", "psi"],
    "autodiff.functional.activations": [],
}


@pytest.mark.parametrize(("module", "hide"), [(module, blocked) for module in NEEDY] + [(next(iter(NEEDY)), emptied)])
def test_ops_that_need_scipy_are_skipped_without_it(capsys, monkeypatch, module, hide):
    hide(monkeypatch)
    out = run(capsys, "check", module)
    verdicts = {name: row[2] for name, row in rows(out).items()}
    assert sorted(name for name in verdicts if "skipped" in verdicts[name]) == NEEDY[module]
    assert {verdicts[name] for name in NEEDY[module]} <= {"skipped: needs SciPy (pip install scipy)"}
    count = len(NEEDY[module])
    assert out.endswith(f"{len(verdicts) - count} of {len(verdicts)} ops passed{f', {count} skipped' * bool(count)}\n")


def test_nothing_is_planted_in_what_is_skipped(capsys, monkeypatch):
    emptied(monkeypatch)
    assert "no mistakes were planted" in run(capsys, "check", "autodiff.functional.gammas", "psi", "--mutate")


def test_without_scipy_its_ops_are_no_cases_and_lack_no_samples(capsys, monkeypatch):
    assert "erf" in {case.op.name for case in op_cases()}
    emptied(monkeypatch)
    assert not {"erf", "psi"} & {case.op.name for case in op_cases()}
    assert not {"erf", "psi"} & set(missing_samples())
    with pytest.raises(ImportError, match="pip install scipy"):
        check_op("erf")
    assert "samples that cannot be made here: " in run(capsys, "ops", "erf")


OPTIONAL = """
def special(): raise ImportError("Bessel functions need Nothing: pip install nothing")

@ad.op(
    samples=[(np.array([0.5, 2.0]),), (np.array([0.5, 2.0]), {"exact": False})],
    error_samples=[(np.ones(3), ValueError)],
)
def f(x, *, exact=True):
    if x.size == 3: raise ValueError
    return special() if EXACT else 2 * x
"""


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("exact", "passed, never varied: exact, skipped: needs Nothing (pip install nothing)"),
        ("True", "skipped: needs Nothing (pip install nothing)"),
    ],
)
def test_samples_whose_call_needs_a_package_are_skipped(capsys, condition, verdict):
    code = OPTIONAL.replace("EXACT", condition)
    write(f"{IMPORTS}{code}\n@f.vjp('x')\ndef _(g): return 2 * g\n")
    found = rows(run(capsys, "check", "my_ops.py"))["f"]
    assert found[0] == verdict.count("passed")
    assert found[2] == verdict


@pytest.mark.parametrize("error", ["ImportError('no such function')", "ModuleNotFoundError('No module named numpyy')"])
def test_other_errors_of_imports_are_failures(capsys, error):
    write(f"{IMPORTS}\n@ad.op(samples=[(np.ones(2),)])\ndef f(x): raise {error}\n@f.vjp('x')\ndef _(g): return g\n")
    assert rows(run(capsys, "check", "my_ops.py", code=1))["f"][2] == "raises"
