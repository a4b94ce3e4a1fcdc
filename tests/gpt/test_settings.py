"""The settings of training: defaults that follow from others, and what is refused."""

import math

import pytest

from gpt import Settings


def test_defaults_follow_the_length_and_the_rate():
    assert [Settings(max_steps=steps).warmup for steps in (10, 400, 10**6)] == [0, 20, 100]
    assert Settings(lr=0.5).min_lr == pytest.approx(0.05)
    assert Settings(lr=0, min_lr=0).lr == 0
    assert (Settings(warmup=7).warmup, Settings(min_lr=1e-5).min_lr) == (7, 1e-5)


def test_last_step():
    assert Settings(max_steps=9).last_step == 9
    assert Settings(max_steps=9, stop_at=4).last_step == 4
    assert Settings(max_steps=9, stop_at=40).last_step == 9


def test_integers_are_numbers():
    assert Settings(lr=1, clip=0, weight_decay=0, minutes=1).min_lr == 0.1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_steps", 0), ("max_steps", 2.0), ("max_steps", "3"), ("max_steps", True), ("max_steps", 2**31),
        ("batch_size", 0), ("accumulate", 0), ("warmup", -1), ("eval_interval", 0), ("eval_batches", 0),
        ("save_interval", -1), ("seed", -1), ("stop_at", 0), ("lr", -1e-3), ("lr", math.nan), ("lr", math.inf),
        ("lr", "1e-3"), ("lr", True), ("min_lr", -1), ("min_lr", 1), ("weight_decay", -0.1), ("clip", -1), ("beta1", 1),
        ("beta2", 1.5), ("beta2", -0.5), ("minutes", 0), ("minutes", math.nan), ("minutes", math.inf), ("minutes", "1"),
        ("threads", 0), ("threads", 1025), ("threads", 2.0), ("threads", True), ("threads", "2"),
    ],
)  # fmt: skip
def test_refused(name, value):
    with pytest.raises(ValueError, match=name):
        Settings(**{name: value})


def test_min_lr_above_lr_names_both():
    with pytest.raises(ValueError, match=r"min_lr=0\.5 is above lr=0\.1"):
        Settings(lr=0.1, min_lr=0.5)
