"""Going through a tree of modules, loading a part of a state, and what needs no import of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

import autodiff as ad
from autodiff import Tensor, nn


class Block(nn.Module):
    def __init__(self, seed=0):
        self.norm, self.linears = nn.LayerNorm(2), [nn.Linear(2, 2, rng=seed), nn.Linear(2, 2, rng=seed + 1)]


def tree():
    model = nn.Module()
    model.first, model.by_name = Block(), {"last": Block(5), 3: nn.Dropout(0.5)}
    model.again = model.first.linears[0]
    return model


NAMES = [
    "", "first", "first.norm", "first.linears.0", "first.linears.1", "by_name.last", "by_name.last.norm",
    "by_name.last.linears.0", "by_name.last.linears.1", "by_name.3",
]  # fmt: skip


def test_modules_have_names_each_once_parents_first():
    model = tree()
    assert [name for name, _ in model.named_modules()] == NAMES
    found = dict(model.named_modules())
    assert [*map(id, model.modules())] == [*map(id, found.values())]
    assert found[""] is model
    assert found["by_name.last.norm"] is model.by_name["last"].norm


def test_apply_visits_parts_before_what_holds_them():
    model, visited = tree(), []
    assert model.apply(visited.append) is model
    assert len(visited) == len({*map(id, visited)}) == len(NAMES)
    place = {id(module): i for i, module in enumerate(visited)}
    assert visited[-1] is model
    for module in visited:
        assert all(place[id(part)] < place[id(module)] for _, part in module.children())

    def fill(module):
        for parameter in module.parameters() if isinstance(module, nn.Linear) else ():
            parameter.data = np.full(parameter.shape, 3.0)

    model.apply(fill)
    assert (model.first.linears[1].weight.data == 3.0).all()
    assert (model.first.norm.gamma.data == 1.0).all()


def test_apply_and_names_are_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    ours, theirs = nn.Module(), torch.nn.Module()
    ours.a, theirs.a = nn.Module(), torch.nn.Module()
    ours.a.x, theirs.a.x = nn.Linear(2, 2), torch.nn.Linear(2, 2)
    ours.a.y, theirs.a.y = nn.Linear(2, 2), torch.nn.Linear(2, 2)
    ours.b, theirs.b = (
        [nn.Dropout(0.1), nn.Linear(2, 2)],
        torch.nn.ModuleList([torch.nn.Dropout(0.1), torch.nn.Linear(2, 2)]),
    )
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules() if name != "b"]
    orders = []
    for model in (ours, theirs):
        names = {id(module): name for name, module in model.named_modules()}
        visited = []
        model.apply(lambda module, names=names, visited=visited: visited.append(names[id(module)]))
        orders.append([name for name in visited if name != "b"])
    assert orders[0] == orders[1]
    state = {"a.x.weight": np.zeros((2, 2)), "c": np.zeros(3)}
    mine = ours.load_state_dict(state, strict=False)
    other = theirs.load_state_dict({name: torch.tensor(value) for name, value in state.items()}, strict=False)
    assert (mine.missing_keys, mine.unexpected_keys) == (other.missing_keys, other.unexpected_keys)


def test_freezing_and_thawing():
    model = tree()
    model.ids, model.fixed = Tensor([1, 2]), Tensor([1.0]).detach()
    count = model.parameter_count()
    assert model.requires_grad_(False) is model
    assert model.parameter_count() == 0
    model.first.requires_grad_()
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"first"}
    assert model.requires_grad_(np.bool_(True)).parameter_count() == count
    with pytest.raises(TypeError, match="requires_grad=1 must be True or False"):
        model.requires_grad_(1)


def test_a_part_of_a_state_can_be_loaded():
    model = Block()
    before = model.state_dict()
    assert model.load_state_dict(before) == ([], [])
    assert model.load_state_dict({}, strict=False) == (list(before), [])
    state = {"norm.gamma": [5.0, 6.0], "extra": 1.0}
    with pytest.raises(ValueError, match=r"missing: norm.beta[\s\S]*unexpected: extra \(\)"):
        model.load_state_dict(state)
    assert model.load_state_dict(state, strict=False) == ([name for name in before if name != "norm.gamma"], ["extra"])
    assert model.norm.gamma.tolist() == [5.0, 6.0]
    np.testing.assert_array_equal(model.linears[0].weight.data, before["linears.0.weight"])
    for wrong, says in (([1.0], r"wrong shape: norm\.gamma"), (np.ones(2, np.float32), r"wrong dtype: norm\.gamma")):
        with pytest.raises(ValueError, match=says):
            model.load_state_dict({"norm.beta": [7.0, 7.0], "norm.gamma": wrong}, strict=False)
    assert model.norm.beta.tolist() == [0.0, 0.0]
    for state in (None, 5, [1.0], "weights"):
        with pytest.raises(TypeError, match="state must be a mapping of names to arrays"):
            model.load_state_dict(state)


def test_jacobian_and_hessian_with_more_than_the_value():
    x = np.array([1.0, 2.0, 3.0])
    jacobian, aux = ad.jacobian(lambda x: (x[1:] * x[:-1], {"sum": x.sum(), "n": x.size}), has_aux=True)(x)
    np.testing.assert_array_equal(jacobian, [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]])
    assert type(aux["sum"]) is np.ndarray
    assert (aux["sum"], aux["n"]) == (6.0, 3)
    hessian, aux = ad.hessian(lambda x, k: ((x**3).sum() * k, x * k), has_aux=True)(x, 2.0)
    np.testing.assert_allclose(hessian, np.diag(12 * x), rtol=1e-14)
    assert aux.tolist() == [2.0, 4.0, 6.0]
    (by_a, by_b), aux = ad.jacobian(lambda a, b: (a * b, "more"), argnums=(0, 1), has_aux=True)(x, 2 * x)
    np.testing.assert_array_equal(by_a, np.diag(2 * x))
    np.testing.assert_array_equal(by_b, np.diag(x))
    assert aux == "more"
    with pytest.raises(TypeError, match=r"must return \(out, aux\)"):
        ad.jacobian(lambda x: x * x, has_aux=True)(x)


def test_parts_of_the_package_need_no_import_of_their_own():
    script = """if True:
        import json, sys
        import autodiff as ad
        early = [name for name in ("nn", "optim", "testing") if f"autodiff.{name}" in sys.modules]
        listed = {"nn", "optim", "testing", "Tensor", "viz"} <= set(dir(ad))
        layer = ad.nn.Linear(2, 2, rng=0)
        ad.optim.SGD(layer.parameters(), lr=0.1).step()
        ad.testing.check_vjp("exp", ad.Tensor([0.5]).data)
        print(json.dumps([early, listed, ad.nn is sys.modules["autodiff.nn"]]))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], True, True]
    assert {"nn", "optim", "testing"} <= set(ad.__all__)
