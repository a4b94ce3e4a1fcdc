"""What an optimiser does besides the formula: memory that others see, frozen parameters, groups, states."""

import copy
import fractions
import math

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor, nn, optim
from autodiff.optim import SGD, AdamW, clip_grad_norm


def leaf(*values, dtype=float, name=None):
    return Tensor(np.array(values or (1.0, 2.0), dtype), requires_grad=True, name=name)


def shared(array):
    tensor = ad.as_tensor(array)
    tensor.requires_grad = True
    return tensor


def filled(parameter, value=1.0):
    parameter.grad = np.full(parameter.shape, value)
    return parameter


# --- memory that others see ---


@pytest.mark.parametrize("size", [2, 5000, 70000])  # alone in a block, in one with others, in several
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_shares_memory_with_a_parameter_sees_every_step(size, order):
    array = np.zeros((size, 3)).T if order == "F" else np.zeros((3, size))
    tensor = shared(array)
    constant, held, part = tensor.detach(), tensor.data, tensor.data[1:]
    others = [leaf(), leaf(3.0)]
    optimizer = SGD([others[0], tensor, others[1]], lr=0.5)
    tensor.data = np.full(tensor.shape, 5.0)
    for parameter in (*others, tensor):
        filled(parameter)
    optimizer.step()
    after = constant if size == 2 else tensor.detach()
    for view in (array, constant.data, held, part, tensor.data, after.data):
        assert (view == 4.5).all()
    array[...] = 1.0
    optimizer.step()
    assert (tensor.data == 0.5).all()
    assert others[0].tolist() == [0.0, 1.0]


def test_tensors_over_one_array_stay_together():
    array = np.array([1.0, 2.0, 3.0])
    first, second, part = shared(array), shared(array), shared(array[1:])
    optimizer = SGD([first, leaf(), second, part], lr=0.1)
    for parameter in (first, second, part):
        filled(parameter)
    optimizer.step()  # one after the other, as PyTorch does
    np.testing.assert_allclose(array, [0.8, 1.7, 2.7], rtol=1e-14)
    assert first.tolist() == second.tolist() == array.tolist()


def test_several_optimisers_and_files_share_the_memory_of_a_parameter(tmp_path):
    file = np.memmap(tmp_path / "weights", dtype=float, mode="w+", shape=(4,))
    tensor = shared(file)
    for _ in range(2):
        for optimizer in (SGD([tensor], lr=1.0), SGD([leaf(), tensor], lr=1.0), AdamW([tensor], lr=0.0)):
            filled(tensor)
            optimizer.step()
    assert file.tolist() == [-4.0] * 4
    strided = np.zeros((4, 4))
    diagonal = shared(strided.reshape(-1)[::5])
    filled(diagonal)
    SGD([diagonal], lr=1.0).step()
    np.testing.assert_array_equal(strided, -np.eye(4))
    for scalar in (Tensor(2.0, requires_grad=True), shared(np.array(2.0))):
        constant, held = scalar.detach(), scalar.data
        filled(scalar)
        SGD([scalar, filled(leaf())], lr=1.0).step()
        assert held == scalar.data == constant.data == 1.0


@pytest.mark.parametrize("make", [
    lambda: leaf(name="w").detach(),
    lambda: ad.as_tensor(np.broadcast_to(np.ones(1), (3,))),
    lambda: ad.as_tensor(np.frombuffer(np.ones(2).tobytes())),
])  # fmt: skip
def test_a_parameter_that_cannot_be_written_to_is_refused(make):
    tensor = make()
    tensor.requires_grad, tensor.name = True, "mine"
    with pytest.raises(ValueError, match=r"'mine'.*read-only.*Tensor\(x.data, requires_grad=True\)"):
        SGD([leaf(), tensor], lr=0.1)


# --- frozen ones ---


@pytest.mark.parametrize("kind", [
    lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), lambda p: AdamW(p, lr=0.1, weight_decay=0.1),
])  # fmt: skip
@pytest.mark.parametrize("size", [2, 5000])
def test_a_frozen_parameter_is_not_stepped_whatever_its_gradient(kind, size):
    parameters = [Tensor(np.ones(size), requires_grad=True) for _ in range(3)]
    optimizer = kind(parameters)
    for parameter in parameters:
        filled(parameter)
    parameters[1].requires_grad = False
    for _ in range(3):
        optimizer.step()
    assert (parameters[1].data == 1.0).all()
    assert (parameters[0].data != 1.0).all()
    assert optimizer.state_dict()["state"].keys() == {0, 2}
    optimizer.zero_grad()
    assert [parameter.grad for parameter in parameters] == [None] * 3
    parameters[1].requires_grad = True
    filled(parameters[1])
    optimizer.step()
    assert optimizer.state_dict()["state"][1]["step"] == 1


def test_a_stale_gradient_has_no_part_in_the_norm():
    w, frozen = filled(leaf(0.0, 0.0), 3.0), filled(leaf(0.0), 1e6)
    frozen.requires_grad = False
    assert clip_grad_norm([w, frozen], 100.0) == pytest.approx(math.sqrt(18))
    assert (w.grad == 3.0).all()
    assert frozen.grad == 1e6


# --- settings ---

SCALARS = [
    fractions.Fraction, np.float16, np.float32, np.float64, np.longdouble, np.int8, int, np.array,
    lambda v: np.array(v, np.float16),
]  # fmt: skip


@pytest.mark.parametrize("scalar", SCALARS)
def test_numbers_of_every_type_are_the_same_number(scalar):
    w, same = filled(leaf(0.0, 0.0), 300.0), filled(leaf(0.0, 0.0), 300.0)
    assert clip_grad_norm([w], scalar(1)) == clip_grad_norm([same], 1.0)
    np.testing.assert_allclose(w.grad, np.sqrt([0.5, 0.5]), rtol=1e-6)
    np.testing.assert_array_equal(w.grad, same.grad)
    one = scalar(1)
    assert AdamW([w], betas=np.array([0.5, 0.75])).param_groups[0]["betas"] == (0.5, 0.75)
    kinds = [
        lambda p, v: SGD(p, lr=v, momentum=v, weight_decay=v, nesterov=True),
        lambda p, v: AdamW(p, lr=v, betas=(v - v, 0 * v), eps=v, weight_decay=v),
    ]
    for kind in kinds:
        ours, plain = kind([w], one), kind([same], 1.0)
        assert ours.state_dict()["param_groups"] == plain.state_dict()["param_groups"]
        assert {type(v) for k, v in ours.param_groups[0].items() if k not in ("params", "betas", "nesterov")} == {float}
        ours.param_groups[0]["lr"] = scalar(2)
        plain.lr = 2.0
        ours.step(), plain.step()
        np.testing.assert_array_equal(w.data, same.data)
    for schedule in (optim.warmup_cosine, optim.warmup_linear):
        for step in (0, 100, 127):
            settings = {"lr": 1.0, "min_lr": 0.0, "warmup": 127, "total": 127}
            given = {"lr": scalar(1), "min_lr": scalar(0), "warmup": np.int8(127), "total": np.array(127)}
            assert schedule(np.int8(step), **given) == schedule(step, **settings)


@pytest.mark.parametrize("value", [
    math.nan, math.inf, -1, "1", None, True, [1.0], np.array([1.0, 2.0]), 1j, 10**400, np.bool_(True), Tensor(0.1),
])  # fmt: skip
@pytest.mark.parametrize("name", ["lr", "momentum", "weight_decay"])
def test_other_values_are_refused_whenever_they_are_given(name, value):
    w = filled(leaf())
    with pytest.raises(ValueError, match=f"{name}="):
        SGD([w], **{"lr": 0.1, name: value})
    optimizer = SGD([w], lr=0.1)
    optimizer.step()
    optimizer.param_groups[0][name] = value
    with pytest.raises(ValueError, match=f"{name}="):
        optimizer.step()
    assert w.tolist() == [0.9, 1.9]


def test_nesterov_needs_momentum():
    w = leaf()
    for make in (
        lambda: SGD([w], lr=0.1, nesterov=True),
        lambda: SGD([{"params": [w], "nesterov": True}], lr=0.1),
        lambda: SGD([leaf()], lr=0.1).add_param_group({"params": [w], "nesterov": np.bool_(True)}),
        lambda: SGD([w], lr=0.1, momentum=np.float16(0), nesterov=True),
    ):
        with pytest.raises(ValueError, match=r"nesterov=True .* momentum must be greater than 0"):
            make()
    SGD([{"params": [w], "momentum": 0.9}], lr=0.1, nesterov=False)


# --- groups ---


def test_groups_are_added_and_take_part_at_once():
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    ours = [leaf(1.0, 2.0), leaf(3.0), leaf(4.0, 5.0)]
    theirs = [torch.tensor(p.numpy(), requires_grad=True) for p in ours]
    optimizer, other = AdamW(ours[:1], lr=0.1), torch.optim.AdamW(theirs[:1], lr=0.1)
    for step in range(4):
        if step == 2:
            optimizer.add_param_group({"params": ours[1:2], "lr": 0.5})
            other.add_param_group({"params": theirs[1:2], "lr": 0.5})
            optimizer.add_param_group({"params": ours[2]})
            other.add_param_group({"params": theirs[2]})
        for number, (group, its) in enumerate(zip(optimizer.param_groups, other.param_groups, strict=True)):
            rate = optim.warmup_cosine(step, lr=0.1 * (number + 1), min_lr=0.0, warmup=0, total=10)
            group["lr"] = its["lr"] = rate  # a schedule of its own for each group
        for p, q in zip(ours, theirs, strict=True):
            p.grad = np.cos(p.data * (step + 1))
            q.grad = torch.tensor(p.grad)
        optimizer.step(), other.step()
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-12)
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1], [2]]
    assert [state["state"][i]["step"] for i in range(3)] == [4, 2, 2]
    optimizer.load_state_dict(state)


def test_an_added_group_is_stepped_as_by_an_optimiser_of_its_own():
    first, second, other = leaf(), leaf(3.0, 4.0), leaf(3.0, 4.0)
    optimizer, its_own = AdamW([first], lr=0.1), AdamW([other], lr=0.5, weight_decay=0.0)
    filled(first)
    optimizer.step()
    optimizer.add_param_group({"params": (p for p in [second]), "lr": 0.5, "weight_decay": 0})
    for _ in range(3):
        filled(second), filled(other)
        optimizer.step(), its_own.step()
    np.testing.assert_array_equal(second.data, other.data)
    state = optimizer.state_dict()
    assert [state["state"][i]["step"] for i in (0, 1)] == [4, 3]
    optimizer.load_state_dict(state)
    optimizer.zero_grad()
    assert second.grad is None


@pytest.mark.parametrize(("name", "message"), [
    ("learning_rate", "Write lr=... for it"), ("beta1", "Write betas=... for it"), ("amsgrad", "leave it out"),
    ("weight_deca", "Did you mean 'weight_decay'"),
])  # fmt: skip
def test_a_setting_of_a_group_is_answered_as_the_constructors(name, message):
    settings = {name: 0.1}
    with pytest.raises(TypeError, match=message):
        AdamW([leaf()], **settings)
    with pytest.raises(ValueError, match=message):
        AdamW([{"params": [leaf()], **settings}])
    with pytest.raises(ValueError, match=message):
        AdamW([leaf()]).add_param_group({"params": [leaf()], **settings})


def test_a_parameter_given_twice_names_its_groups():
    w, v = leaf(name="w"), leaf()
    optimizer = SGD([{"params": [v]}, {"params": [w]}], lr=0.1)
    for make, groups in [
        (lambda: SGD([v, w, w], lr=0.1), "group 0"),
        (lambda: SGD([{"params": [v]}, {"params": [w, w]}], lr=0.1), "group 1"),
        (lambda: SGD([{"params": [w]}, {"params": [v]}, {"params": [w]}], lr=0.1), "groups 0 and 2"),
        (lambda: optimizer.add_param_group({"params": [w]}), "groups 1 and 2"),
    ]:
        with pytest.raises(ValueError, match=rf"same tensor .*name 'w'\) twice, in {groups}: give it once"):
            make()


@pytest.mark.parametrize(("group", "error", "message"), [
    ({"lr": 0.1}, ValueError, "no 'params'"), ([], TypeError, "mapping"),
    ({"params": [leaf()], "lr": -1}, ValueError, "lr=-1"), ({"params": [leaf()], "rate": 1}, ValueError, "'rate'"),
    ({"params": None}, TypeError, "not None"), ({"params": nn.Module()}, TypeError, "not Module"),
    ({"params": [leaf()], 5: 1}, ValueError, "no setting 5"),
    ({"params": [leaf(), leaf() * 2]}, TypeError, "multiply"), ({"params": [leaf(), 1.0]}, TypeError, "float"),
])  # fmt: skip
def test_an_impossible_group_adds_nothing(group, error, message):
    w = leaf()
    optimizer = SGD([w], lr=0.1)
    with pytest.raises(error, match=message):
        optimizer.add_param_group(group)
    with pytest.raises(ValueError, match="twice"):
        optimizer.add_param_group({"params": [leaf(), w]})
    assert len(optimizer.param_groups) == len(optimizer.state_dict()["param_groups"]) == 1


@pytest.mark.parametrize("change", [
    lambda o, p: o.param_groups[0]["params"].append(p),
    lambda o, p: o.param_groups[0]["params"].extend([p]),
    lambda o, p: o.param_groups[0]["params"].clear(),
    lambda o, p: o.param_groups[0]["params"].__setitem__(0, p),
    lambda o, p: o.param_groups.append({"params": [p]}),
    lambda o, p: setattr(o, "param_groups", [{"params": [p], "lr": 1.0}]),
    lambda o, p: o.param_groups[0].update(params=[p]),
    lambda o, p: o.param_groups[0].__setitem__("params", (*o.param_groups[0]["params"], p)),
    lambda o, p: o.param_groups[0].pop("params"),
    lambda o, p: o.param_groups[0].pop("lr"),
    lambda o, p: o.param_groups[0].clear(),
])  # fmt: skip
@pytest.mark.parametrize("ask", [AdamW.step, AdamW.state_dict])
def test_changing_what_an_optimiser_hands_out_is_never_ignored(change, ask):
    optimizer, p = AdamW([filled(leaf())]), filled(leaf())

    def change_and_ask():
        change(optimizer, p)
        ask(optimizer)

    with pytest.raises((AttributeError, ValueError), match=r"add_param_group|no setter|lacks|exchanged"):
        change_and_ask()
    assert p.tolist() == [1.0, 2.0]


# --- states ---


def trained():
    w = filled(leaf())
    optimizer = AdamW([w])
    optimizer.step()
    return w, optimizer


def changed(path, value):
    """A good state with something else in one place; without that place, if there is nothing else."""
    state = trained()[1].state_dict()
    *above, last = path
    place = state
    for key in above:
        place = place[key]
    if value is None and last != "step":
        del place[last]
    else:
        place[last] = value
    return state


ENTRY, GROUP = ("state", 0), ("param_groups", 0)

DAMAGED = {
    **{f"step {value!r}": (changed((*ENTRY, "step"), value), f"parameter 0: step={value!r}") for value in (
        None, -1, 0, 1.5, "7", True, math.nan, [1])},
    "step beyond all": (changed((*ENTRY, "step"), 10**400), "parameter 0: step=1000"),
    "no step": (changed((*ENTRY, "step"), 1) | {"state": {0: {}}}, "parameter 0: has []"),
    "no lr": (changed((*GROUP, "lr"), None), "group 0: lacks 'lr'"),
    "no params": (changed((*GROUP, "params"), None), "group 0: lacks 'params'"),
    "no betas": (changed((*GROUP, "betas"), None), "group 0: lacks 'betas'"),
    "lr": (changed((*GROUP, "lr"), "0.1"), "group 0: lr='0.1'"),
    "another setting": (changed((*GROUP, "momentum"), 0.9), "group 0: AdamW has no setting 'momentum'"),
    "no state": (changed(("state",), None), "'state' must be a mapping, not None"),
    "no groups": (changed(("param_groups",), None), "'param_groups' must be a list of mappings, not None"),
    "state a list": (changed(("state",), [1]), "'state' must be a mapping, not [1]"),
    "groups numbers": (changed(("param_groups",), [1]), "'param_groups' must be a list of mappings, not [1]"),
    "groups a mapping": (changed(("param_groups",), {}), "'param_groups' must be a list of mappings, not {}"),
    "entry None": (changed(("state", 0), 5), "parameter 0: has 5"),
    "number True": ({**changed(ENTRY, {}), "state": {True: {}}}, "unexpected: state of parameter True"),
    "number 0.0": ({**changed(ENTRY, {}), "state": {0.0: {}}}, "unexpected: state of parameter 0.0"),
    "number '0'": ({**changed(ENTRY, {}), "state": {"0": {}}}, "unexpected: state of parameter '0'"),
    "moment None": (changed((*ENTRY, "exp_avg"), 5), "parameter 0: exp_avg has shape (), not (2,)"),
    "moment ragged": (changed((*ENTRY, "exp_avg"), [[1], [1, 2]]), "parameter 0: exp_avg is no array"),
    "moment masked": (changed((*ENTRY, "exp_avg"), np.ma.array([1.0, 2.0], mask=[0, 1])), "arrays without a mask"),
    "None": (None, "not a mapping"), "a list": ([], "not a mapping"), "empty": ({}, "'state' must be"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_of_a_damaged_state_nothing_is_loaded(case):
    state, message = DAMAGED[case]
    optimizer = trained()[1]
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        optimizer.load_state_dict(state)
    assert message in str(caught.value)
    np.testing.assert_equal(optimizer.state_dict(), before)
    optimizer.step()


def test_everything_that_is_wrong_with_a_state_is_said_at_once():
    state = changed((*ENTRY, "step"), -1)
    del state["param_groups"][0]["lr"]
    state["param_groups"][0].update(betas=1, eps=-1.0)
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        trained()[1].load_state_dict(state)
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert lines == [
        "group 0: lacks 'lr'", "group 0: betas=1 must be two numbers", "group 0: eps=-1.0 must be at least 0",
        "parameter 0: step=-1 must be an integer of at least 1",
    ]  # fmt: skip
    state = SGD([leaf()], lr=0.1).state_dict()
    state["param_groups"][0]["nesterov"] = True
    with pytest.raises(ValueError, match="momentum must be greater than 0"):
        SGD([leaf()], lr=0.1).load_state_dict(state)


def test_a_state_may_come_from_a_file():
    w, optimizer = trained()
    state = optimizer.state_dict()
    state["state"][0]["step"] = np.array(4)
    state["param_groups"][0].update(lr=np.float32(0.5), betas=[np.float64(0.5), 0.75], params=(0,))
    optimizer.load_state_dict(state)
    filled(w)
    optimizer.step()
    after = optimizer.state_dict()
    assert after["state"][0]["step"] == 5
    assert after["param_groups"][0]["betas"] == (0.5, 0.75)
    assert type(optimizer.lr) is float
