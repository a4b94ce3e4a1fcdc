"""A deep copy of a module is a module of its own, whatever its attributes are."""

import copy
import functools
import inspect

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn

X = np.ones((2, 3))


class Scaled(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(3, 3, rng=0)

    def forward(self, x, scale=1.0):
        return np.tanh(self.linear(x)) * scale

    def twice(self, x):
        return Scaled.forward(self, Scaled.forward(self, x))


def with_forward(make):
    def build():
        module = Scaled()
        module.forward = make(module)
        return module

    return build


def outer():
    model = nn.Module()
    model.part = Scaled()
    model.part.forward = ad.recompute(model.part.forward)
    model.forward = model.part.forward
    return model


class Decorated(Scaled):
    @ad.recompute
    def forward(self, x):
        return np.tanh(self.linear(x))


class Activated(Scaled):
    def __init__(self):
        super().__init__()
        self.activation, self.operations = F.gelu, [F.relu]

    def forward(self, x):
        return self.operations[0](self.activation(self.linear(x)))


MODELS = {
    "recompute of a method": with_forward(lambda module: ad.recompute(module.forward)),
    "recompute of another method": with_forward(lambda module: ad.recompute(module.twice)),
    "recompute twice": with_forward(lambda module: ad.recompute(ad.recompute(module.forward))),
    "recompute of a partial": with_forward(lambda module: ad.recompute(functools.partial(module.forward, scale=2.0))),
    "partial of a recompute": with_forward(lambda module: functools.partial(ad.recompute(module.forward), scale=2.0)),
    "recompute of a part": with_forward(lambda module: ad.recompute(module.linear.forward)),
    "partial": with_forward(lambda module: functools.partial(module.forward, scale=2.0)),
    "partial with a module": with_forward(lambda module: functools.partial(nn.Linear.forward, module.linear)),
    "method": with_forward(lambda module: module.twice),
    "method of a part": with_forward(lambda module: module.linear.forward),
    "part and whole": outer,
    "decorated class": Decorated,
    "ops as attributes": Activated,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_deep_copy_runs_and_trains_its_own_weights(name):
    model = MODELS[name]()
    twin = copy.deepcopy(model)
    expected = model(X).data
    np.testing.assert_array_equal(twin(X).data, expected)
    for parameter in twin.parameters():
        parameter.data = 0.5 * parameter.data
    np.testing.assert_array_equal(model(X).data, expected)
    assert not np.array_equal(twin(X).data, expected)
    twin(X).sum().backward()
    assert [p.grad for p in model.parameters()] == [None, None]
    assert all(p.grad is not None for p in twin.parameters())
    again = copy.deepcopy(twin)
    np.testing.assert_array_equal(again(X).data, twin(X).data)
    assert not {*map(id, again.parameters())} & {*map(id, (*twin.parameters(), *model.parameters()))}


def test_a_recomputed_function_is_still_like_the_function():
    module = Scaled()
    again = ad.recompute(module.forward)
    assert (again.__name__, again.__wrapped__) == ("forward", module.forward)
    assert list(inspect.signature(again).parameters) == ["x", "scale"]
    assert list(inspect.signature(Decorated().forward).parameters) == ["x"]
    assert Decorated.forward.__qualname__ == "Decorated.forward"

    def double(x):
        return x * 2.0

    assert copy.deepcopy(ad.recompute(double)).__wrapped__ is double


@pytest.mark.parametrize("make", [
    lambda module: lambda x: module.linear(x),
    lambda module: ad.no_grad()(module.forward),
    lambda module: ad.recompute(lambda x: module.linear(x)),
    lambda module: functools.partial(lambda x: module.linear(x)),
    lambda module: lambda x, layer=module.linear: layer(x),
    lambda module: lambda x, w=module.linear.weight: x @ w,
    lambda module: functools.cache(lambda x: module.linear(x)),
])  # fmt: skip
def test_a_function_that_would_call_the_original_is_refused(make):
    model = nn.Module()
    model.part = with_forward(make)()
    for one in (model, model.part):
        with pytest.raises(TypeError, match=r"Scaled\.forward .* in a copy it would still call that one"):
            copy.deepcopy(one)
    copy.copy(model)


def test_a_copy_follows_what_its_class_says():
    class Handle(Scaled):
        def __getstate__(self):
            return {name: value for name, value in vars(self).items() if name != "file"}

    module = Handle()
    module.file = (number for number in ())  # cannot be copied
    module.function = lambda x: x + 1  # refers to nothing here
    module.tied = module.linear.weight
    twin = copy.deepcopy(module)
    assert not hasattr(twin, "file")
    assert twin.tied is twin.linear.weight is not module.tied
    assert twin.function is module.function
    assert type(twin.tied) is Tensor
