"""Modules: what counts as a parameter, names and scopes, values out and in; layers; dropout streams."""

import contextvars
import copy
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn


def leaf(*shape, value=1.0):
    return Tensor(np.full(shape, value), requires_grad=True)


class Scale(nn.Module):
    def __init__(self, value=1.0):
        self.factor = leaf(2, value=value)

    def forward(self, x):
        return x * self.factor


class Net(nn.Module):
    def __init__(self):
        self.first = Scale(2.0)
        self.bias = leaf(2)
        self.blocks = [Scale(3.0), Scale(4.0)]
        self.pair = (leaf(2), "text", Scale(5.0))
        self.by_name = {"left": Scale(6.0)}
        self.size, self.table = 2, np.ones(3)

    def forward(self, x):
        x = self.first(x) + self.bias
        for part in (*self.blocks, self.pair[2], self.by_name["left"]):
            x = part(x)
        return x * self.pair[0]


NAMES = [
    "first.factor", "bias", "blocks.0.factor", "blocks.1.factor", "pair.0", "pair.2.factor", "by_name.left.factor",
]  # fmt: skip


def names(module):
    return [name for name, _ in module.named_parameters()]


def graph(result):
    """Every node behind a result."""
    seen, stack = {}, [result.node]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in seen and hasattr(node, "parents"):
            seen[id(node)] = node
            stack.extend(node.parents)
    return list(seen.values())


# --- parameters ---


def test_parameters_come_in_the_order_of_definition_with_dotted_names():
    net = Net()
    assert names(net) == NAMES
    assert [p is q for p, q in zip(net.parameters(), dict(net.named_parameters()).values(), strict=True)] == [True] * 7
    assert net.parameter_count() == 14


def test_a_list_may_grow_after_it_was_assigned():
    net = nn.Module()
    net.layers = []
    net.layers.append(Scale())
    net.layers.append(Scale())
    net.forward = lambda x: net.layers[1](net.layers[0](x))
    assert names(net) == ["layers.0.factor", "layers.1.factor"]
    assert {node.scope for node in graph(net(leaf(2)))} == {"layers.0", "layers.1"}


def test_a_constant_is_no_parameter_but_part_of_the_state():
    net = Net()
    net.bias.requires_grad = False
    assert "bias" not in names(net)
    assert net.parameter_count() == 12
    assert list(net.state_dict()) == NAMES
    assert "frozen" in net.summary()


def test_a_result_that_a_module_keeps_is_no_parameter():
    net = Net()
    net.last = net(np.ones(2))
    assert names(net) == NAMES
    assert list(net.state_dict()) == NAMES


def test_a_shared_parameter_is_named_once_and_reported():
    net = Net()
    assert net.shared_parameters() == []
    net.blocks[1].factor = net.first.factor
    assert names(net) == [name for name in NAMES if name != "blocks.1.factor"]
    assert net.shared_parameters() == [("first.factor", "blocks.1.factor")]
    assert net.summary().splitlines()[4].endswith("= first.factor")
    net.by_name["left"] = net.blocks[0]  # a whole module in two places
    assert net.shared_parameters()[1] == ("blocks.0.factor", "by_name.left.factor")


def test_tensors_over_one_array_are_reported():
    array = np.ones((4, 2))
    net = nn.Module()
    net.a, net.b, net.c, net.d = (ad.as_tensor(part) for part in (array, array[1:3, 0], array[3:], array.copy()))
    for tensor in (net.a, net.b, net.c, net.d):
        tensor.requires_grad = True
    assert net.shared_parameters() == [("a", "b", "c")]


def test_neighbours_in_one_buffer_and_empty_tensors_are_not_shared():
    buffer = np.zeros(6)
    net = nn.Module()
    net.a, net.b = ad.as_tensor(buffer[:3]), ad.as_tensor(buffer[3:])
    net.c, net.d = ad.as_tensor(buffer[1:][:0]), ad.as_tensor(buffer[2:][:0])
    assert net.shared_parameters() == []


def test_a_module_that_knows_its_parent_is_no_trap():
    net = Net()
    net.first.parent = net
    net.itself = net
    assert names(net) == NAMES
    assert len(list(net.modules())) == 6
    assert "..." in repr(net)


def test_modules_come_parents_first_and_once():
    net = Net()
    net.again = net.first
    kinds = [getattr(module, "factor", None) for module in net.modules()]
    assert kinds[0] is None
    assert [factor.data[0] for factor in kinds[1:]] == [2.0, 3.0, 4.0, 5.0, 6.0]


# --- scopes ---


def test_nodes_know_where_they_were_made():
    outer = nn.Module()
    outer.net = Net()
    outer.forward = lambda x: outer.net(x)
    result = outer(leaf(2))
    assert {node.scope for node in graph(result)} == {
        "net", "net.first", "net.blocks.0", "net.blocks.1", "net.pair.2", "net.by_name.left",
    }  # fmt: skip
    assert {node.scope for node in graph(Scale()(leaf(2)))} == {""}


def test_a_shared_module_keeps_its_first_name():
    net = Net()
    net.again = net.first
    net.forward = lambda x: net.again(x)
    assert net(leaf(2)).node.scope == "first"


def test_the_scope_is_left_when_a_call_fails():
    net = Net()
    with pytest.raises(ValueError, match="broadcast"):
        net(np.ones(3))
    assert ad.modes.current().scope == ""


# --- modes, gradients ---


def test_train_and_eval_reach_every_part():
    net = Net()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_evaluating_gives_every_flag_back():
    net = Net()
    net.blocks[0].eval()
    with net.evaluating() as same:
        assert same is net
        assert not any(module.training for module in net.modules())
    flags = [True, True, False, True, True, True]
    assert [module.training for module in net.modules()] == flags
    with pytest.raises(ValueError, match="broadcast"), net.evaluating():
        net(np.ones(3))
    assert [module.training for module in net.modules()] == flags


def test_backward_twice_doubles_and_zero_grad_starts_again():
    net = Net()
    net(np.ones(2)).sum().backward()
    once = [p.grad for p in net.parameters()]
    first = [g.copy() for g in once]
    net(np.ones(2)).sum().backward()
    for p, g in zip(net.parameters(), first, strict=True):
        np.testing.assert_array_equal(p.grad, 2 * g)
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net(np.ones(2)).sum().backward()
    for p, g in zip(net.parameters(), first, strict=True):
        np.testing.assert_array_equal(p.grad, g)


def test_a_deep_copy_is_independent_and_keeps_sharing():
    net = Net()
    net.blocks[1].factor = net.first.factor
    twin = copy.deepcopy(net)
    twin.first.factor.data[...] = 9.0
    assert net.first.factor.data[0] == 2.0
    assert twin.blocks[1].factor is twin.first.factor
    assert twin(leaf(2)).node.scope == ""
    assert names(twin) == names(net)


# --- state ---


def test_state_is_copied_out_and_in():
    net, other = Net(), Net()
    state = net.state_dict()
    state["bias"][...] = 7.0
    assert net.bias.data.tolist() == [1.0, 1.0]
    before = other.bias.data
    other.load_state_dict(state)
    assert other.bias.data is before
    assert before.tolist() == [7.0, 7.0]
    state["bias"][...] = 8.0
    assert before.tolist() == [7.0, 7.0]


def test_a_graph_notices_that_a_state_was_loaded():
    net = Net()
    loss = net(np.ones(2)).sum()
    net.load_state_dict(net.state_dict())
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_all_mismatches_are_listed_and_nothing_is_loaded():
    net = Net()
    state = {name: value + 1 for name, value in net.state_dict().items()}
    del state["bias"]
    state["extra"] = np.ones(5)
    state["first.factor"] = np.ones(3)
    state["blocks.0.factor"] = np.ones(2, np.float32)
    before = net.state_dict()
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        net.load_state_dict(state)
    lines = str(caught.value).splitlines()[1:]
    assert [line.strip() for line in lines] == [
        "missing: bias (2,)",
        "unexpected: extra (5,)",
        "wrong shape: first.factor is (2,), given (3,)",
        "wrong dtype: blocks.0.factor is float64, given float32",
    ]
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_state_may_hold_tensors():
    net = nn.Linear(2, 3, rng=0)
    other = nn.Linear(2, 3, rng=1)
    other.load_state_dict(dict(net.named_parameters()))
    np.testing.assert_array_equal(other.weight.data, net.weight.data)
    assert other.weight.data is not net.weight.data


# --- for people ---


def test_repr_is_a_tree_that_folds_equal_neighbours():
    net = nn.Module()
    net.embedding = nn.Embedding(5, 2, rng=0)
    net.blocks = [nn.Linear(2, 2, bias=False, rng=0) for _ in range(3)]
    net.norms = [nn.LayerNorm(2), nn.LayerNorm(2, bias=False), nn.LayerNorm(2, gain=False)]
    net.rest = (nn.RMSNorm(2), nn.Dropout(0.1, rng=0), nn.RMSNorm(2, gain=False), nn.Linear(2, 5, rng=0))
    net.twin_a, net.twin_b = nn.Dropout(0.5, rng=0), nn.Dropout(0.5, rng=0)
    assert repr(net) == "\n".join([
        "Module(",
        "  embedding: Embedding(5, 2)",
        "  blocks.0 to blocks.2: Linear(2, 2, bias=False)",
        "  norms.0: LayerNorm(2)",
        "  norms.1: LayerNorm(2, bias=False)",
        "  norms.2: LayerNorm(2, gain=False)",
        "  rest.0: RMSNorm(2)",
        "  rest.1: Dropout(0.1)",
        "  rest.2: RMSNorm(2, gain=False)",
        "  rest.3: Linear(2, 5)",
        "  twin_a: Dropout(0.5)",
        "  twin_b: Dropout(0.5)",
        ")",
    ])


def test_summary_counts_in_columns():
    net = nn.Module()
    net.table = nn.Embedding(1000, 3, rng=0)
    net.scalar = leaf()
    assert net.summary().splitlines() == [
        "parameter        shape  count",
        "table.weight  1000 x 3  3,000",
        "scalar          scalar      1",
        "total                   3,001",
    ]


# --- layers ---


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_linear_is_the_formula_and_starts_within_its_bound(d_in, d_out, seed):
    layer = nn.Linear(d_in, d_out, rng=seed)
    x = np.random.default_rng(1).normal(size=(3, d_in))
    np.testing.assert_allclose(layer(x).data, x @ layer.weight.data + layer.bias.data, rtol=1e-12, atol=1e-12)
    for p in layer.parameters():
        assert np.abs(p.data).max() <= d_in**-0.5


def test_default_initialisation_is_uniform_and_std_makes_it_normal():
    w = nn.Linear(100, 400, rng=0).weight.data
    assert np.abs(w).max() == pytest.approx(0.1, rel=1e-3)
    assert w.std() == pytest.approx(0.1 / 3**0.5, rel=0.01)
    layer = nn.Linear(100, 400, std=0.02, rng=0)
    assert layer.weight.data.std() == pytest.approx(0.02, rel=0.01)
    assert np.abs(layer.weight.data).max() > 0.06  # tails, which a uniform distribution does not have
    assert not layer.bias.data.any()
    assert nn.Embedding(100, 400, rng=0).weight.data.std() == pytest.approx(1, rel=0.01)
    assert nn.Embedding(100, 400, std=0.1, rng=0).weight.data.std() == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("make", [lambda **k: nn.Linear(3, 4, **k), lambda **k: nn.Embedding(3, 4, **k)])
def test_a_seed_means_the_same_in_every_dtype(make):
    for single, double in zip(make(rng=3, dtype=np.float32).parameters(), make(rng=3).parameters(), strict=True):
        assert single.dtype == np.float32
        assert double.dtype == np.float64
        np.testing.assert_array_equal(single.data, double.data.astype(np.float32))
    rng = np.random.default_rng(3)
    assert not np.array_equal(make(rng=rng).weight.data, make(rng=rng).weight.data)  # the generator advances


def test_layers_keep_float32():
    x = Tensor(np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32), requires_grad=True)
    layers = [
        nn.Linear(4, 4, rng=0, dtype="float32"), nn.LayerNorm(4, dtype="float32"), nn.RMSNorm(4, dtype="float32"),
        nn.Dropout(0.5, rng=0), nn.LayerNorm(4, gain=False), nn.RMSNorm(4, gain=False),
    ]  # fmt: skip
    y = x
    for layer in layers:
        y = layer(y)
    y.sum().backward()
    assert {node.dtype for node in graph(y)} == {np.dtype(np.float32)}
    assert x.grad.dtype == np.float32


def test_norms_have_the_parameters_that_were_asked_for():
    assert names(nn.LayerNorm(3)) == ["gamma", "beta"]
    assert names(nn.LayerNorm(3, bias=False)) == ["gamma"]
    assert names(nn.LayerNorm(3, gain=False)) == []
    assert names(nn.RMSNorm(3)) == ["gamma"]
    assert names(nn.RMSNorm(3, gain=False)) == []
    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(nn.LayerNorm(4, eps=5.0)(x).data, (x - 2.5) / (1.25 + 5) ** 0.5, rtol=1e-12)
    np.testing.assert_allclose(nn.RMSNorm(4, eps=5.0)(x).data, x / (7.5 + 5) ** 0.5, rtol=1e-12)
    shifted = nn.LayerNorm(4)
    shifted.gamma.data[...], shifted.beta.data[...] = 2.0, 3.0
    np.testing.assert_allclose(shifted(x).data, 2 * nn.LayerNorm(4)(x).data + 3, rtol=1e-12)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nn.Linear(0, 2), "d_in=0"), (lambda: nn.Linear(2, 2.0), "d_out=2.0"),
    (lambda: nn.Embedding(True, 2), "count=True"), (lambda: nn.LayerNorm(-1), "d=-1"),
    (lambda: nn.RMSNorm("4"), "d='4'"), (lambda: nn.Dropout(1.1), "p=1.1"), (lambda: nn.Dropout(-0.1), "p=-0.1"),
    (lambda: nn.Dropout(float("nan")), "p=nan"), (lambda: nn.Dropout(False), "p=False"),
])  # fmt: skip
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- dropout ---


class Twice(nn.Module):
    """Two dropouts of their own scope, and one that is used twice."""

    def __init__(self, p=0.5):
        self.a, self.b, self.both = nn.Dropout(p), nn.Dropout(p), nn.Dropout(p)

    def forward(self, x):
        return np.stack([self.a(x), self.b(x), self.both(x), self.both(x)])


def masks(module, x, seed=1, step=2, first_row=0):
    with nn.dropout_stream(seed, step, first_row):
        return module(x)


ONES = np.ones((6, 40))


def test_a_mask_is_a_function_of_seed_step_site_and_row():
    module = Twice()
    reference = masks(module, ONES)
    module(ONES)  # other streams in between change nothing
    assert np.array_equal(reference, masks(Twice(), ONES))
    parts = [masks(module, ONES[:2]), masks(module, ONES[2:], first_row=2)]
    assert np.array_equal(reference, np.concatenate(parts, axis=1))
    different = [*reference, masks(module, ONES, seed=3)[0], masks(module, ONES, step=3)[0]]
    different += [masks(module, ONES, first_row=1)[0], reference[0][::-1]]
    for i, one in enumerate(different):
        assert set(np.unique(one)) == {0.0, 2.0}
        for other in different[:i]:
            assert 0.3 < (one == other).mean() < 0.7  # unrelated masks agree half of the time


def test_masks_are_the_same_in_a_copy_of_the_context():
    module = Twice()
    with nn.dropout_stream(1, 2):
        module(ONES)
        context = contextvars.copy_context()
        second = module(ONES)
        found = []
        thread = threading.Thread(target=lambda: found.append(context.copy().run(module, ONES)))
        thread.start()
        thread.join()
        assert np.array_equal(found[0], second)
        assert np.array_equal(context.run(module, ONES), second)
        assert not np.array_equal(module(ONES), second)


def test_streams_nest():
    module = Twice()
    with nn.dropout_stream(1, 2):
        with nn.dropout_stream(8, 8):
            module(ONES)
        with pytest.raises(KeyError), nn.dropout_stream(9, 9):
            raise KeyError
        assert np.array_equal(module(ONES), masks(module, ONES))


def test_outside_of_a_stream_a_dropout_has_its_own_generator():
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # the global state, which must not be touched
    one, other = nn.Dropout(0.5, rng=7), nn.Dropout(0.5, rng=7)
    first = one(ONES)
    assert np.array_equal(first, other(ONES))
    assert not np.array_equal(first, one(ONES))
    assert not np.array_equal(nn.Dropout(0.5)(ONES), nn.Dropout(0.5)(ONES))
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_dropout_does_nothing_in_evaluation_or_at_zero():
    x = leaf(3, 4)
    assert nn.Dropout(0.5).eval()(x) is x
    assert nn.Dropout(0)(x) is x
    layer = nn.Dropout(0.25)
    assert layer.rate == 0.25
    assert layer.eval().rate == 0.0


def test_the_gradient_passes_where_the_mask_lets_it():
    x = leaf(6, 40)
    y = masks(nn.Dropout(0.25), x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, y.data)
    assert set(np.unique(x.grad)) == {0.0, 4 / 3}


@pytest.mark.parametrize("bad", [(-1, 0, 0), (0, 1.5, 0), (0, 0, -1), (True, 0, 0)])
def test_impossible_streams_are_refused(bad):
    with pytest.raises(ValueError, match="must be an integer of at least 0"), nn.dropout_stream(*bad):
        pass


def test_attention_can_draw_from_the_layer():
    layer = nn.Dropout(0.5)
    q = np.ones((2, 1, 3, 4))

    def attend():
        with nn.dropout_stream(1, 1):
            return F.scaled_dot_product_attention(q, q, q, dropout=layer.rate, rng=layer.stream())

    assert np.array_equal(attend(), attend())


def test_collections_of_collections_are_found():
    model = nn.Module()
    model.grid = [[nn.Linear(2, 2, rng=0)], (nn.Linear(2, 2, rng=1), {"last": nn.Linear(2, 2, bias=False, rng=2)})]
    assert [name for name, _ in model.named_parameters()] == [
        "grid.0.0.weight", "grid.0.0.bias", "grid.1.0.weight", "grid.1.0.bias", "grid.1.1.last.weight",
    ]  # fmt: skip
    assert not model.eval().grid[1][0].training


def test_a_state_is_loaded_whole_or_not_at_all():
    model = nn.Module()
    model.w = Tensor([0.0], requires_grad=True)
    model.buffer = Tensor([1.0]).detach()
    with pytest.raises(ValueError, match="read-only: buffer"):
        model.load_state_dict({"w": np.array([9.0]), "buffer": np.array([7.0])})
    assert model.w.item() == 0.0


def test_parameters_can_be_exchanged():
    model = nn.Module()
    model.a, model.b = Tensor([1.0], requires_grad=True), Tensor([2.0], requires_grad=True)
    model.load_state_dict({"a": model.b, "b": model.a})
    assert (model.a.item(), model.b.item()) == (2.0, 1.0)


def test_function_around_a_module_is_no_part():
    # Its parameters would not be found: not trained, not saved, without a word.
    class Stack(nn.Module):
        def __init__(self):
            self.layers = [nn.Linear(2, 2, rng=0), nn.Linear(2, 2, rng=1)]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Stack()
    before = list(model.state_dict())
    with pytest.raises(TypeError, match=r"layers\.0 is a function around a module.*forward = ad\.recompute"):
        model.layers = [ad.recompute(layer) for layer in model.layers]
    with pytest.raises(TypeError, match=r"first is a function around a module"):
        model.first = ad.recompute(nn.Linear(2, 2, rng=0))
    assert list(model.state_dict()) == before
    model.layers[1] = ad.recompute(model.layers[1])
    with pytest.raises(TypeError, match=r"layers\.1 is a function around a module"):
        list(model.parameters())
    model.layers[1] = model.layers[1].__wrapped__
    for layer in model.layers:
        layer.forward = ad.recompute(layer.forward)
    assert list(model.state_dict()) == before
