"""What is refused says what to write: functions that are not recorded, settings and names of other libraries."""

import re

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import hints, nn, optim
from autodiff.node import TWINS
from autodiff.protocols import METHODS, PLAIN, full_name

from .test_protocols import FUNCTIONS, UFUNCS, VECTOR, leaf


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda t: np.unique(t), r"np\.unique .*t\.data"),
        (lambda t: np.fft.rfft(t), r"np\.fft\.rfft .*cosines"),
        (lambda t: np.linalg.lstsq(np.eye(3), t), r"np\.linalg\.lstsq .*np\.linalg\.solve"),
        (lambda t: np.put(t, 0, 1.0), r"np\.put .*F\.set_at"),
        (lambda t: np.copyto(np.zeros(3), t), r"np\.copyto .*np\.where"),
        (lambda t: np.histogram(t), r"np\.histogram .*F\.scatter_add"),
        (lambda t: np.polydiv(t, t), r"np\.polydiv .*np\.polymul"),
        (lambda t: np.bitwise_or(t, 1), r"np\.bitwise_or .*integers"),
        (lambda t: np.save("file", t), r"np\.save .*state_dict"),
        (lambda t: np.nanmedian(t), r"np\.nanmedian .*isnan"),
    ],
)
def test_refusals_name_what_is_meant(call, hint):
    with pytest.raises(TypeError, match=hint):
        call(leaf(VECTOR))


def test_hints_are_for_what_is_not_covered():
    covered = {full_name(f) for f in (*TWINS, *PLAIN)} | {f"{full_name(f)}.{method}" for f, method in METHODS}
    assert not covered & hints._INSTEAD.keys()


def test_every_function_refused_has_a_hint_of_its_own():
    refused = [name for name, f in FUNCTIONS.items() if f not in TWINS and f not in PLAIN]
    refused += [full_name(f) for f in UFUNCS if f not in TWINS and f not in PLAIN]
    assert not [name for name in refused if "Instead" not in hints.instead(name, ())]


def test_hints_name_functions_that_are_there():
    text = " ".join([*hints._INSTEAD.values(), *hints.ATTRIBUTES.values()])
    for name in re.findall(r"\bF\.(\w+)", text):
        assert hasattr(F, name), name
    for name in re.findall(r"\bnp\.([\w.]+\w)", text):
        found = np
        for part in name.split("."):
            found = getattr(found, part)


def test_spelling_helps_only_where_it_is_close():
    assert hints.instead("np.tensrdot", ["np.tensordot"]) == " Did you mean 'np.tensordot'?"
    assert hints.instead("np.unknown", ["np.tensordot", "np.where"]) == ""
    assert hints.instead("np.linalg.outr", ["np.outer", "np.linalg.outer"]) == " Did you mean 'np.linalg.outer'?"
    known = ["scipy.special.psi", "scipy.special.erfinv", "np.expm1", "np.exp2", "np.log1p", "np.round", "np.cbrt"]
    for name in ("expm1", "exp2", "log1p", "round", "cbrt"):
        assert hints.instead(f"scipy.special.{name}", known) == f" Did you mean 'np.{name}'?"
    for name in ("ellipk", "exp1", "expi", "i0", "j0", "erfcx", "log_ndtr"):
        assert hints.instead(f"scipy.special.{name}", known) == ""


def test_full_names():
    assert full_name(np.linalg.norm) == "np.linalg.norm"
    assert full_name(np.fft.fft) == "np.fft.fft"
    assert full_name(np.add) == "np.add"
    assert full_name(np.frompyfunc(abs, 1, 1)).startswith("abs")


# --- names of other libraries ---


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cuda", "CPU"), ("unsqueeze", r"np\.expand_dims\(t, axis\)"), ("view", r"t\.reshape"),
        ("permute", r"t\.transpose"), ("zero_grad", r"t\.grad = None"), ("grad_fn", r"t\.node"),
        ("clone", r"t\.copy\(\)"), ("gt", "a > b"), ("narrow", r"t\[start"), ("movedim", r"np\.moveaxis"),
        ("masked_fill_", "in place"), ("exp_", "in place"), ("new_tensor", r"np\.array\(data"), ("bool", "astype"),
        ("requires_grad_", r"t\.requires_grad = False"), ("outer", r"np\.outer\(t, b\)$"),
        ("inner", r"np\.inner\(t, b\)$"), ("where", r"np\.where\(condition, t, other\)"),
        ("maximum", r"np\.maximum\(t, x2\)"), ("median", r"np\.median\(t\)"),
        ("relu", r"F\.relu\(t\)"), ("exp", r"write np\.exp\(t\)"), ("log", r"write np\.log\(t\)"),
        ("isnan", r"write np\.isnan\(t\)"), ("mul_", "in place"), ("masked_fill", r"np\.where"),
        ("zzz", "has no 'zzz'$"), ("_relu", "has no '_relu'$"), ("ndarray", "has no 'ndarray'$"),
    ],
)  # fmt: skip
def test_missing_attributes_name_what_to_write(name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(leaf([1.0]), name)


def test_no_hint_is_for_an_attribute_that_is_there():
    assert not [name for name in hints.ATTRIBUTES if hasattr(leaf([1.0]), name)]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda t: t.sum(dim=0), r"sum\(\) has no setting 'dim'.*axis="),
        (lambda t: t.mean(0, keepdim=True), r"mean\(\) has no setting 'keepdim'.*keepdims="),
        (lambda t: F.softmax(t, dim=-1), r"softmax\(\) has no setting 'dim'.*axis="),
        (lambda t: F.sum(t, keepdim=True), r"sum\(\) has no setting 'keepdim'.*keepdims="),
        (lambda t: t.sum(axs=0), "Did you mean 'axis'"),
        (lambda t: np.einsum("ij", t, out=np.ones((1, 1))), r"np\.einsum cannot write .*out="),
        (lambda t: np.einsum("ij", t, dtype=np.float32), r"np\.einsum .*dtype=None only.*astype"),
        (lambda t: np.einsum("ij", t, casting="unsafe"), "casting='safe' only"),
        (lambda t: np.einsum("ij", t, order="F"), "order='K' only"),
        (lambda t: np.einsum("ij", t, optimise=True), r"np\.einsum has no setting 'optimise'"),
        (lambda t: np.einsum(t), "a list of axis numbers behind each operand"),
        (lambda t: np.einsum(t, [0.5, 1]), r"a list of axis numbers .*got \[0\.5, 1\]"),
        (lambda t: np.clip(t, 0, 1, where=np.array([[True]])), r"np\.clip on a tensor takes .*no where="),
        (lambda t: np.clip(t, 0, 1, out=np.ones((1, 1))), r"np\.clip cannot write .*out="),
        (lambda t: np.nan_to_num(t, copy=False), r"np\.nan_to_num .*copy=False; it is nan_to_num\(x, \*, nan=0\.0"),
        (lambda t: np.nan_to_num(t, [0]), r"np\.nan_to_num .*copy=\[0\]"),
    ],
)
def test_other_settings_are_answered_with_ours(call, hint):
    with pytest.raises(TypeError, match=hint):
        call(leaf([[1.0]]))


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (ad, "jacrev", r"ad\.jacobian\(f\)"),
        (ad, "stop_gradient", r"t\.detach\(\)"),
        (ad, "no_gard", "Did you mean 'no_grad'"),
        (ad, "zeros", r"np\.zeros"),
        (nn, "Parameter", r"Tensor\(data, requires_grad=True\)"),
        (nn, "linear", "Did you mean 'Linear'"),
        (optim, "Adam", r"optim\.AdamW\(parameters, weight_decay=0\.0\)"),
        (F, "mse_loss", r"\(\(t - u\) \*\* 2\)\.mean\(\)"),
        (F, "sofmax", "Did you mean 'softmax'"),
    ],
)
def test_names_that_a_module_does_not_have(module, name, words):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{words}"):
        getattr(module, name)


def test_private_names_are_just_absent():
    for module in (ad, nn, optim, F):
        with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'\.$"):
            getattr(module, "__wrapped__")  # noqa: B009  # as a statement it would be useless
