"""Ops that keep something from call to call, or write where they may: wrong once two calls come before a backward.

Beside them stand right ops that look alike. Each is made anew for every check, since what it keeps would outlive it.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from autodiff import save
from autodiff.op import Op

from .planted import SOUND, Planted, Sound
from .planted_calls import FAULTY

X = np.array([0.5, -0.7, -1.3])


def made(forward, rule, **declared):
    op = Op(forward, **declared)
    op.vjp("x")(rule)
    return op


def slope(x):
    return np.where(x > 0, x.dtype.type(1), x.dtype.type(0.1))


def leaky(x):
    return x * slope(x)


def by_mask(g, m):
    return np.where(m, g, g.dtype.type(0.1) * g)


@dataclass
class Scratch:
    mask: Any = None


# --- memory that is used again ---


def view_of_a_buffer():
    buffers = {}

    def forward(x):
        m = buffers.setdefault(x.shape, np.empty((1, *x.shape), bool))
        np.greater(x, 0, out=m[0])
        return save(leaky(x), m=m[0])

    return made(forward, by_mask)


def cached_buffer():
    buffer = functools.lru_cache(lambda shape: np.empty(shape, bool))

    def forward(x):
        return save(leaky(x), m=np.greater(x, 0, out=buffer(x.shape)))

    return made(forward, by_mask)


def default_argument():
    def mask(x, kept={}):  # noqa: B006  # it is what is wrong
        m = kept.setdefault(x.shape, np.empty(x.shape, bool))
        m[...] = x > 0
        return m

    return made(lambda x: save(leaky(x), m=mask(x)), by_mask)


def default_of_a_setting():
    def forward(x, *, m=np.empty(3, bool)):  # noqa: B008
        return save(leaky(x), where=np.greater(x, 0, out=m))

    return made(forward, lambda g, where: by_mask(g, where))


def rotating(count=3):
    def op():
        turn = itertools.cycle([{} for _ in range(count)])

        def forward(x):
            m = next(turn).setdefault(x.shape, np.empty(x.shape, bool))
            return save(leaky(x), m=np.greater(x, 0, out=m))

        return made(forward, by_mask)

    return op


def mask_of_a_seed():
    buffers = {}

    def forward(x, *, seed=0):
        m = buffers.setdefault(x.shape, np.empty(x.shape, bool))
        m[...] = np.random.default_rng(seed).random(x.shape) < 0.5
        return save(np.where(m, x, x.dtype.type(0.1) * x), m=m)

    return made(forward, by_mask)


def saved_list():
    kept = []

    def forward(x):
        kept[:] = [x > 0]
        return save(leaky(x), kept=kept)

    return made(forward, lambda g, kept: by_mask(g, kept[0]))


def saved_dict():
    kept = {}

    def forward(x):
        kept["m"] = x > 0
        return save(leaky(x), kept=kept)

    return made(forward, lambda g, kept: by_mask(g, kept["m"]))


def saved_object(kind):
    def op():
        kept = kind()

        def forward(x):
            kept.mask = x > 0
            return save(leaky(x), kept=kept)

        return made(forward, lambda g, kept: by_mask(g, kept.mask))

    return op


def saved_closure():
    mask = None

    def forward(x):
        nonlocal mask
        mask = x > 0
        return save(leaky(x), kept=lambda: mask)

    return made(forward, lambda g, kept: by_mask(g, kept()))


def log_of_calls():
    log = []

    def forward(x):
        log.append(x > 0)
        return save(leaky(x), log=log)

    return made(forward, lambda g, log: by_mask(g, log[-1]))


def output_of_a_buffer():
    buffers = {}

    def forward(x):
        whole = buffers.setdefault((x.shape, x.dtype), np.empty((2, *x.shape), x.dtype))
        return np.tanh(x, out=whole[1])

    return made(forward, lambda g, x: g * (1 - np.tanh(x) ** 2), elementwise=True)


def rule_reads_a_global():
    kept = {}

    def forward(x):
        kept["m"] = x > 0
        return leaky(x)

    return made(forward, lambda g: by_mask(g, kept["m"]))


def rule_returns_scratch_of_the_forward():
    buffers = {}

    def scratch(x):
        return buffers.setdefault((x.shape, x.dtype), np.empty_like(x))

    def forward(x):
        return np.exp(x, out=scratch(x)) * 1

    return made(forward, lambda g, x: np.multiply(g, np.exp(x), out=scratch(x)))


def rule_of_rotating_buffers(count=3):
    def op():
        turn = itertools.cycle([{} for _ in range(count)])

        def rule(g, x):
            out = next(turn).setdefault((g.shape, g.dtype), np.empty(g.shape, g.dtype))
            return np.multiply(g, np.cos(x), out=out)

        return made(lambda x: np.sin(x), rule)

    return op


def mask_of_the_first_call():
    masks = {}

    def forward(x):
        return save(leaky(x), m=masks.setdefault(x.shape, x > 0))

    return made(forward, by_mask)


def slope_of_the_first_backward():
    slopes = {}

    def rule(g, x):
        return g * slopes.setdefault((x.shape, x.dtype), slope(x))

    return made(leaky, rule)


STATE = {
    "a view of a buffer": (view_of_a_buffer, "state", "saved value 'm'"),
    "a cached buffer": (cached_buffer, "state", "saved value 'm'"),
    "a default argument": (default_argument, "state", "saved value 'm'"),
    "the default of a setting": (default_of_a_setting, "state", "saved value 'where'"),
    "three buffers in turn": (rotating(), "state", "saved value 'm'"),
    "nine buffers in turn": (rotating(9), "state", "saved value 'm'"),
    "a mask drawn from a seed": (mask_of_a_seed, "state", "saved value 'm'"),
    "a list": (saved_list, "state", "saved value 'kept', at [0]"),
    "a dictionary": (saved_dict, "state", "saved value 'kept', at ['m']"),
    "a namespace": (saved_object(SimpleNamespace), "state", "saved value 'kept', at .mask"),
    "a dataclass": (saved_object(Scratch), "state", "saved value 'kept', at .mask"),
    "a closure": (saved_closure, "state", "saved value 'kept', at , its variable mask"),
    "a log of calls": (log_of_calls, "state", "saved value 'log'"),
    "an output": (output_of_a_buffer, "state", "the output"),
    "a global that the rule reads": (rule_reads_a_global, "state", "the rules give another gradient"),
    "scratch of the forward": (rule_returns_scratch_of_the_forward, "state", "a VJP rule has returned"),
    "a rule's buffers in turn": (rule_of_rotating_buffers(), "alias", "one of a few in turn"),
    "a rule's five buffers": (rule_of_rotating_buffers(5), "alias", "one of a few in turn"),
    "a mask of the first call": (mask_of_the_first_call, "value", "the same numbers in another order"),
    "a slope of the first backward": (slope_of_the_first_backward, "value", "the same numbers in another order"),
}
"""How to make the op, the kind of error, and what the message says."""

LATEST: dict = {}


def leaves_a_mask_behind(x):
    LATEST["mask"] = x > 0
    return leaky(x)


FAULTY["a mask in a global"] = SOUND["a mask in a global"] = Sound(
    leaves_a_mask_behind, {("x",): lambda g: by_mask(g, LATEST["mask"])}, lambda rng: (rng.uniform(0.5, 2.0, 3),)
)
KEEPING = [
    Planted("a rule that reads a global", "state", "a mask in a global", suspect="hand to the rules", slips=True),
]


# --- writing where it is allowed ---


def if_writable(g, x):
    if isinstance(g, np.ndarray) and g.flags.writeable:
        g *= np.cos(x)
        return g
    return g * np.cos(x)


def if_single(g, x):
    return if_writable(g, x) if g.dtype == np.float32 else g * np.cos(x)


def if_owner(g, x):
    if isinstance(g, np.ndarray) and g.flags.owndata and g.base is None and g.flags.writeable:
        return np.multiply(g, np.cos(x), out=g)
    return g * np.cos(x)


def tries(g, x):
    try:
        g[...] *= np.cos(x)
    except (TypeError, ValueError):
        g = g * np.cos(x)
    return g


def sine(rule):
    return lambda: made(lambda x: np.sin(x), rule)


def second_of_two():
    def rule(g, x):
        first, second = g
        if isinstance(second, np.ndarray) and second.flags.writeable:
            second *= -np.sin(x)
            return first * np.cos(x) + second
        return first * np.cos(x) - second * np.sin(x)

    return made(lambda x: (np.sin(x), np.cos(x)), rule)


def saved_where_it_may():
    def rule(g, slope):
        if slope.flags.writeable:
            slope *= 0.5
            return g * slope * 2
        return g * slope

    return made(lambda x: save(np.sin(x), slope=np.cos(x)), rule)


def argument_where_it_may():
    def forward(x):
        if isinstance(x, np.ndarray) and x.flags.writeable:
            return np.sin(x, out=x) * 1
        return np.sin(x)

    return made(forward, lambda g, out: g * np.sqrt(1 - out * out))


def setting_where_it_may():
    def forward(x, *, weight=1.0):
        if isinstance(weight, np.ndarray) and weight.flags.writeable:
            weight += 1
            return x * (weight - 1)
        return x * weight

    return made(forward, lambda g, weight: g * weight)


WRITES = {
    "if g is writable": (sine(if_writable), {}, "cotangent g"),
    "if g is writable, in single precision": (sine(if_single), {}, "cotangent g"),
    "if g owns its memory": (sine(if_owner), {}, "cotangent g"),
    "if it does not raise": (sine(tries), {}, "cotangent g"),
    "the second cotangent": (second_of_two, {}, "cotangent g[1]"),
    "a saved value": (saved_where_it_may, {}, "saved value 'slope'"),
    "an argument": (argument_where_it_may, {}, "argument 'x'"),
    "a setting": (setting_where_it_may, {"weight": np.arange(1.0, 4.0)}, "setting 'weight'"),
}
"""How to make the op, its settings, and what the message says."""


# --- arrays inside of settings ---


def weights_in(take, forward_writes):
    def touch(weights):
        for array in take(weights):
            array *= 2
        return 1.0

    def read(weights):
        return float(sum(np.sum(array) for array in take(weights)))

    def op():
        if forward_writes:
            return made(
                lambda x, *, weights: save(x * read(weights) * touch(weights), total=0.5 * read(weights)),
                lambda g, total: g * total,
            )
        return made(lambda x, *, weights: x * read(weights), lambda g, weights: g * read(weights) * touch(weights))

    return op


class Holder:
    def __init__(self, array):
        self.array = array


class Slotted:
    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array


@dataclass(frozen=True)
class Frozen:
    array: Any


HOLDERS = {
    "a tuple": (lambda a: (a,), lambda w: [w[0]]),
    "a list": (lambda a: [a], lambda w: [w[0]]),
    "a nested list": (lambda a: [1, [a]], lambda w: [w[1][0]]),
    "a dictionary": (lambda a: {"w": a}, lambda w: [w["w"]]),
    "a set": (lambda a: {Holder(a)}, lambda w: [one.array for one in w]),
    "an object": (Holder, lambda w: [w.array]),
    "an object with slots": (Slotted, lambda w: [w.array]),
    "a dataclass": (Scratch, lambda w: [w.mask]),
    "a frozen dataclass": (Frozen, lambda w: [w.array]),
    "an object in a tuple": (lambda a: (Holder(a), 3), lambda w: [w[0].array]),
}
"""How an array is put into a setting, and how it is taken out."""


# --- right ops that look alike ---


def constant_table():
    table = np.array([0.5, 2.0, 3.0], np.float32)
    return made(lambda x: save(x * table, table=table), lambda g, table: g * table)


def cached_table():
    table = functools.lru_cache(lambda n: np.arange(1.0, n + 1).astype(np.float32))
    return made(lambda x: save(x * table(len(x)), t=table(len(x))), lambda g, t: g * t)


def cache_by_seed():
    masks = {}

    def forward(x, *, seed=0):
        if (seed, x.shape) not in masks:
            masks[seed, x.shape] = np.random.default_rng(seed).random(x.shape) < 0.7
        return save(np.where(masks[seed, x.shape], x, 0 * x), masks=masks)

    return made(forward, lambda g, masks, seed: np.where(masks[seed, g.shape], g, 0 * g))


def dropout_like():
    def forward(x, *, seed=0):
        kept = np.random.default_rng(seed).random(x.shape) < 0.7
        return save(np.where(kept, x, 0 * x), kept=kept)

    return made(forward, lambda g, kept: np.where(kept, g, 0 * g))


def private_scratch():
    scratch = {}

    def forward(x):
        s = scratch.setdefault((x.shape, x.dtype), np.empty_like(x))
        return np.multiply(np.sin(x, out=s), 2, out=np.empty_like(x))

    return made(forward, lambda g, x: 2 * g * np.cos(x))


def returns_g():
    return made(lambda x: x + 3.0, lambda g: g)


def fresh_object():
    return made(lambda x: save(leaky(x), kept=SimpleNamespace(mask=x > 0)), lambda g, kept: by_mask(g, kept.mask))


def counts_its_calls():
    calls = itertools.count()

    def forward(x):
        next(calls)
        return np.sin(x)

    return made(forward, lambda g, x: g * np.cos(x))


RIGHT = [
    constant_table, cached_table, cache_by_seed, dropout_like, private_scratch, returns_g, fresh_object,
    counts_its_calls,
]  # fmt: skip
