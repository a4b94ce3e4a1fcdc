"""Optimisers against their formulas and PyTorch, exact continuation; clipping; schedules."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff import Tensor, nn, optim
from autodiff.optim import SGD, AdamW, clip_grad_norm, decay_groups, warmup_cosine, warmup_linear

SHAPES = [(3, 4), (5,), (), (2, 3, 2), (1, 1), (0, 3)]


def make(seed=0, shapes=SHAPES, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [Tensor(rng.normal(size=shape).astype(dtype), requires_grad=True) for shape in shapes]


def set_grads(parameters, step, missing=(), seed=5):
    """The same gradients for the same step, whoever asks; none for some parameters."""
    rng = np.random.default_rng((seed, step))
    for i, p in enumerate(parameters):
        gradient = rng.normal(size=p.shape)
        p.grad = None if i in missing else gradient


def values(parameters):
    return [p.numpy() for p in parameters]


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


# --- the update ---


def adamw_by_formula(w, gradients, lr, beta1, beta2, eps, decay):
    m = v = np.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        mhat, vhat = m / (1 - beta1**t), v / (1 - beta2**t)
        w = w - lr * decay * w - lr * mhat / (np.sqrt(vhat) + eps)
    return w


def test_adamw_is_its_formula():
    parameters = make()
    starts, history = values(parameters), []
    optimizer = AdamW(parameters, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.5)
    for step in range(7):
        set_grads(parameters, step)
        history.append([p.grad.copy() for p in parameters])
        optimizer.step()
    for i, p in enumerate(parameters):
        expected = adamw_by_formula(starts[i], [gradients[i] for gradients in history], 0.1, 0.8, 0.9, 1e-3, 0.5)
        np.testing.assert_allclose(p.data, expected, rtol=1e-12, atol=1e-14)


def test_sgd_by_hand():
    w = Tensor([1.0], requires_grad=True)
    optimizer = SGD([w], lr=0.1, momentum=0.5, weight_decay=1.0)
    w.grad = [2.0]
    optimizer.step()  # g = 2 + 1 * 1 = 3, b = 3, w = 1 - 0.3
    assert w.data[0] == pytest.approx(0.7)
    optimizer.step()  # g = 2 + 0.7 = 2.7, b = 1.5 + 2.7 = 4.2, w = 0.7 - 0.42
    assert w.data[0] == pytest.approx(0.28)
    w = Tensor([1.0], requires_grad=True)
    optimizer = SGD([w], lr=0.1, momentum=0.5, nesterov=True)
    w.grad = [2.0]
    optimizer.step()  # b = 2, direction 2 + 0.5 * 2 = 3
    assert w.data[0] == pytest.approx(0.7)


settings_of = {
    AdamW: st.fixed_dictionaries({
        "lr": st.floats(0, 1), "betas": st.tuples(st.floats(0, 0.99), st.floats(0, 0.999)),
        "eps": st.floats(1e-10, 1e-2), "weight_decay": st.floats(0, 0.5),
    }),
    SGD: st.fixed_dictionaries({
        "lr": st.floats(0, 1), "momentum": st.floats(0.01, 0.99), "weight_decay": st.floats(0, 0.5),
        "nesterov": st.booleans(),
    }) | st.fixed_dictionaries({"lr": st.floats(0, 1), "weight_decay": st.floats(0, 0.5)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", [AdamW, SGD])
@given(st.data())
def test_updates_follow_pytorch(kind, data):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    settings = data.draw(settings_of[kind])
    ours = make()
    theirs = [torch.tensor(p.numpy(), requires_grad=True) for p in ours]
    first = data.draw(settings_of[kind])["weight_decay"]  # two groups with settings of their own

    def groups(parameters):
        return [{"params": parameters[:2], "weight_decay": first}, {"params": parameters[2:]}]

    our, their = kind(groups(ours), **settings), getattr(torch.optim, kind.__name__)(groups(theirs), **settings)
    for step in range(4):
        missing = data.draw(st.sets(st.integers(0, len(ours) - 1)))
        set_grads(ours, step, missing)
        for p, q in zip(ours, theirs, strict=True):
            q.grad = None if p.grad is None else torch.tensor(p.grad)
        lr = data.draw(st.floats(0, 1))
        for group in (*our.param_groups, *their.param_groups):
            group["lr"] = lr
        our.step()
        their.step()
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.data, q.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [AdamW, SGD])
def test_a_parameter_without_gradient_is_left_alone(kind):
    parameters = make()
    optimizer = kind(parameters, lr=0.1, weight_decay=0.5)
    before = values(parameters)
    set_grads(parameters, 0, missing={1, 2})
    optimizer.step()
    assert [np.array_equal(p.data, b) for p, b in zip(parameters, before, strict=True)] == [
        False, True, True, False, False, True,  # the last one has no elements
    ]  # fmt: skip
    assert set(optimizer.state_dict()["state"]) == {0, 3, 4, 5}
    set_grads(parameters, 1)
    optimizer.step()
    assert [entry["step"] for entry in optimizer.state_dict()["state"].values()] == [2, 1, 1, 2, 2, 2]


def test_a_first_gradient_that_comes_late_counts_from_one():
    late, alone = make(), make()
    optimizer, reference = AdamW(late, lr=0.1), AdamW(alone[1:2], lr=0.1)
    for step in range(5):
        set_grads(late, step, missing={1} if step < 3 else ())
        optimizer.step()
        if step >= 3:
            alone[1].grad = late[1].grad
            reference.step()
    np.testing.assert_array_equal(late[1].data, alone[1].data)


@pytest.mark.parametrize("kind", [AdamW, SGD])
def test_blocks_do_not_change_the_result(kind, monkeypatch):
    shapes = [(3, 4), (5,), (), (50, 7), (2, 3), (0, 3), (33,)]

    def run():
        parameters = make(shapes=shapes)
        optimizer = kind(parameters, lr=0.1)
        for step, missing in enumerate([(), {1}, {0, 3}, ()]):
            set_grads(parameters, step, missing)
            optimizer.step()
        return values(parameters)

    whole = run()
    for block in (1, 16, 17, 349, 350):
        monkeypatch.setattr("autodiff.optimizer.BLOCK", block)
        assert_equal(run(), whole)


def test_dtypes_are_kept_and_may_be_mixed():
    singles, doubles = make(dtype=np.float32), make(seed=1)
    mixed = [t for pair in zip(singles, doubles, strict=True) for t in pair]
    optimizer = AdamW(mixed, lr=np.float64(0.1))  # a NumPy scalar is strong in promotion, and must not widen
    set_grads(mixed, 0)
    expected = [adamw_by_formula(p.numpy(), [p.grad], 0.1, 0.9, 0.999, 1e-8, 0.01) for p in mixed]
    optimizer.step()
    for p, e in zip(mixed, expected, strict=True):
        np.testing.assert_allclose(p.data, e, rtol=1e-5 if p.dtype == np.float32 else 1e-12)
    assert {p.dtype for p in singles} == {np.dtype(np.float32)}
    entry = optimizer.state_dict()["state"]
    assert [entry[i]["exp_avg"].dtype for i in (0, 1)] == [np.float32, np.float64]


# --- parameters and optimisers ---


def test_data_can_be_assigned_and_updated_by_hand():
    (w, b) = parameters = make(shapes=[(2,), (3,)])
    arrays = [w.data, b.data]
    AdamW(parameters)
    assert [w.data is arrays[0], b.data is arrays[1]] == [True, True]  # nothing has moved
    w.data = [1.0, 2.0]
    w.grad = [10.0, 20.0]
    w.data -= 0.1 * w.grad
    np.testing.assert_array_equal(w.data, [0.0, 0.0])
    w.data[0] = 5.0
    assert w.numpy().tolist() == [5.0, 0.0]


def test_two_optimisers_over_the_same_parameters_both_work():
    ours, plain = make(), make()
    first, second = SGD(ours, lr=0.1), SGD(ours[1:], lr=0.01)
    for step in range(4):
        set_grads(ours, step)
        for i, p in enumerate(plain):
            p.grad = ours[i].grad
        lr = 0.1 if step % 2 == 0 else 0.01
        (first if step % 2 == 0 else second).step()
        for i, p in enumerate(plain):
            if step % 2 == 0 or i > 0:
                p.data -= lr * p.grad
    for p, q in zip(ours, plain, strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-14)


def test_a_model_keeps_its_state_when_an_optimiser_takes_it():
    layer = nn.Linear(3, 2, rng=0)
    before = layer.state_dict()
    AdamW(layer.parameters())
    after = layer.state_dict()
    assert_equal(before.values(), after.values())
    assert all(value.base is None for value in after.values())
    layer.load_state_dict({name: value + 1 for name, value in before.items()})
    assert_equal(layer.state_dict().values(), [value + 1 for value in before.values()])
    assert layer.shared_parameters() == []


def test_a_step_is_noticed_by_a_graph_that_saved_the_parameter():
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = SGD([w], lr=0.1)
    loss = (w * w).sum()
    (w * 1.0).sum().backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_a_step_that_leaves_a_parameter_alone_does_not_disturb_its_graph():
    w, other = make(shapes=[(2,), (2,)])
    optimizer = SGD([w, other], lr=0.1)
    loss = (w * w).sum()
    other.grad = [1.0, 1.0]
    optimizer.step()
    loss.backward()
    np.testing.assert_array_equal(w.grad, 2 * w.data)


def test_gradients_in_any_memory_order_are_applied():
    w = Tensor(np.zeros((2, 3)), requires_grad=True)
    w.grad = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    SGD([w], lr=1.0).step()
    np.testing.assert_array_equal(w.data, -np.arange(6.0).reshape(2, 3))


# --- groups and settings ---


def test_settings_can_be_changed_between_steps():
    w, b = make(shapes=[(2,), (2,)])
    optimizer = SGD([{"params": [w], "lr": 0.5}, {"params": b}], lr=0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.25]
    optimizer.lr = 1.0
    optimizer.param_groups[1]["lr"] = 0.0
    assert optimizer.lr == 1.0
    w.data, b.data, w.grad, b.grad = np.zeros(2), np.zeros(2), np.ones(2), np.ones(2)
    optimizer.step()
    assert w.data.tolist() == [-1.0, -1.0]
    assert b.data.tolist() == [0.0, 0.0]


def test_zero_grad_forgets_every_gradient():
    parameters = make()
    set_grads(parameters, 0)
    AdamW(parameters).zero_grad()
    assert all(p.grad is None for p in parameters)


def test_only_matrices_decay_and_a_tied_one_once():
    net = nn.Module()
    net.linear, net.norm, net.table = nn.Linear(2, 3, rng=0), nn.LayerNorm(3), nn.Embedding(4, 2, rng=0)
    net.head = net.table
    decaying, rest = decay_groups(net, 0.1)
    assert [id(p) for p in decaying["params"]] == [id(net.linear.weight), id(net.table.weight)]
    assert [id(p) for p in rest["params"]] == [id(net.linear.bias), id(net.norm.gamma), id(net.norm.beta)]
    assert (decaying["weight_decay"], rest["weight_decay"]) == (0.1, 0.0)
    assert len(decay_groups(nn.LayerNorm(2), 0.1)) == 1
    AdamW(decay_groups(net, 0.1), lr=0.1)


@pytest.mark.parametrize(("make_it", "error", "message"), [
    (lambda w: AdamW([w], lr=-1), ValueError, "lr=-1"),
    (lambda w: AdamW([w], lr=math.nan), ValueError, "lr=nan"),
    (lambda w: AdamW([w], lr=math.inf), ValueError, "lr=inf"),
    (lambda w: AdamW([w], lr="0.1"), ValueError, "lr='0.1'"),
    (lambda w: AdamW([w], betas=(0.9, 1.0)), ValueError, r"betas\[1\]=1.0"),
    (lambda w: AdamW([w], betas=(0.9,)), ValueError, "betas"),
    (lambda w: AdamW([w], eps=-1e-8), ValueError, "eps"),
    (lambda w: AdamW([w], weight_decay=-0.1), ValueError, "weight_decay"),
    (lambda w: SGD([w], lr=0.1, momentum=-0.1), ValueError, "momentum"),
    (lambda w: SGD([w], lr=0.1, nesterov=1), ValueError, "nesterov=1"),
    (lambda w: AdamW([{"params": [w], "learning_rate": 1}]), ValueError, "no setting 'learning_rate'"),
    (lambda w: AdamW([{"params": [w], "weight_decy": 1}]), ValueError, "Did you mean 'weight_decay'"),
    (lambda w: AdamW([{"parameters": [w]}]), ValueError, "group 0 has no 'params'"),
    (lambda w: AdamW([w, w]), ValueError, "twice"),
    (lambda w: AdamW([{"params": [w]}, {"params": [w]}]), ValueError, "twice"),
    (lambda w: AdamW([]), ValueError, "empty"),
    (lambda w: AdamW(w), TypeError, "a list"),
    (lambda w: AdamW(nn.Linear(2, 2, rng=0)), TypeError, r"module.parameters\(\)"),
    (lambda w: AdamW([w * 2]), TypeError, "multiply"),
    (lambda w: AdamW([Tensor([1, 2])]), TypeError, "floating"),
    (lambda w: AdamW([np.ones(2)]), TypeError, "ndarray"),
])  # fmt: skip
def test_what_cannot_be_optimised_is_refused(make_it, error, message):
    with pytest.raises(error, match=message):
        make_it(Tensor([1.0], requires_grad=True))


def test_a_schedule_gone_wrong_stops_the_step():
    (w,) = make(shapes=[(2,)])
    optimizer = SGD([w], lr=0.1)
    w.grad = np.ones(2)
    before = w.numpy()
    optimizer.param_groups[0]["lr"] = math.nan
    with pytest.raises(ValueError, match="lr=nan"):
        optimizer.step()
    with pytest.raises(ValueError, match="lr=-1"):
        optimizer.lr = -1
    np.testing.assert_array_equal(w.data, before)


def test_repr_shows_groups():
    text = repr(SGD([{"params": make(), "lr": 0.5}], lr=0.1))
    assert text == "SGD(\n  6 parameters: lr=0.5, momentum=0.0, weight_decay=0.0, nesterov=False\n)"


# --- saving ---


@pytest.mark.parametrize("kind", [lambda p: AdamW(p, lr=0.1), lambda p: SGD(p, lr=0.1, momentum=0.9)])
def test_a_loaded_optimiser_continues_exactly(kind):
    def some_steps(parameters, optimizer, steps):
        for step in steps:
            set_grads(parameters, step, missing={step % 4})
            optimizer.step()

    straight = make()
    some_steps(straight, kind(straight), range(8))
    part = make()
    before = kind(part)
    before.lr = 0.3
    some_steps(part, before, range(4))
    saved, weights = before.state_dict(), values(part)
    some_steps(part, before, range(4, 6))  # what is saved does not change any more
    resumed = [Tensor(w, requires_grad=True) for w in weights]
    after = kind(resumed)
    after.load_state_dict(saved)
    assert after.lr == 0.3
    some_steps(resumed, after, range(4, 6))
    assert_equal(values(resumed), values(part))
    assert not np.array_equal(resumed[0].data, straight[0].data)


def test_loading_replaces_an_earlier_state():
    parameters = make()
    optimizer = AdamW(parameters)
    fresh = optimizer.state_dict()
    set_grads(parameters, 0)
    optimizer.step()
    optimizer.load_state_dict(fresh)
    assert optimizer.state_dict()["state"] == {}
    set_grads(parameters, 1)
    optimizer.step()
    assert {entry["step"] for entry in optimizer.state_dict()["state"].values()} == {1}
    np.testing.assert_allclose(optimizer.state_dict()["state"][0]["exp_avg"], 0.1 * parameters[0].grad, rtol=1e-12)


def test_all_differences_of_a_state_are_listed_and_nothing_is_loaded():
    parameters = make()
    optimizer = AdamW(parameters)
    set_grads(parameters, 0)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = np.zeros(3)
    state["state"][1]["exp_avg_sq"] = np.zeros(5, np.float32)
    del state["state"][3]["step"]
    state["state"][9] = {}
    state["param_groups"][0]["lr"] = -1.0
    state["param_groups"][0]["params"] = [0, 1]
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        optimizer.load_state_dict(state)
    message = str(caught.value)
    for part in (
        "groups of [6] parameters, given groups of [2]", "lr=-1.0", "parameter 0: exp_avg has shape (3,), not (3, 4)",
        "parameter 1: exp_avg_sq has dtype float32, not float64", "parameter 3: has ['exp_avg', 'exp_avg_sq']",
        "unexpected: state of parameter 9",
    ):  # fmt: skip
        assert part in message
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for number, entry in before["state"].items():
        for name, value in entry.items():
            np.testing.assert_array_equal(after["state"][number][name], value)


def test_the_state_of_another_kind_is_refused():
    parameters = make()
    with pytest.raises(ValueError, match="no setting 'momentum'"):
        AdamW(parameters).load_state_dict(SGD(parameters, lr=0.1).state_dict())


# --- clipping ---


def with_grads(*gradients):
    parameters = []
    for gradient in gradients:
        array = np.asarray(gradient)
        p = Tensor(np.zeros_like(array, dtype=array.dtype if array.dtype.kind == "f" else float), requires_grad=True)
        p.grad = array
        parameters.append(p)
    return parameters


@given(st.integers(0, 99), st.floats(0.01, 20))
def test_clipping_follows_pytorch(seed, bound):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    parameters = make()
    set_grads(parameters, 0, missing={2}, seed=seed)
    theirs = [torch.tensor(p.numpy(), requires_grad=True) for p in parameters]
    for p, q in zip(parameters, theirs, strict=True):
        q.grad = None if p.grad is None else torch.tensor(p.grad)
    arrays = [p.grad for p in parameters]
    norm = clip_grad_norm(parameters, bound)
    assert type(norm) is float
    assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, bound).item(), rel=1e-12)
    for p, q, array in zip(parameters, theirs, arrays, strict=True):
        assert p.grad is array  # scaled in place
        if array is not None:
            np.testing.assert_allclose(array, q.grad.numpy(), rtol=1e-12)


def test_a_norm_within_the_bound_changes_nothing():
    parameters = with_grads([3.0], [[4.0]])
    assert clip_grad_norm(parameters, 5.1) == 5.0
    assert clip_grad_norm(parameters, math.inf) == 5.0
    assert [p.grad.item() for p in parameters] == [3.0, 4.0]


@pytest.mark.parametrize("size", [1e25, 1e-30])
def test_squares_beyond_the_range_of_float32_do_no_harm(size):
    parameters = with_grads(np.full(3, size, np.float32), np.full(6, size, np.float32))
    assert clip_grad_norm(parameters, 1.0) == pytest.approx(3 * size, rel=1e-6, abs=0)
    expected = min(size, 1 / 3)
    np.testing.assert_allclose(parameters[0].grad, np.full(3, expected), rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "dtypes", "bound"),
    [
        ([3e4, 4e4], (np.float16,), 1e-3), ([300, 400], (np.float16,), 1e-4), ([3e30, 4e30], (np.float32,), 1e-15),
        ([3e38], (np.float32,), 1e-6), ([3e4, 1e8], (np.float16, np.float32), 1.0), ([3e300, 4e300], (float,), 1e-15),
        ([3e4, 1e6], (np.float16, np.float32), 100.0),
    ],
)  # fmt: skip
def test_a_factor_that_the_gradients_cannot_hold(values, dtypes, bound):
    parts = [values] if len(dtypes) == 1 else [[value] for value in values]
    arrays = [np.array(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]
    parameters = with_grads(*arrays)
    norm = math.hypot(*(float(x) for array in arrays for x in array))
    assert clip_grad_norm(parameters, bound) == pytest.approx(norm, rel=1e-3)
    for p, array in zip(parameters, arrays, strict=True):
        assert p.grad.dtype == array.dtype
        expected = array.astype(float) / norm * bound
        rtol = 2e-3 if array.dtype == np.float16 else 1e-6
        np.testing.assert_allclose(p.grad, expected, rtol=rtol, atol=float(np.finfo(array.dtype).smallest_subnormal))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_is_returned_and_nothing_is_scaled(bad):
    parameters = with_grads([100.0, bad], [200.0])
    norm = clip_grad_norm(parameters, 1.0)
    assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    assert parameters[0].grad[0] == 100.0
    assert parameters[1].grad.tolist() == [200.0]


def test_nothing_to_clip():
    assert clip_grad_norm(make(), 1.0) == 0.0
    assert clip_grad_norm([], 1.0) == 0.0
    (w,) = with_grads([0.0, 0.0])
    assert clip_grad_norm(w, 1.0) == 0.0


@pytest.mark.parametrize("bound", [0, -1.0, math.nan, "1", None, True])
def test_impossible_bounds_are_refused(bound):
    with pytest.raises(ValueError, match="max_norm="):
        clip_grad_norm(make(), bound)


# --- schedules ---

SCHEDULES = [warmup_cosine, warmup_linear]


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(
    st.integers(0, 60), st.integers(0, 60), st.floats(1e-6, 1), st.floats(0, 1), st.integers(0, 100),
)  # fmt: skip
def test_a_schedule_rises_then_falls_between_its_rates(schedule, warmup, total, lr, share, beyond):
    low = lr * share
    rates = [schedule(step, lr=lr, min_lr=low, warmup=warmup, total=total) for step in range(total)]
    ramp = rates[:warmup]
    np.testing.assert_allclose(ramp, lr * (np.arange(len(ramp)) + 1) / (warmup + 1), rtol=1e-12)
    decay = rates[warmup:]
    assert all(low * (1 - 1e-9) <= rate <= lr * (1 + 1e-9) for rate in decay)
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(decay))
    if decay:
        assert decay[0] == pytest.approx(lr)
    assert schedule(total + beyond, lr=lr, min_lr=low, warmup=warmup, total=total) == pytest.approx(low)
    assert all(rate > 0 for rate in rates)  # no step is lost


def test_schedules_by_hand():
    def both(step, **settings):
        return warmup_cosine(step, **settings), warmup_linear(step, **settings)

    settings = {"lr": 2.0, "min_lr": 1.0, "warmup": 4, "total": 8}
    assert [both(step, **settings)[0] for step in (0, 3, 4)] == pytest.approx([0.4, 1.6, 2.0])
    assert both(6, **settings) == pytest.approx((1.5, 1.5))
    assert both(5, **settings) == pytest.approx((1 + 0.5 * (1 + math.cos(math.pi / 4)), 1.75))
    assert both(0, **{**settings, "warmup": 0}) == pytest.approx((2.0, 2.0))
    all_warmup = {**settings, "warmup": 8}
    assert both(7, **all_warmup) == pytest.approx((16 / 9, 16 / 9))
    assert both(8, **all_warmup) == pytest.approx((1.0, 1.0))
    assert both(0, **{**settings, "warmup": 0, "total": 0}) == pytest.approx((1.0, 1.0))
    assert both(2, **{**settings, "warmup": 100, "total": 8}) == pytest.approx((6 / 101, 6 / 101))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("change", "message"), [
    ({"step": -1}, "step=-1"), ({"step": 1.0}, "step=1.0"), ({"warmup": -2}, "warmup=-2"), ({"total": -3}, "total=-3"),
    ({"lr": -0.1}, "lr=-0.1"), ({"lr": math.nan}, "lr=nan"), ({"min_lr": -0.1}, "min_lr=-0.1"),
    ({"min_lr": 2.0}, "min_lr=2.0 must not be greater than lr=1.0"),
])  # fmt: skip
def test_impossible_schedules_are_refused(schedule, change, message):
    arguments = {"step": 0, "lr": 1.0, "min_lr": 0.1, "warmup": 1, "total": 2, **change}
    with pytest.raises(ValueError, match=message):
        schedule(arguments.pop("step"), **arguments)


def test_everything_is_found_in_one_place():
    assert set(optim.__all__) == {
        "SGD", "AdamW", "Optimizer", "clip_grad_norm", "decay_groups", "warmup_cosine", "warmup_linear",
    }  # fmt: skip
