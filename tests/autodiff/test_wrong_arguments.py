"""What is given in the wrong place, form or number is refused with what is allowed and what to write."""

import dataclasses

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, hints, nn, optim

X = np.array([1.0, 2.0])


def leaf(values):
    return Tensor(np.array(values, float), requires_grad=True)


def f(x):
    return np.sum(x**2)


def h(x):
    return x**2


def loss(t):
    return (t * t).sum()


def refused(error, words, call, *args):
    with pytest.raises(error, match=words):
        call(*args)


# --- transforms ---


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian", "vjp", "jvp", "hvp", "recompute"])
@pytest.mark.parametrize("given", [leaf(3.0), X, 3.0, None, [f]])
def test_a_transform_takes_a_function(name, given):
    arguments = ((X,), (X,)) if name in ("jvp", "hvp") else (X,) if name == "vjp" else ()
    kind = "None" if given is None else f"a {type(given).__name__}"
    words = rf"{name} takes a function, and f is {kind}.*ad\.gradients\(y, x\)"
    refused(TypeError, words, getattr(ad, name), given, *arguments)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian"])
@pytest.mark.parametrize("argnums", [X, leaf(X), "x", None, 1.0, True, [0, "a"], [leaf(X)]])
def test_argnums_are_positions(name, argnums):
    words = rf"argnums must be an int or a sequence of ints.*argnums(\[\d\])? is .*ad\.{name}\(f\)\(x\)"
    refused(TypeError, words, getattr(ad, name), f, argnums)
    assert callable(getattr(ad, name)(f, np.int64(0)))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "hessian"])
def test_differentiated_arguments_are_given_by_position(name):
    words = "called with 0; pass differentiated arguments by position, not as x="
    refused(ValueError, words, lambda: getattr(ad, name)(f)(x=X))
    product = getattr(ad, name)(lambda x, y: np.sum(x * y), argnums=1)
    refused(ValueError, r"called with 1; .* by position, not as y=", lambda: product(X, y=X))
    refused(ValueError, r"called with 1$", getattr(ad, name)(f, 3), X)
    refused(TypeError, r"vjp\(\) has no setting 'x'; pass arguments by position", lambda: ad.vjp(f, x=X))


@pytest.mark.parametrize("name", ["jvp", "hvp"])
@pytest.mark.parametrize(
    ("primals", "tangents", "words"),
    [
        ((X, X), (X,), "given 2 primals, 1 tangent;"),
        ((X,), (X, X), "given 1 primal, 2 tangents;"),
        ((X,), (), "given 1 primal, 0 tangents;"),
        (X, X, r"primals must be a tuple .* not a ndarray.*\(f, \(x,\), \(v,\)\)"),
        ((X,), X, r"tangents must be a tuple .* not a ndarray"),
        ({"x": X}, {"x": X}, "primals must be a tuple .* not a dict"),
    ],
)
def test_one_tangent_for_each_primal(name, primals, tangents, words):
    refused(TypeError, words, getattr(ad, name), lambda *x: f(x[0]), primals, tangents)


def test_one_cotangent_like_the_output():
    pull = ad.vjp(h, X)[1]
    words = r"one cotangent, a tree like the output of h, and was given 2;.*vjp_fn\(\(g, \.\.\.\)\)"
    refused(TypeError, words, pull, X, X)
    refused(TypeError, r"and was given 3;", pull, X, X, X)
    assert ad.vjp(lambda x: (x, x), X)[1]((X, X))[0].tolist() == [2.0, 4.0]


def test_a_module_is_no_argument_to_differentiate():
    words = r"argument 0 of .* is a Linear, .*ad\.gradients\(loss, list\(module\.parameters\(\)\)\)"
    refused(TypeError, words, ad.grad(lambda m: m(X).sum()), nn.Linear(2, 2, rng=0))


# --- gradients, backward, conversions ---


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"w": leaf(X)}, r"not a dict; .*list\(d\.values\(\)\)"),
        (X, r"not a ndarray; .*Tensor\(data, requires_grad=True\)"),
        ([leaf(X), X], r"\[1\] is a ndarray; "),
        ([[leaf(X)]], r"\[0\] is a list; "),
        (3.0, "not a float; "),
        (None, "not a NoneType; "),
        ("w", "not a str; "),
        (f, r"not a function; for functions: ad\.grad\(f\)\(x\)"),
        (nn.Linear(2, 2), r"not a Linear; .*list\(module\.parameters\(\)\)"),
    ],
)
def test_gradients_are_of_tensors_with_respect_to_tensors(given, words):
    t = leaf(X)
    refused(TypeError, f"inputs must be a tensor or a list of tensors.*{words}", ad.gradients, loss(t), given)
    refused(TypeError, f"outputs must be a tensor or a list of tensors.*{words}", ad.gradients, given, t)
    assert ad.gradients(loss(t), (x for x in [t]))[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(("given", "kind"), [("a", "str"), ({"a": 1}, "dict"), ([None, 1], "list"), (None, "list")])
def test_a_cotangent_holds_numbers(given, kind):
    words = f"cotangent must hold real numbers; it is a {kind}"
    refused(TypeError, words, h(leaf(X)).backward, [None] * 2 if given is None else given)


@pytest.mark.parametrize("values", [[1.0, 2.0], [[1.0]] * 2, []])
@pytest.mark.parametrize("spec", [".2f", "8.3e", "d"])
def test_a_format_for_numbers_needs_one_element(values, spec):
    for t in (leaf(values), Tensor(values)):
        shape = str(t.shape).replace("(", r"\(").replace(")", r"\)")
        refused(ValueError, f"format '{spec}' needs one element; .* shape {shape}", format, t, spec)
        assert f"{t:>80}".endswith(repr(t)[-9:])
    assert f"{leaf([1.5]):.2f} {Tensor(2.0):.1e}" == "1.50 2.0e+00"


@pytest.mark.parametrize("kind", [float, int, complex])
def test_one_number_is_made_of_one_element(kind):
    refused(TypeError, rf"{kind.__name__}\(\) needs a tensor of shape \(\), not \(2,\).*t\[i\]", kind, Tensor(X))
    refused(TypeError, r"lose the gradient.*\.item\(\), to plot: t\.data", kind, leaf(3.0))
    refused(TypeError, "lose the gradient", kind, leaf(X))
    assert kind(Tensor(3.0)) == 3


def test_elements_positions_and_copies():
    refused(ValueError, r"item\(\) needs one element; the shape is \(2,\): write t\.tolist\(\)", leaf(X).item)
    refused(TypeError, "cannot be interpreted as an integer", lambda: [1, 2][Tensor(1.0)])
    assert [1, 2][Tensor(1)] == 2


def test_a_plot_says_what_to_give():
    pyplot = pytest.importorskip("matplotlib.figure")
    t = leaf(X)
    for values in (t, t * 2):
        refused((TypeError, RuntimeError), r"to plot( it)?: \w\.data", pyplot.Figure().subplots().plot, values)
        refused((TypeError, RuntimeError), r"to plot( it)?: \w\.data", pyplot.Figure().subplots().scatter, X, values)
    pyplot.Figure().subplots().plot(t.data)


# --- settings and names of other libraries ---


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ad.grad(f, argnum=0), r"grad\(\) has no setting 'argnum'\. Write argnums="),
        (lambda: ad.gradients(loss(leaf(X)), leaf(X), grad_outputs=X), r"gradients\(\) .* Write cotangents="),
        (lambda: ad.gradients(loss(leaf(X)), leaf(X), allow_unused=True), "that is not used is 0"),
        (lambda: loss(leaf(X)).backward(create_graph=True), r"backward\(\) .*ad\.gradients has it"),
        (lambda: Tensor(X, dtype=float), r"Tensor\(\) has no setting 'dtype'.*np\.asarray\(data, dtype\)"),
        (lambda: Tensor(X, device="cpu"), r"Tensor\(\) .*CPU"),
        (lambda: nn.Linear(in_features=2, out_features=2), r"Linear\(\) .* Write d_in="),
        (lambda: nn.Linear(2, 2, device="cpu"), r"Linear\(\) .*CPU"),
        (lambda: nn.LayerNorm(2, elementwise_affine=False), r"LayerNorm\(\) .* Write gain="),
        (lambda: nn.Dropout(0.5, inplace=True), r"Dropout\(\) .*in place"),
        (lambda: optim.SGD([leaf(X)], learning_rate=0.1), r"SGD\(\) .* Write lr="),
        (lambda: optim.AdamW([leaf(X)], beta1=0.9), r"AdamW\(\) .* Write betas="),
        (lambda: optim.AdamW([leaf(X)], amsgrad=True), r"AdamW\(\) .*leave it out"),
        (lambda: optim.SGD(nn.Linear(2, 2).parameters, lr=0.1), r"not a method; pass module\.parameters\(\)"),
        (lambda: optim.SGD(3.0, lr=0.1), "not a float; pass a list"),
        (lambda: optim.clip_grad_norm(nn.Linear(2, 2), 1.0), r"not a Linear; .*module\.parameters\(\)"),
    ],
)
def test_settings_of_other_libraries_are_answered(call, words):
    refused(TypeError, words, call)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("to", "CPU"), ("cuda", "CPU"), ("half", "dtype=np.float32"), ("register_parameter", "requires_grad=True"),
        ("register_buffer", r"self\.name = Tensor\(values\)"), ("named_buffers", "state_dict"),
        ("register_forward_hook", "forward"), ("compile", "leave it out"), ("in_features", r"weight\.shape"),
        ("step", r"optim\.AdamW"), ("backward", r"loss\.backward\(\)"), ("save", r"np\.savez"),
    ],
)  # fmt: skip
def test_attributes_of_other_libraries_modules_are_answered(name, words):
    refused(AttributeError, f"'Linear' object has no attribute '{name}': .*{words}", getattr, nn.Linear(2, 2), name)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ad.op("cube"), "op decorates a function, .* not 'cube'"),
        (lambda: ad.op(elementwise=True)(3), "op decorates a function, .* not 3"),
        (lambda: optim.SGD([leaf(X)], lr=0.1).zero_grad(set_to_none=True), r"zero_grad.* leave it out"),
        (lambda: nn.Linear(1, 1).zero_grad(set_to_none=True), r"zero_grad.* leave it out"),
        (lambda: optim.SGD([leaf(X)], lr=0.1).step(print), r"step\(\) takes no argument by position; .* closure"),
        (lambda: ad.scope(5), r"scope takes a name, as in scope\('block'\), not 5"),
        (lambda: ad.scope(["a"]), "scope takes a name"),
        (lambda: ad.scope(b"x"), "scope takes a name"),
        (lambda: Tensor(None), "Is None in it"),
        (lambda: nn.Linear(1, 1, rng="a"), "rng='a' must be an int of at least 0, as a seed, or a numpy Generator"),
        (lambda: nn.Dropout(0.5, rng=1.5), "rng=1.5 must be an int"),
        (lambda: optim.clip_grad_norm([X], 1.0), r"parameters must be tensors.*module\.parameters\(\)"),
    ],
)
def test_what_takes_a_function_a_seed_or_nothing_says_so(call, words):
    refused(TypeError, words, call)


def test_attributes_that_nobody_has_are_just_absent():
    model = nn.Linear(2, 2)
    refused(AttributeError, "'Linear' object has no attribute 'weigth'$", getattr, model, "weigth")
    refused(AttributeError, "'Module' object has no attribute 'forward': define it in the class", nn.Module(), X)
    assert not [name for name in hints._MODULES if hasattr(model, name) and name != "forward"]


def test_a_seed_is_at_least_0():
    refused(ValueError, "rng=-1 must be an int of at least 0", lambda: nn.Embedding(1, 1, rng=-1))


def test_what_other_bases_of_a_module_have_is_found():
    class Saves:
        device = "disk"

        def save(self):
            return "saved"

        def forward(self, x):
            return x

    class Net(nn.Module, Saves):
        pass

    assert (Net().save(), Net().device, Net()(3)) == ("saved", "disk", 3)
    assert not [name for name in hints._MODULES if hasattr(nn.Module, name)]


def test_names_that_other_libraries_have_are_free_for_ones_own():
    @dataclasses.dataclass(eq=False)
    class Block(nn.Module):
        dtype: type
        step: nn.Module = dataclasses.field(default_factory=lambda: nn.Linear(2, 2))

        def forward(self, x):
            return self.step(x)

    block = Block(np.float32)
    assert block.dtype is np.float32
    assert [name for name, _ in block.named_parameters()] == ["step.weight", "step.bias"]
    with pytest.raises(TypeError, match="dtype"):  # it has no default
        Block()
    assert not {"cuda", "to", "grad"} & {*dir(block)}
    assert {"dtype", "step", "forward", "parameters"} <= {*dir(block)}


def test_an_error_inside_of_a_property_is_its_own():
    class Broken(nn.Module):
        @property
        def step(self):
            return [].missing

    refused(AttributeError, "'list' object has no attribute 'missing'", getattr, Broken(), "step")


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (ad, "relu", r"F\.relu, with import"), (ad, "F", r"import autodiff\.functional"), (ad, "Module", "import nn"),
        (ad, "debug_nans", r"ad\.detect_anomaly\(\)"), (ad, "GradientTape", r"ad\.gradients\(y, x\)"),
        (nn, "LSTM", "loop"), (nn, "BatchNorm1d", r"nn\.LayerNorm"), (nn, "Softplus", r"F\.softplus"),
        (F, "l1_loss", r"abs\(t - u\)\.mean\(\)"), (F, "leaky_relu", r"np\.where"),
        (F, "conv2d", "sliding_window_view"), (optim, "StepLR", r"optimizer\.lr"), (optim, "RMSprop", r"optim\.AdamW"),
        (optim, "sgd", r"optim\.SGD"),
    ],
)  # fmt: skip
def test_names_of_other_libraries_are_answered(module, name, words):
    refused(AttributeError, f"has no attribute '{name}'. Instead: .*{words}", getattr, module, name)
