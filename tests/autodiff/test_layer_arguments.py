"""Numbers given to layers and schedules: every type of number is taken, everything else refused by name."""

import math

import numpy as np
import pytest

from autodiff import Tensor, nn
from autodiff.optim import warmup_cosine, warmup_linear

NUMBERS = {
    "std of Linear": lambda v: nn.Linear(2, 2, std=v),
    "std of Embedding": lambda v: nn.Embedding(2, 2, std=v),
    "eps of LayerNorm": lambda v: nn.LayerNorm(2, eps=v),
    "eps of RMSNorm": lambda v: nn.RMSNorm(2, eps=v),
    "lr of warmup_cosine": lambda v: warmup_cosine(3, lr=v, min_lr=0.0, warmup=0, total=9),
    "min_lr of warmup_cosine": lambda v: warmup_cosine(3, lr=9.0, min_lr=v, warmup=0, total=9),
    "lr of warmup_linear": lambda v: warmup_linear(3, lr=v, min_lr=0.0, warmup=0, total=9),
    "min_lr of warmup_linear": lambda v: warmup_linear(3, lr=9.0, min_lr=v, warmup=0, total=9),
}
SIZES = {
    "d_in of Linear": lambda v: nn.Linear(v, 2),
    "d_out of Linear": lambda v: nn.Linear(2, v),
    "count of Embedding": lambda v: nn.Embedding(v, 2),
    "d of Embedding": lambda v: nn.Embedding(2, v),
    "d of LayerNorm": nn.LayerNorm,
    "d of RMSNorm": nn.RMSNorm,
    "step of warmup_linear": lambda v: warmup_linear(v, lr=1.0, min_lr=0.0, warmup=1, total=9),
    "warmup of warmup_cosine": lambda v: warmup_cosine(1, lr=1.0, min_lr=0.0, warmup=v, total=9),
    "total of warmup_cosine": lambda v: warmup_cosine(1, lr=1.0, min_lr=0.0, warmup=1, total=v),
    "seed of dropout_stream": lambda v: nn.dropout_stream(v, 1).__enter__(),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(("value", "says"), [
    (math.nan, "nan must be a finite number of at least 0"), (math.inf, "inf must be a finite"),
    (-math.inf, "-inf must be at least 0"), (-1, "-1 must be at least 0"), (True, "True must be"), ("1", "'1' must be"),
    (np.bool_(True), "must be"), (np.array([1.0]), "must be"), (1j, "must be"), ([1.0], "must be"),
    (Tensor(1.0), "must be"), (np.float16(-0.5), "must be at least 0"),
])  # fmt: skip
def test_what_is_no_number_from_0_on_is_refused_by_name(name, value, says):
    with pytest.raises(ValueError, match=f"^{name.split()[0]}=.*{says}"):
        NUMBERS[name](value)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [
    -1, 1.0, 1.5, math.nan, True, "1", None, np.float32(1), np.bool_(True), np.array([1]), np.array(1.0),
])  # fmt: skip
def test_what_is_no_whole_number_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name.split()[0]}=.* must be an integer of at least"):
        SIZES[name](value)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint64, np.array, np.float16, np.longdouble, lambda v: np.array(v, np.float32)]
)
def test_every_type_of_number_is_taken(kind):
    value = kind(1)
    for make in NUMBERS.values():
        make(value)
    if isinstance(value, np.floating) or value.dtype.kind == "f":
        return
    for make in SIZES.values():
        make(value)
    assert nn.Linear(kind(100), kind(100), rng=0).weight.shape == (100, 100)  # no overflow
    assert type(nn.LayerNorm(kind(3)).d) is int
    np.testing.assert_array_equal(
        nn.LayerNorm(kind(3), eps=value)(np.arange(3.0)).data, nn.LayerNorm(3, eps=1.0)(np.arange(3.0)).data
    )


def test_zero_spread_is_allowed():
    assert not nn.Linear(2, 2, std=0).weight.data.any()
    assert not nn.Embedding(2, 2, std=0.0).weight.data.any()


@pytest.mark.parametrize("schedule", [warmup_cosine, warmup_linear])
def test_schedules_are_exact_at_their_ends(schedule):
    rng = np.random.default_rng(0)
    for _ in range(300):
        lr, warmup, length = rng.random(), int(rng.integers(0, 50)), int(rng.integers(1, 50))
        low = lr * rng.random()
        settings = {"lr": lr, "min_lr": low, "warmup": warmup, "total": warmup + length}
        assert schedule(warmup, **settings) == lr
        assert schedule(warmup + length, **settings) == schedule(10**9, **settings) == low
    assert schedule(7, lr=1.0, min_lr=0.1, warmup=2, total=7) == 0.1
    assert schedule(100, lr=0.3, min_lr=0.3, warmup=2, total=500) == pytest.approx(0.3, rel=1e-15)


# --- everything dropped ---


@pytest.mark.parametrize("p", [1, 1.0, np.float32(1)])
def test_everything_can_be_dropped(p):
    layer = nn.Dropout(p, rng=0)
    for dtype in (np.float32, np.float64):
        x = Tensor(np.array([[1.0, -2.0, np.inf], [3.0, 0.0, 1e30]], dtype), requires_grad=True)
        y = layer(x)
        assert (y.dtype, y.shape) == (dtype, (2, 3))
        assert not y.data.any()
        y.sum().backward()
        assert x.grad.tolist() == [[0.0] * 3] * 2
    assert layer.eval()(x) is x
    assert repr(layer) == "Dropout(1)"
    with nn.dropout_stream(1, 2):
        assert not layer.train()(np.ones(3)).any()
