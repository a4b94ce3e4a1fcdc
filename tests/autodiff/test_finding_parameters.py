"""What a module takes for its parts: names that are not unique, identity, slots, and what it cannot find."""

import collections
import copy
import dataclasses
import functools
import itertools
import operator
import types

import numpy as np
import pytest

import autodiff.functional as F
from autodiff import Tensor, nn


def leaf(*values):
    return Tensor(np.array(values or (1.0, 2.0)), requires_grad=True)


def linear(seed=0):
    return nn.Linear(2, 2, rng=seed)


def module(**attributes):
    made = nn.Module()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def names(made):
    return [name for name, _ in made.named_parameters()]


# --- names ---


def nested():
    inner = module(b=leaf())
    made = module(a=inner)
    setattr(made, "a.b", leaf())
    return made


AMBIGUOUS = {
    "an integer key and a string": (lambda: module(h={1: linear(), "1": linear()}), "h[1].weight", "h['1'].weight"),
    "tensors under such keys": (lambda: module(h={0: leaf(), "0": leaf()}), "h[0]", "h['0']"),
    "a key with a dot": (lambda: module(h={"a.b": leaf(), "a": {"b": leaf()}}), "h['a.b']", "h['a']['b']"),
    "a key with a dot beside a module": (
        lambda: module(h={"a.weight": leaf(), "a": linear()}), "h['a.weight']", "h['a'].weight",
    ),
    "an attribute with a dot": (nested, "a.b", "'a.b'"),
    "an attribute with a dot beside a list": (lambda: module(x=[leaf()], **{"x.0": leaf()}), "x[0]", "'x.0'"),
    "below another module": (lambda: module(top=[module(h={1: leaf(), "1": leaf()})]), "top[0].h[1]", "top[0].h['1']"),
    "True and its name": (lambda: module(h={True: leaf(), "True": leaf()}), "h[True]", "h['True']"),
}  # fmt: skip


@pytest.mark.parametrize("case", AMBIGUOUS)
@pytest.mark.parametrize("ask", [
    nn.Module.parameters, nn.Module.named_parameters, nn.Module.state_dict, nn.Module.parameter_count,
    nn.Module.summary, nn.Module.shared_parameters, nn.Module.zero_grad, lambda made: made.load_state_dict({}),
])  # fmt: skip
def test_two_parameters_of_one_name_are_refused_with_both_places(case, ask):
    make, *places = AMBIGUOUS[case]
    with pytest.raises(ValueError, match="have one name") as caught:
        ask(make())
    assert " and ".join(places) in str(caught.value) or " and ".join(places[::-1]) in str(caught.value)


def test_one_parameter_at_two_places_of_one_name_is_no_harm():
    shared = leaf()
    assert names(module(h={1: shared, "1": shared})) == ["h.1"]


# --- identity ---


@dataclasses.dataclass
class Chain(nn.Module):
    factor: Tensor
    inner: nn.Module | None = None


@dataclasses.dataclass(frozen=True)
class Frozen(nn.Module):
    factor: Tensor
    inner: nn.Module | None = None


@dataclasses.dataclass(slots=True)
class Slotted(nn.Module):
    factor: Tensor
    inner: nn.Module | None = None


class Same(nn.Module):
    """Equal to everything, empty, and without a hash."""

    __hash__ = None

    def __init__(self, factor, inner=None):
        self.factor, self.inner = factor, inner

    def __eq__(self, other):
        return True

    def __len__(self):
        return 0


class Elementwise(Same):
    def __eq__(self, other):
        return np.array([True, False])


@pytest.mark.parametrize("kind", [Chain, Frozen, Slotted, Same, Elementwise])
def test_modules_are_told_apart_by_identity(kind):
    made = kind(leaf(), kind(leaf(), kind(leaf())))
    assert names(made) == ["factor", "inner.factor", "inner.inner.factor"]
    assert [type(part) for part in made.modules()] == [kind] * 3
    assert not any(part.training for part in made.eval().modules())
    with made.train().evaluating():
        assert not made.inner.training
    assert made.inner.training
    other = kind(leaf(), kind(leaf(), kind(leaf())))
    for parameter in other.parameters():
        parameter.data = [7.0, 8.0]
    made.load_state_dict(other.state_dict())
    assert made.inner.inner.factor.tolist() == [7.0, 8.0]


def test_a_module_inside_of_itself_still_ends():
    made = Same(leaf())
    made.inner = made
    assert names(made) == ["factor"]


# --- frozen parameters ---


def test_zero_grad_clears_what_was_frozen_since():
    made = module(layer=linear(), frozen=leaf())
    made.layer(np.ones(2)).sum().backward()
    made.frozen.grad = [1.0, 1.0]
    made.frozen.requires_grad = made.layer.weight.requires_grad = False
    made.zero_grad()
    assert made.layer.weight.grad is made.layer.bias.grad is made.frozen.grad is None


# --- what is not found ---


@dataclasses.dataclass
class Record:
    value: object


@dataclasses.dataclass(slots=True)
class SlottedRecord:
    value: object


class Owner:
    def __init__(self, value):
        self.value = value

    def method(self):
        return self.value


class ListWith(list):
    def __init__(self, value):
        self.value = value


class DictWith(dict):
    def __init__(self, value):
        self.value = value


def stream(value):
    yield value


HOLDERS = {
    "set": lambda part: {part},
    "frozenset": lambda part: frozenset({part}),
    "deque": lambda part: collections.deque([part]),
    "object array": lambda part: np.fromiter([part], object),
    "partial": lambda part: functools.partial(max, part),
    "keyword of a partial": lambda part: functools.partial(max, key=part),
    "bound method": lambda part: Owner(part).method,
    "closure": lambda part: lambda: part,
    "default of a function": lambda part: lambda x=part: x,
    "generator": stream,
    "generator expression": lambda part: (one for one in [part]),
    "iterator": lambda part: iter([part]),
    "map": lambda part: map(str, [part]),
    "namespace": lambda part: types.SimpleNamespace(part=part),
    "dataclass": Record,
    "dataclass with slots": SlottedRecord,
    "object in a list in a dictionary": lambda part: {"a": [1, Owner(part)]},
    "objects in objects": lambda part: Owner(Owner({"a": {part}})),
    "user dictionary": lambda part: collections.UserDict(a=part),
    "read-only dictionary": lambda part: types.MappingProxyType({"a": part}),
    "key": lambda part: {part: 1},
    "values of a dictionary": lambda part: {"a": part}.values(),
    "cached function": lambda part: functools.cache(lambda: part),
    "attribute of a list": ListWith,
    "attribute of a dictionary": DictWith,
    "default of a dictionary": lambda part: collections.defaultdict(lambda: part),
    "reversed list": lambda part: reversed([part]),
    "chain": lambda part: itertools.chain([part], [1]),
    "cycle": lambda part: itertools.cycle([part]),
    "repeat": itertools.repeat,
    "method of a list": lambda part: [part].append,
    "call of a method": lambda part: operator.methodcaller("method", part),
    "error": ValueError,
}


@pytest.mark.parametrize("make", [leaf, linear])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_part_that_is_not_found_is_reported(holder, make):
    made = module(layer=linear(), hidden=HOLDERS[holder](make()))
    for ask in (nn.Module.parameters, nn.Module.state_dict, nn.Module.named_parameters):
        with pytest.warns(UserWarning, match=r"Module\.hidden .* neither trained nor saved") as caught:
            assert len(list(ask(made))) == 2
        assert {warning.filename for warning in caught} == {__file__}
    above = module(below=[made])
    with pytest.warns(UserWarning, match=r"Module\.hidden"):
        list(above.parameters())


@pytest.mark.parametrize("holder", HOLDERS.keys() - {"generator expression", "map"})
def test_what_is_found_elsewhere_or_requires_no_gradient_is_no_loss(holder):
    shared, layer = leaf(), linear()
    made = module(shared=shared, layer=layer, first=HOLDERS[holder](shared), second=HOLDERS[holder](layer))
    made.constant = HOLDERS[holder](Tensor([1.0]))
    made.array = HOLDERS[holder]("text")
    assert names(made) == ["shared", "layer.weight", "layer.bias"]
    list(made.state_dict())


@pytest.mark.parametrize("hold", [
    lambda whole: {whole},
    lambda whole: lambda: whole,
    lambda whole: Owner(whole).method,
    lambda whole: types.SimpleNamespace(model=whole, parameters=list(whole.parameters())),
])  # fmt: skip
def test_a_part_may_know_the_whole(hold):
    whole = module(encoder=linear(0), decoder=linear(1))
    whole.encoder.owner = hold(whole)
    assert names(whole.encoder) == ["weight", "bias"]
    assert len(names(whole)) == 4
    whole.encoder.other = {module(shared=whole.encoder.weight, lost=linear())}
    with pytest.warns(UserWarning, match=r"Linear\.other holds a Module"):
        names(whole.encoder)


def test_a_frozen_copy_is_no_loss_and_a_layer_without_parameters_is():
    made = module(layer=linear())
    made.average = Owner(copy.deepcopy(made.layer).requires_grad_(False))
    assert names(made) == ["layer.weight", "layer.bias"]
    made.hidden = {nn.Dropout(0.5)}
    with pytest.warns(UserWarning, match=r"Module\.hidden holds a Dropout"):
        names(made)


RESULTS = {
    "scaled": lambda w: w * 0.1,
    "reshaped": lambda w: w.reshape(2, 1),
    "transposed": lambda w: w.T,
    "by a function": F.relu,
    "in another dtype": lambda w: w.astype(np.float32),
    "in a list": lambda w: [w * 0.1],
    "in a dictionary": lambda w: {"w": np.exp(w) + w},
    "in a set": lambda w: {w * 0.1},
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("alive", [False, True])
def test_a_result_where_a_leaf_was_meant_is_reported(name, alive):
    class Scaled(nn.Module):
        def __init__(self, w):
            self.bias = leaf()
            self.w = RESULTS[name](w)

    w = leaf()
    made = Scaled(w if alive else leaf())
    with pytest.warns(UserWarning, match=r"Scaled\.w holds a result .* no parameter"):
        list(made.parameters())


class Keeping(nn.Module):
    """Keeps what it computes."""

    def __init__(self):
        self.weight = leaf()
        self.all = []

    def forward(self, x):
        self.given = x * 2.0
        self.out = self.given * self.weight
        self.all.append(self.out)
        return self.out


def test_activations_that_a_module_keeps_are_no_loss():
    made = module(inner=Keeping())
    made.forward = lambda x: made.inner(x)
    for one in (Keeping(), made):
        one.last = one(leaf())
        one.last.sum().backward()
        assert len(names(one)) == len(one.state_dict()) == 1


def test_a_parameter_of_another_part_may_be_seen_through_a_result():
    made = module(embedding=nn.Embedding(3, 2, rng=0), head=nn.Module())
    made.head.weight = made.embedding.weight.T  # a tied head
    assert names(made) == ["embedding.weight"]


def test_a_function_in_place_of_a_method_adds_no_part():
    made, given = linear(), leaf()
    made.forward = lambda x: given
    assert names(made) == ["weight", "bias"]


def test_parameters_of_a_class_are_reported():
    class Wrong(nn.Module):
        weight = leaf()
        layers = (linear(),)
        sizes = (2, 3)

    with pytest.warns(UserWarning, match="Wrong") as caught:
        list(Wrong().parameters())
    assert [str(warning.message).split()[0] for warning in caught] == ["Wrong.weight", "Wrong.layers"]


@pytest.mark.parametrize("made", [leaf, linear])
@pytest.mark.parametrize(
    "holder",
    [
        lambda part: {part}, lambda part: frozenset([part]), lambda part: collections.deque([part]),
        lambda part: collections.UserDict(a=part), lambda part: types.MappingProxyType({"a": part}),
        lambda part: types.SimpleNamespace(a=part), lambda part: functools.partial(max, part),
    ],
)  # fmt: skip
def test_parameters_in_any_holder_of_a_class_are_reported(holder, made):
    wrong = type("Wrong", (nn.Module,), {"held": holder(made()), "forward": lambda self: made, "size": property(leaf)})
    with pytest.warns(UserWarning, match=r"^Wrong\.held holds a.*neither trained nor saved"):
        assert not list(wrong().parameters())


@pytest.mark.parametrize(
    "bases",
    [(nn.Module, list), (list, nn.Module), (nn.Module, tuple), (nn.Module, collections.deque), (dict, nn.Module)],
)
@pytest.mark.parametrize("made", [leaf, linear])
def test_parameters_in_a_module_that_is_a_container_are_reported(bases, made):
    kind = type("Wrong", bases, {})
    wrong = kind({"a": made()} if dict in bases else [made()])
    with pytest.warns(UserWarning, match=r"^Wrong\[\.\.\.\] holds a.*neither trained nor saved"):
        assert not list(module(part=wrong).parameters())


def test_a_module_that_is_a_container_of_its_own_parts_is_fine():
    wrong = type("Right", (nn.Module, list), {})([leaf(), 1.0])
    wrong.weight = wrong[0]
    assert names(wrong) == ["weight"]


def test_looking_neither_runs_nor_consumes_anything():
    class Trap:
        def __getattr__(self, name):
            raise RuntimeError(name)

        @property
        def here(self):
            raise RuntimeError("here")

    class Files(collections.abc.Mapping):
        def __getitem__(self, key):
            raise OSError(key)

        def __iter__(self):
            raise OSError("listed")

        __len__ = __iter__

    iterator, generator = iter([leaf()]), stream(leaf())
    made = module(trap=Trap(), iterator=iterator, generator=generator, files=Files())
    with pytest.warns(UserWarning, match="neither trained"):
        list(made.parameters())
    assert len(list(iterator)) == len(list(generator)) == 1
    ring = module(ring=[1])
    ring.names = collections.UserList([ring])
    ring.names.append(ring.names)
    assert names(ring) == []
