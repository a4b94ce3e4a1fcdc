"""What `python -m autodiff check` says beside a verdict: what the samples leave out, and what is not installed."""


import numpy as np
import pytest

from autodiff.op import Op
from autodiff.testing import check_op, check_vjp

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
