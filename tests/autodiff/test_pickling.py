"""Leaves, modules and optimisers can be saved by their user and sent to other processes; graphs cannot."""

import copy
import multiprocessing
import operator
import pickle

import numpy as np
import pytest

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn, optim

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
COPIES = {
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n)) for n in PROTOCOLS},
}
every_copy = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


class Net(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(5, 4, rng=0)
        self.layers = [nn.Linear(4, 4, rng=i, dtype=np.float64) for i in range(2)]
        self.dropout = nn.Dropout(0.5, rng=1)
        self.table = self.embedding.weight  # tied
        self.activation, self.parts = F.gelu, {"norm": nn.LayerNorm(4), 1: nn.RMSNorm(4)}
        self.layers[1].weight.requires_grad = False
        self.layers[0].forward = ad.recompute(self.layers[0].forward)

    def forward(self, ids):
        x = self.dropout(self.embedding(ids))
        for layer in self.layers:
            x = self.activation(layer(x))
        return F.linear(self.parts["norm"](self.parts[1](x)), self.table.T)


IDS = np.array([[0, 1, 4]])


@every_copy
@pytest.mark.parametrize("make", [
    lambda: Tensor([1.0, 2.0], requires_grad=True, name="w"),
    lambda: Tensor(np.float32(2.0), requires_grad=True),
    lambda: Tensor([[1, 2]], name="\uffff"),
    lambda: Tensor(np.zeros((0, 3), np.float16), requires_grad=True),
    lambda: Tensor(np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    lambda: Tensor([True]).detach(),
    lambda: (Tensor([1.0], requires_grad=True) * 2.0).detach(),
])  # fmt: skip
def test_a_leaf_keeps_values_name_and_whether_it_requires_a_gradient(again, make):
    leaf = make()
    if leaf.requires_grad:
        leaf.grad = np.ones(leaf.shape)
    other = again(leaf)
    assert type(other) is Tensor
    assert (other.dtype, other.shape, other.requires_grad, other.name) == (
        leaf.dtype, leaf.shape, leaf.requires_grad, leaf.name,
    )  # fmt: skip
    np.testing.assert_array_equal(other.data, leaf.data)
    np.testing.assert_array_equal(other.grad, leaf.grad) if leaf.requires_grad else None
    other.data[...] = 0
    assert not np.shares_memory(other.data, leaf.data)
    if other.requires_grad and other.size:
        (other * 3.0).sum().backward()
        assert (other.grad == 4.0).all()


@every_copy
def test_parameters_that_are_one_stay_one(again):
    w = Tensor([1.0], requires_grad=True)
    first, second = again([w, {"w": w}])
    assert first is second["w"] is not w


@every_copy
def test_a_module_runs_trains_and_keeps_its_names(again):
    net = Net()
    net(IDS)
    twin = again(net)
    assert [name for name, _ in twin.named_parameters()] == [name for name, _ in net.named_parameters()]
    assert twin.table is twin.embedding.weight
    assert twin.activation is F.gelu
    assert not twin.layers[1].weight.requires_grad
    expected = net(IDS)
    out = twin(IDS)
    np.testing.assert_array_equal(out.data, expected.data)  # with the same masks of dropout
    out.sum().backward()
    assert net.layers[0].weight.grad is None
    assert twin.layers[0].weight.grad is not None
    assert out.node.scope == expected.node.scope == ""
    twin.layers[0].weight.data *= 0.0
    assert not np.array_equal(twin.eval()(IDS).data, net.eval()(IDS).data)


@every_copy
@pytest.mark.parametrize("kind", [lambda p: optim.AdamW(p, lr=0.1), lambda p: optim.SGD(p, lr=0.1, momentum=0.9)])
def test_an_optimiser_goes_on_with_its_model(again, kind):
    net = Net()
    optimizer = kind(net.parameters())

    def steps(net, optimizer):
        for _ in range(2):
            optimizer.zero_grad()
            (net(IDS) ** 2).sum().backward()
            optimizer.step()

    steps(net, optimizer)
    twin, its_optimizer = again((net, optimizer))
    steps(net, optimizer)
    steps(twin, its_optimizer)
    np.testing.assert_equal(twin.state_dict(), net.state_dict())
    np.testing.assert_equal(its_optimizer.state_dict(), optimizer.state_dict())
    with pytest.raises(AttributeError, match="add_param_group"):
        its_optimizer.param_groups[0]["params"].append(1)


@every_copy
def test_what_recompute_gives_can_be_sent_too(again):
    layer = nn.Linear(2, 2, rng=0)
    layer.forward = ad.recompute(layer.forward)
    x = np.ones(2)
    for one in (again(layer), again(layer.forward), again(ad.recompute(layer)), again({"f": layer.forward})["f"]):
        np.testing.assert_array_equal(one(x).data, layer(x).data)
        one(x).sum().backward()
    assert layer.weight.grad is None


@pytest.mark.parametrize("make", [
    lambda x: x * 2.0, lambda x: x.sum(), lambda x: x.T, lambda x: [x, {"y": F.split(x, 2)[0]}],
])  # fmt: skip
def test_a_result_is_refused_with_the_way_out(make):
    result = make(Tensor([1.0, 2.0], requires_grad=True))
    with pytest.raises(TypeError, match=r"a result \(of '.*'\) has a graph.*x\.detach\(\).*x\.data"):
        pickle.dumps(result)
    with pytest.raises(RuntimeError, match=r"x\.detach\(\)"):
        copy.deepcopy(result)


def test_ops_are_saved_by_name():
    for op in (F.gelu, F.linear, F.where):
        for again in COPIES.values():
            assert again(op) is op
    assert copy.copy(F.gelu) is F.gelu


@pytest.mark.slow  # the other process imports everything anew
def test_another_process_gets_leaves_modules_and_optimisers():
    net = nn.Linear(2, 2, rng=0)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        state = pool.apply(operator.methodcaller("state_dict"), (net,))
        np.testing.assert_equal(state, net.state_dict())
        back = pool.apply(copy.deepcopy, (net.weight,))
        assert back.requires_grad
        np.testing.assert_array_equal(back.data, net.weight.data)
        assert pool.apply(operator.attrgetter("lr"), (optimizer,)) == 0.1
        with pytest.raises(TypeError, match=r"x\.detach\(\)"):
            pool.apply(copy.copy, (net.weight * 2.0,))
