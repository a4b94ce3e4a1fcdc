"""The checker: right rules pass, planted wrong ones are found by name, and a check that says nothing is no pass."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import autodiff as ad
from autodiff.node import OPS
from autodiff.op import Op, op, save
from autodiff.testing import (
    InconclusiveError,
    VacuousCheckError,
    VJPError,
    check_op,
    check_vjp,
    missing_samples,
    missing_settings,
    op_cases,
    samples,
)
from autodiff.testing.cases import Case, judge
from autodiff.testing.vjp import CHECKS, examine

from .checking import caught, elementwise
from .planted import SOUND, STRUCTURE, UNUSUAL, VALUES, X
from .planted_calls import CALLS, FAULTY
from .planted_state import KEEPING

PLANTED = VALUES + STRUCTURE + CALLS + KEEPING
SEEDS = range(3)


def ids(planted):
    return pytest.mark.parametrize("planted", [pytest.param(p, id=p.name) for p in planted])


@pytest.fixture
def _registry_left_as_it_was():
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


@elementwise(lambda x: np.sin(x))
def sine(g, x):
    return g * np.cos(x)


@elementwise(lambda x: np.sin(x))
def wrong_sine(g, x):
    return g * (np.cos(x) + 0.1 * x)


# --- right rules pass, wrong ones do not ---


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))])
@pytest.mark.parametrize("name", [name for name in SOUND if name not in UNUSUAL | FAULTY])
def test_right_rules_pass(name, seed):
    sound = SOUND[name]
    report = check_vjp(sound.op(), *sound.draw(np.random.default_rng(seed)), rng=seed)
    assert report.worst < 1e-6
    if not sound.declared.get("surrogate"):
        assert report.compared
        assert report.nonzero


@ids(PLANTED)
def test_planted_rule_is_found_by_its_kind(planted):
    found_by_its_kind(planted, range(2 if planted.kind == "memory" else 20))


@pytest.mark.slow  # each collects the garbage of the whole process
@ids([planted for planted in PLANTED if planted.kind == "memory"])
def test_what_is_left_behind_is_found_on_every_seed(planted):
    found_by_its_kind(planted, range(2, 20))


def found_by_its_kind(planted, seeds):
    error = VacuousCheckError if planted.kind == "vacuous" else VJPError
    for seed in seeds:
        with pytest.raises(error, match=rf"^{error.__name__}\[{planted.kind}\]: ") as info:
            planted.check(seed)
        assert info.value.kind == planted.kind
        assert planted.suspect is None or planted.suspect in info.value.suspect
        assert planted.arg is None or planted.arg == info.value.arg


@pytest.mark.parametrize("seed", SEEDS)
@ids([planted for planted in PLANTED if planted.slips])
def test_nothing_else_finds_it(planted, seed):
    """Each check is needed: with it switched off, something planted for it passes all others."""
    made, args = planted.case(seed)
    examine(made, args, None, None, seed, without={planted.kind})


ENGINE_REFUSES = {"arity", "none", "shape"}
"""What the engine would not take either: these checks are there for the sake of the message."""


def test_every_check_is_shown_to_be_needed():
    assert {kind for kind, _ in CHECKS} == {planted.kind for planted in PLANTED if planted.slips} | ENGINE_REFUSES


@ids([planted for planted in PLANTED if planted.kind in ENGINE_REFUSES])
def test_what_the_engine_refuses_is_named_by_its_check_alone(planted):
    made, args = planted.case(0)
    with pytest.raises((VJPError, TypeError)) as info:
        examine(made, args, None, None, 0, without={planted.kind})
    assert getattr(info.value, "kind", "the engine's own") != planted.kind


def test_there_are_many_planted_rules():
    assert len({planted.name for planted in PLANTED}) == len(PLANTED) >= 90


@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3),
    off=st.floats(1e-5, 1.0), seed=st.integers(0, 9),
)  # fmt: skip
def test_any_broadcast_shape_and_any_error(shapes, off, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=shape) for shape in shapes.input_shapes)
    sound = SOUND["multiply"]
    check_vjp(sound.op(), x, y)
    if x.size and y.size:
        error = caught(check_vjp, sound.op({X: lambda g, y: g * y * (1 + off)}), x, y)
        assert (error.kind, error.arg) == ("value", "x")


# --- what is said ---


def test_message():
    made = SOUND["layer_norm"].op({X: lambda g, out, rstd: rstd * (g - out * (g * out).mean(-1, keepdims=True))})
    x = np.random.default_rng(1).normal(size=(3, 5))
    error = caught(Case(made, 4, (x,)).check)
    number = r"-?\d\.?\d*(e-?\d+)?"
    lines = [
        r"VJPError\[value\]: d layer_norm / d x \(argument 0 of 1, shape \(3, 5\), float64\)",
        rf"  worst element x\[\d, \d\]:  VJP {number}   numeric {number}   scaled error \d\.\de[-+]\d\d > 1\.0e-06",
        r"  15 of 15 elements differ; largest at \[\d, \d\], \[\d, \d\], \[\d, \d\]",
        r"  suspect: VJP - numeric is constant along axis -1: a mean \(or sum\) term over axis -1 is missing",
        r"  sample: layer_norm#4 \(3, 5\)   rng=0   cotangent layout=C   h=\d\.\de-04",
        r'  rerun:  check_vjp\(layer_norm, \*samples\("layer_norm"\)\[4\], rng=0\)',
    ]
    for line, pattern in zip(str(error).splitlines(), lines, strict=True):
        assert re.fullmatch(pattern, line), line
    assert abs(error.analytic - error.numeric) > 1e-3
    assert error.index == tuple(map(int, re.search(r"x\[(\d), (\d)\]", str(error)).groups()))


def test_attributes_are_those_of_the_worst_element():
    made = SOUND["square"].op({X: lambda g, x: 2 * g * x * np.array([1.0, 1.5, 1.01], g.dtype)})
    error = caught(check_vjp, made, np.array([1.0, 2.0, 3.0]))
    assert (error.arg, error.index) == ("x", (1,))
    assert error.analytic == pytest.approx(1.5 * error.numeric)


def test_rerun_line_can_be_pasted():
    x = np.array([[0.1, 1 / 3], [2e-7, -5.0]])
    error = caught(check_vjp, wrong_sine, x, rng=7)
    line = re.search(r"rerun:  check_vjp\(<lambda>, np\.array\((.*)\), rng=7\)", str(error)).group(1)
    assert line == str(x.tolist())
    large = caught(check_vjp, wrong_sine, np.ones((4, 5)))
    assert "check_vjp(<lambda>, x, rng=0)" in str(large)
    assert max(map(len, str(large).splitlines())) < 200


def test_bytes_tell_of_a_write_through_another_view():
    def forward(x):
        whole = np.tanh(x)
        return save(whole, kept=whole.view(), pair={"by": (lambda: whole,)})

    def rule(g, kept, pair):
        pair["by"][0]().flat[0] = 0.5
        return g * (1 - kept * kept)

    made = Op(lambda x: forward(x))
    made.vjp("x")(rule)
    assert "saved value 'kept'" in str(caught(check_vjp, made, np.ones(2)))


def test_errors_of_the_forward_are_its_own():
    made = Op(lambda x: x @ np.ones(7))
    made.vjp("x")(lambda g: g)
    with pytest.raises(ValueError, match="matmul"):
        check_vjp(made, np.ones(3))


def test_guilty_line_is_named():
    made = SOUND["tanh"].op({X: lambda g, out: np.clip(g, -1, 1, out=g)})
    error = caught(check_vjp, made, np.ones(2))
    assert "np.clip(g, -1, 1, out=g)" in str(error)
    assert isinstance(error.__cause__, ValueError)


def test_report():
    report = check_vjp(sine, np.array([0.0, 1.0, np.pi / 2]), rng=3)
    assert (report.op, report.rng, report.compared) == ("<lambda>", 3, 3)
    assert 0 < report.step <= 1e-3
    assert {"value", "layout", "alias"} < set(report.passed)
    assert set(report.skipped) == {"linear", "decomposition", "broadcast", "axis", "reuse"}
    assert not set(report.passed) & set(report.skipped)


def test_report_reads_well():
    text = str(check_vjp("multiply", np.ones(3), np.full(3, 2.0), rng=3))
    assert text == repr(check_vjp("multiply", np.ones(3), np.full(3, 2.0), rng=3))
    lines = text.splitlines()
    assert lines[0] == "multiply: passed"
    assert re.fullmatch(r"  6 derivatives compared, 6 of them not zero; worst scaled error .*   rng=3", lines[1])
    assert lines[2].startswith("  checks: inputs, forward-nondet, state, writes, ")
    assert "  skipped: linear (the op is not declared linear)" in lines
    assert "  skipped: axis (the op has no setting axis)" in lines
    assert max(map(len, lines)) <= 115
    assert text.isascii()
    nothing = Case(SOUND["multiply"].op(), 0, (np.array([1]), np.array([2]))).check()
    assert str(nothing).startswith("multiply: nothing checked")
    constant = check_vjp(SOUND["constant"].op(), np.ones(3), expect_zero=True)
    assert str(constant).startswith("constant: passed, but nothing depends on x here")


def test_random_numbers_come_from_the_argument_alone():
    before = np.random.get_state(legacy=False)["state"]["pos"]  # noqa: NPY002  # it is what must not move
    x = np.random.default_rng(5).normal(size=4)
    first, again = (str(caught(check_vjp, wrong_sine, x, rng=np.random.default_rng(8))) for _ in range(2))
    assert first == again
    assert first != str(caught(check_vjp, wrong_sine, x, rng=9))
    seed = int(re.search(r"rng=(\d+)\)$", first).group(1))
    assert str(caught(check_vjp, wrong_sine, x, rng=seed)) == first
    assert np.random.get_state(legacy=False)["state"]["pos"] == before  # noqa: NPY002


# --- inputs ---


def test_inputs_are_copied_and_in_double_precision():
    x = np.broadcast_to(np.float32(0.5), (2, 3))
    assert check_vjp(sine, x).compared == 6
    single = np.array([0.25, 0.5], np.float32)
    check_vjp(sine, single)
    assert single.dtype == np.float32
    assert single.flags.writeable


def test_which_arguments_are_checked():
    made = SOUND["multiply"].op({("y",): lambda g: np.zeros_like(g)})
    x, y = np.ones(2), np.full(2, 2.0)
    assert check_vjp(made, x, y, wrt="x").compared == 2
    assert check_vjp(made, x, y, wrt=[0]).compared == 2
    assert caught(check_vjp, made, x, y, wrt=1).arg == "y"
    assert check_vjp(made, x, 3.0).compared == 2  # a Python number is a constant
    assert caught(check_vjp, made, x, 3.0, wrt=("x", "y")).arg == "y"
    assert check_vjp(made, x, kwargs={"y": 3.0}).compared == 2
    assert check_vjp(made, [1.0, 2.0], 3.0).compared == 2


@pytest.mark.parametrize(
    ("args", "settings", "error", "match"),
    [
        ((np.array([1.0, np.nan]), 2.0), {}, ValueError, "'x' holds NaN"),
        ((1.0, 2.0), {}, ValueError, "no floating array"),
        ((np.array([1, 2]), np.array([3, 4])), {}, ValueError, "no floating array"),
        ((np.ones(2),), {}, TypeError, "missing a required argument"),
        ((np.ones(2), 1.0), {"wrt": "z"}, ValueError, "wrt='z': the arguments .* are x, y"),
        ((np.ones(2), 1.0), {"wrt": 2}, ValueError, "wrt=2"),
        ((np.ones(2), np.array([True, False])), {"wrt": "y"}, TypeError, "'y' of dtype bool"),
    ],
)
def test_arguments_that_cannot_be_checked(args, settings, error, match):
    with pytest.raises(error, match=match):
        check_vjp(SOUND["multiply"].op(), *args, **settings)


def test_ops_are_found_by_name():
    assert check_vjp("linear", np.ones((2, 2)), np.eye(2)).op == "linear"
    with pytest.raises(ValueError, match="no op named 'lineal'"):
        check_vjp("lineal", np.ones(2))


def test_tensors_are_taken_for_their_data():
    x = ad.Tensor([0.5, 1.0], requires_grad=True)
    assert check_vjp("multiply", x, ad.Tensor([1.0, 2.0])).compared == 4
    assert check_vjp("concatenate", [x, x]).compared == 4
    assert x.grad is None


def test_settings_have_a_place_of_their_own():
    with pytest.raises(TypeError, match=r"no parameter 'axis'\. The op's settings go into kwargs=\{'axis': 1\}"):
        check_vjp("sum", np.ones((2, 3)), axis=1)
    with pytest.raises(TypeError, match="Did you mean 'rtol'"):
        check_vjp("sum", np.ones((2, 3)), rtoll=1e-3)


def test_missing_rule():
    made = Op(lambda x, y: x * y, elementwise=True)
    made.vjp("x")(lambda g, y: g * y)
    error = caught(check_vjp, made, np.ones(2), np.ones(2))
    assert (error.kind, error.arg) == ("none", "y")
    assert check_vjp(made.nondiff("y"), np.ones(2), np.ones(2)).compared == 2


def test_infinite_inputs_do_not_vary():
    x = np.array([[0.5, -np.inf, 1.5], [0.2, 0.3, -np.inf]])
    assert check_vjp("softmax", x).compared == 6


@pytest.mark.parametrize("mode", [ad.no_grad, ad.decompose])
def test_the_mode_of_the_caller_does_not_matter(mode):
    with mode():
        assert check_vjp("softmax", np.array([0.5, 1.0])).compared == 2


# --- kinks, jumps, edges, zeros ---


def relu_with(value):
    return elementwise(lambda x: np.maximum(x, 0))(lambda g, x: g * np.where(x == 0, value, x > 0).astype(g.dtype))


def test_kink():
    x = np.array([-1.0, 0.0, 2.0])
    error = caught(check_vjp, relu_with(0), x)
    assert (error.kind, error.index) == ("kink", (1,))
    assert "x[1] = 0: slope 0 on the left, 1 on the right" in str(error)
    for inside in (0, 0.3, 1):
        check_vjp(relu_with(inside), x, kinks="subgradient")
    for outside in (-0.5, 1.01):
        assert caught(check_vjp, relu_with(outside), x, kinks="subgradient").index == (1,)


def test_kink_is_seen_where_the_mean_of_the_slopes_would_pass():
    absolute = elementwise(lambda x: np.abs(x))(lambda g, x: g * np.sign(x))
    assert caught(check_vjp, absolute, np.array([0.0])).kind == "kink"


def test_kink_nearby_only_makes_the_step_smaller():
    report = check_vjp(relu_with(0), np.array([1.5e-3, -1e-4 / 3]))
    assert report.step < 1e-4
    assert report.compared == 2


@pytest.mark.parametrize(
    ("forward", "x"),
    [
        (lambda x: np.floor(x) * x, [1.5, 2.0]),  # a jump
        (lambda x: np.sqrt(x), [1.0, 0.0]),  # the edge of the domain
        (lambda x: 1e10 + x, [1.0, 2.0]),  # outputs that swallow the step
    ],
)
def test_what_differences_do_not_decide_is_no_pass(forward, x):
    made = elementwise(forward)(lambda g, x: np.array(g))
    with pytest.raises(InconclusiveError) as info:
        check_vjp(made, np.array(x))
    assert info.value.kind == "inconclusive"


@pytest.mark.parametrize("x", [1e-9, 3e-3, 1e4])
def test_edge_of_the_domain_nearby_only_makes_the_step_smaller(x):
    logarithm = elementwise(lambda x: np.log(x))(lambda g, x: g / x)
    assert check_vjp(logarithm, np.array([x])).nonzero == 1


def test_tiny_gradients_do_not_pass_by_the_absolute_tolerance():
    def tiny(scale, off):
        return elementwise(lambda x: scale * np.sin(x))(lambda g, x: scale * (1 + off) * g * np.cos(x))

    x = np.array([0.3, 1.0])
    assert check_vjp(tiny(1e-30, 0.0), x).nonzero == 2
    assert caught(check_vjp, tiny(1e-8, 1e-3), x).kind == "value"
    with pytest.raises(InconclusiveError, match="rounding inside the forward"):
        check_vjp(tiny(1e-12, 1e-3), x)  # 1 + erf(x), say, might be off by as much


def test_far_tails_are_never_called_wrong():
    bell = elementwise(lambda x: 1 + np.tanh(x))(lambda g, x: g / np.cosh(x) ** 2)
    for x in np.linspace(-20, -12, 20):
        try:
            check_vjp(bell, np.array([x]))
        except (InconclusiveError, VacuousCheckError):
            pass
    assert check_vjp(bell, np.linspace(-20, 1, 20)).nonzero > 10


def test_cancelling_sums_are_judged_by_what_cancels():
    made = Op(lambda x: 1e4 * np.stack([np.cos(x), -np.cos(x)], axis=1))
    made.vjp("x")(lambda g, x: -1e4 * np.sin(x) * (g[:, 0] - g[:, 1]))
    for seed in range(20):
        check_vjp(made, np.array([0.1, 0.7, 1.4]), rng=seed)


def test_zero_derivatives_are_no_pass_unless_expected():
    made = SOUND["constant"].op()
    assert check_vjp(made, np.ones(3), expect_zero=True).vacuous == ("x",)
    nonzero = SOUND["constant"].op({X: lambda g, shape: np.full(shape, g.sum())})
    assert caught(check_vjp, nonzero, np.ones(3), expect_zero=True).kind == "value"
    integers = Op(lambda x: np.sign(x).astype(int))
    integers.vjp("x")(lambda g: g)
    with pytest.raises(VacuousCheckError):
        check_vjp(integers, np.ones(3))


def test_one_argument_without_influence_is_no_pass():
    made = Op(lambda x, y: x + 0 * y, elementwise=True)
    made.vjp("x")(lambda g: g)
    made.vjp("y")(lambda g: np.zeros_like(g))
    with pytest.raises(VacuousCheckError, match="depends on y"):
        check_vjp(made, np.ones(2), np.ones(2))


def test_what_has_no_finite_derivative_is_not_compared():
    root = elementwise(lambda x: np.sqrt(x))(lambda g, out: g / (2 * out))
    with np.errstate(divide="ignore"):
        report = check_vjp(root, np.array([0.0, 1.0, 4.0]))
    assert (report.compared, report.nonzero) == (2, 2)


def test_reasons_for_what_is_skipped():
    empty = check_vjp(sine, np.zeros((0, 3)), expect_zero=True)
    assert empty.compared == 0
    assert "empty" in empty.skipped["saved-in-vain"]
    huge = elementwise(lambda x: x * 1e200)(lambda g: g * 1e200)
    assert "overflow" in check_vjp(huge, np.ones(2)).skipped["float32"]
    several = Op(lambda x: (x * x, np.argsort(x)))
    several.vjp("x")(lambda g, x: 2 * g[0] * x)
    assert check_vjp(several, np.array([3.0, 1.0])).compared == 2


# --- other schemes, and what ops declare ---


def test_complex_step_is_exact_to_rounding():
    assert check_vjp(sine, np.array([0.3, 1.0]), scheme="complex").worst < 1e-13
    off = elementwise(lambda x: np.sin(x))(lambda g, x: g * np.cos(x) * (1 + 1e-11))
    check_vjp(off, np.array([0.3, 1.0]))
    assert caught(check_vjp, off, np.array([0.3, 1.0]), scheme="complex").kind == "value"
    check_vjp(off, np.array([0.3, 1.0]), scheme="complex", rtol=1e-10)
    with pytest.raises(InconclusiveError, match="real numbers"):
        check_vjp(elementwise(lambda x: np.abs(x))(lambda g, x: g * np.sign(x)), np.array([0.3]), scheme="complex")
    with pytest.raises(InconclusiveError, match="256"):
        check_vjp(sine, np.ones(300), scheme="complex")


def test_surrogate_is_compared_with_its_reference():
    straight_through = elementwise(lambda x: np.round(x), surrogate=("x",))(lambda g, x: g * (np.abs(x) < 2))
    x = np.array([0.2, 1.7])
    assert "surrogate" in check_vjp(straight_through, x).skipped["value"]
    assert check_vjp(straight_through, x, reference=lambda x: np.clip(x, -2, 2)).nonzero == 2
    assert caught(check_vjp, straight_through, x, reference=lambda x: 2 * x).kind == "value"


def test_declared_linear():
    affine = Op(lambda x: x + 1.0, elementwise=True, linear=True)
    affine.vjp("x")(lambda g: g)
    assert caught(check_vjp, affine, np.ones(3)).kind == "linear"
    examine(affine, (np.ones(3),), None, None, 0, without={"linear"})
    slightly_off = SOUND["transpose"].op({X: lambda g: g.T * (1 + 1e-9)})
    assert caught(check_vjp, slightly_off, np.ones((2, 3))).kind == "linear"
    assert caught(check_vjp, sine, np.ones(3), linear=True).kind == "linear"
    with_constants = Op(lambda x, k: x + k, elementwise=True, linear=True)
    with_constants.vjp("x")(lambda g: g)
    check_vjp(with_constants, np.ones(3), np.arange(3))


@pytest.mark.parametrize("off", [0.0, 1e-9])
@pytest.mark.parametrize("where", ["values", "gradients"])
def test_decomposition_agrees(off, where):
    made = Op(lambda x: x * x)
    made.vjp("x")(lambda g, x: 2 * g * x)

    @made.decomposition
    def _(x):
        factor = 1.0 + off
        return x * x * factor if where == "values" else x * x * factor - off * x.data * x.data

    x = np.array([0.5, -2.0])
    if off == 0.0:
        assert "decomposition" in check_vjp(made, x).passed
    else:
        error = caught(check_vjp, made, x)
        assert (error.kind, error.arg) == ("decomposition", None if where == "values" else "x")
        examine(made, (x,), None, None, 0, without={"decomposition"})


# --- the samples of an op ---


def squares(*drawn, rule=lambda g, x: 2 * g * x):
    made = Op(lambda x, y=None, *, factor=1.0: factor * x * x, samples=lambda rng: list(drawn))
    made.vjp("x")(lambda g, x, factor: factor * rule(g, x))
    return made.nondiff("y")


def test_samples_are_calls():
    made = squares((np.ones(2),), (np.ones((2, 1)), None, {"factor": 3.0}), np.array(1.5))
    assert [len(sample) for sample in samples(made)] == [1, 3, 1]
    assert [report.compared for report in check_op(made)] == [2, 2, 1]
    cases = [Case(made, i, sample) for i, sample in enumerate(samples(made))]
    assert [str(case) for case in cases] == ["<lambda>#0-2", "<lambda>#1-2x1-None-factor=3.0", "<lambda>#2-scalar"]
    assert check_vjp(made, *samples(made)[1]).compared == 2


def test_wrong_on_one_sample():
    made = squares((np.ones(2),), (np.array([2.0]),), rule=lambda g, x: 2 * g * (x if x.size > 1 else x + 1))
    error = caught(check_op, made)
    assert 'samples("<lambda>")[1]' in str(error)


@pytest.mark.usefixtures("_registry_left_as_it_was")
def test_an_op_without_samples_is_no_pass():
    with pytest.raises(ValueError, match="no samples"):
        check_op(squares())
    unsampled = op(lambda x: x)
    assert missing_samples() == [*missing_samples()[:-1], unsampled.name]
    assert not [case for case in op_cases() if case.op is unsampled]


def test_settings_that_no_sample_sets():
    assert missing_settings(squares((np.ones(2),), (np.ones(2), None, {"factor": 1.0}))) == ["factor"]
    assert missing_settings(squares((np.ones(2), None, {"factor": 2.0}))) == ["factor"]
    assert missing_settings(squares((np.ones(2),), (np.ones(2), None, {"factor": 2.0}))) == []


def test_what_one_sample_does_not_show_is_judged_over_all():
    made = Op(lambda x, *, on: x * x if on else 0 * x + 1)
    made.vjp("x")(lambda g, x, on: 2 * g * x if on else np.zeros_like(g))
    on, off = (Case(made, i, (np.ones(2), {"on": on})).check() for i, on in enumerate((True, False)))
    assert off.vacuous == off.saved_in_vain == ("x",)
    judge(made, [on, off])
    with pytest.raises(VJPError, match="saved-in-vain"):
        judge(made, [off, off])
    off.saved_in_vain = ()
    with pytest.raises(VacuousCheckError, match="no output depends on x"):
        judge(made, [off])
    with pytest.raises(VacuousCheckError, match="floating array"):
        judge(made, [Case(made, 0, (np.array([1, 2]), {"on": True})).check()])


EMPTY = np.zeros((0, 2))


@pytest.mark.parametrize("other", [(EMPTY, EMPTY), (np.ones(2), None)], ids=["empty", "absent"])
def test_a_sample_that_cannot_tell_excuses_nothing(other):
    """Neither an argument without influence, nor a value that is saved for it in vain."""
    made = Op(lambda x, y=None: save(2 * x if y is None else 2 * x + 0 * y, root=np.sqrt(np.abs(x))))
    made.vjp("x")(lambda g: 2 * g)
    made.vjp("y")(lambda g: np.zeros_like(g))
    made.samples = [(np.ones(2), np.ones(2)), other]
    with pytest.raises(VacuousCheckError, match="no output depends on y"):
        check_op(made)
    made.vjp("y")(lambda g, root: np.zeros_like(g) * len(root))
    with pytest.raises(VJPError, match=r"no gradient depends on what is saved: root"):
        check_op(made)


@pytest.mark.parametrize("drawn", [(EMPTY,), (np.array([1, 2]),)])
def test_samples_that_vary_nothing_are_no_pass(drawn):
    with pytest.raises(VacuousCheckError, match="no floating array with elements"):
        check_op(squares(drawn))


@pytest.mark.parametrize("keep", [lambda x: x > 0, lambda x: x], ids=["mask", "input"])
def test_what_another_branch_needs_is_not_in_vain(keep):
    made = Op(lambda x: save(np.where(x > 0, x, np.expm1(np.minimum(x, 0))), kept=keep(x)))
    made.vjp("x")(lambda g, kept, out: np.where(kept > 0, g, g * (out + 1)))
    assert check_vjp(made, np.array([0.5, 1.5])).saved_in_vain == ()


def test_a_value_saved_in_vain_is_reported_at_one_point_and_refused_over_all():
    made = Op(lambda x: 2 * x, samples=[np.ones(2)])
    made.vjp("x")(lambda g, x, out: 2 * g * np.ones(x.shape, x.dtype))
    assert "saved, but not needed here: x, out" in str(check_vjp(made, np.ones(2)))
    with pytest.raises(VJPError, match="what is saved: out, x"):
        check_op(made)


def test_numpys_functions_name_their_ops():
    x = np.array([[0.5, 1.5]])
    assert check_vjp(np.tanh, x).op == "tanh"
    assert check_vjp(np.sum, x, {"axis": 1}).op == "sum"
    with pytest.raises(TypeError, match="check_grads"):
        check_vjp(np.unique, x)


def test_a_declared_zero_is_compared_and_not_vacuous():
    step = Op(lambda x: np.floor(x), elementwise=True).zero("x")
    assert check_vjp(step, np.array([0.5, 1.5])).vacuous == ()
    wrong = Op(lambda x: 2 * x, elementwise=True).zero("x")
    with pytest.raises(VJPError) as error:
        check_vjp(wrong, np.array([0.5, 1.5]))
    assert error.value.kind == "value"


def test_a_decomposition_has_the_defaults_of_its_op():
    made = Op(lambda x, *, delta=1.0: delta * x)
    with pytest.raises(TypeError, match=r"takes x, delta=1\.0; its decomposition takes x, delta=2\.0"):
        made.decomposition(lambda x, *, delta=2.0: delta * x)
