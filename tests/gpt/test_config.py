"""The configuration: validation, presets, and the closed parameter formula."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt.config import BATCH_SIZES, PRESETS, GPTConfig, nearest, preset

FIELDS = [
    "vocab_size", "block_size", "n_layer", "n_head", "n_kv_head", "n_embd", "d_ff", "norm", "norm_eps", "norm_gain",
    "embed_norm", "final_norm", "pos", "rope_theta", "mlp", "bias", "tied", "dropout", "dtype",
]


@st.composite
def configs(draw):
    kv, group, pairs = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads = kv * group
    sizes = {name: draw(st.integers(1, 9)) for name in ("vocab_size", "block_size", "n_layer", "d_ff")}
    switches = {name: draw(st.booleans()) for name in ("norm_gain", "embed_norm", "final_norm", "bias", "tied")}
    return GPTConfig(
        **sizes, **switches, n_head=heads, n_kv_head=kv, n_embd=2 * pairs * heads,
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])), mlp=draw(st.sampled_from(["relu", "gelu", "swiglu"])),
        pos=draw(st.sampled_from(["learned", "sinusoidal", "rope", "none"])),
        norm_eps=draw(st.floats(1e-8, 0.5)), dropout=draw(st.floats(0, 0.99)),
        dtype=draw(st.sampled_from(["float32", "float64"])),
    )


def shapes(c):
    """Every parameter of a model, written out one by one: the meaning of the closed formula."""
    d, f, kv = c.n_embd, c.d_ff, c.n_kv_head * (c.n_embd // c.n_head)

    def norm():
        if c.norm_gain:
            yield (d,)
            if c.norm == "layernorm" and c.bias:
                yield (d,)

    def linear(n_in, n_out):
        yield (n_in, n_out)
        if c.bias:
            yield (n_out,)

    yield (c.vocab_size, d)
    if c.pos == "learned":
        yield (c.block_size, d)
    if c.embed_norm:
        yield from norm()
    for _ in range(c.n_layer):
        yield from norm()
        for width in (d, kv, kv):
            yield from linear(d, width)
        yield from linear(d, d)
        yield from norm()
        yield from linear(d, f)
        if c.mlp == "swiglu":
            yield from linear(d, f)
        yield from linear(f, d)
    if c.final_norm:
        yield from norm()
    if not c.tied:
        yield (d, c.vocab_size)


def test_the_fields_are_the_documented_ones_in_order():
    assert [field.name for field in dataclasses.fields(GPTConfig)] == FIELDS


@given(configs())
def test_parameter_count_is_the_sum_over_all_parameters(config):
    assert config.parameter_count() == sum(math.prod(shape) for shape in shapes(config))


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (preset("toy"), 12_128),  # 2Vd + L(4d^2 + 3df) + 2Ld + d at V=28, d=32, f=64, L=1
        (preset("toy", vocab_size=65), 14_496),
        (preset("gpt2"), 124_439_808),  # GPT-2 small as published
        (preset("micro"), 4_192),  # microgpt prints it
        (preset("nano"), 804_096),  # nanoGPT's CPU run: 795,904 without, 8,192 in the position table
    ],
)
def test_known_parameter_counts(config, count):
    assert config.parameter_count() == count


@given(configs())
def test_a_config_survives_json(config):
    again = GPTConfig.from_dict(json.loads(json.dumps(config.to_dict(), allow_nan=False)))
    assert again == config
    assert {name: type(value) for name, value in again.to_dict().items()} == {
        name: type(value) for name, value in config.to_dict().items()
    }


def test_none_is_resolved_to_concrete_widths():
    config = GPTConfig(vocab_size=5, n_head=6, n_embd=12, n_kv_head=None, d_ff=None)
    assert (config.n_kv_head, config.d_ff, config.head_dim) == (6, 48, 2)


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("toy").n_embd = 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_embd": 10, "n_head": 4}, ["n_embd=10", "not divisible", "n_head=4", "12"]),
        ({"n_embd": 6, "n_head": 2, "pos": "rope"}, ["head width", "= 3", "must be even", "rope"]),
        ({"n_embd": 12, "n_head": 6, "n_kv_head": 4}, ["n_kv_head=4", "does not divide", "n_head=6", "1, 2, 3, 6"]),
        ({"n_embd": 12, "n_head": 6, "n_kv_head": 12}, ["n_kv_head=12", "does not divide", "n_head=6"]),
        ({"n_embd": 9, "n_head": 3, "pos": "sinusoidal"}, ["n_embd=9", "even", "sinusoidal"]),
        ({"vocab_size": 10**12}, ["vocab_size=1000000000000", "parameters", "reduce"]),
        ({"n_embd": 10**9}, ["n_embd=1000000000", "parameters"]),
        ({"n_embd": 10**9, "n_head": 10**9, "n_kv_head": 7}, ["parameters"]),
        ({"d_ff": 10**10}, ["d_ff=10000000000", "parameters"]),
        ({"n_layer": 10**6, "n_embd": 4}, ["n_layer=1000000", "10000"]),
        ({"block_size": 10**9, "pos": "rope"}, ["block_size=1000000000", "131072"]),
        ({"block_size": 131072, "n_embd": 2**15, "d_ff": 1, "n_layer": 1, "n_head": 1, "pos": "none"}, ["parameters"]),
        ({"block_size": 131072, "n_embd": 20_000, "d_ff": 1, "n_layer": 1, "pos": "none"}, ["table of positions"]),
        ({"n_layer": 0}, ["n_layer=0", "at least 1"]),
        ({"n_kv_head": 0}, ["n_kv_head=0", "at least 1"]),
        ({"d_ff": -1}, ["d_ff=-1", "at least 1"]),
        ({"n_layer": 2.5}, ["n_layer=2.5", "integer", "float"]),
        ({"n_layer": 2.0}, ["n_layer=2.0", "integer"]),
        ({"n_layer": "2"}, ["n_layer='2'", "integer"]),
        ({"n_layer": True}, ["n_layer=True", "integer", "bool"]),
        ({"n_embd": None}, ["n_embd=None", "integer"]),
        ({"dropout": 1.0}, ["dropout=1.0", "at least 0 and less than 1"]),
        ({"dropout": -0.1}, ["dropout=-0.1"]),
        ({"dropout": math.nan}, ["dropout=nan"]),
        ({"dropout": False}, ["dropout=False", "number"]),
        ({"rope_theta": True}, ["rope_theta=True", "number"]),
        ({"dropout": "0"}, ["dropout='0'", "number"]),
        ({"norm_eps": 0}, ["norm_eps=0", "greater than 0"]),
        ({"norm_eps": math.inf}, ["norm_eps=inf"]),
        ({"rope_theta": 0.0}, ["rope_theta=0.0", "greater than 0"]),
        ({"rope_theta": 10**400}, ["rope_theta=1000"]),
        ({"norm": "batchnorm"}, ["norm='batchnorm'", "'layernorm', 'rmsnorm'"]),
        ({"pos": "rotary"}, ["pos='rotary'", "'rope'"]),
        ({"mlp": None}, ["mlp=None", "'swiglu'"]),
        ({"dtype": "float16"}, ["dtype='float16'", "'float32', 'float64'"]),
        ({"dtype": np.int64}, ["dtype='int64'"]),
        ({"bias": 0}, ["bias=0", "True or False"]),
        ({"tied": "no"}, ["tied='no'", "True or False"]),
    ],
)
def test_an_invalid_field_gives_one_clear_line(changes, words):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        preset("nano", **changes)
    message = str(caught.value)
    for word in words:
        assert word in message


def test_numbers_of_numpy_and_whole_numbers_for_floats_are_accepted():
    changes = {"dropout": 0, "rope_theta": 500_000, "n_layer": np.int64(2), "tied": np.True_, "dtype": np.float64}
    values = [getattr(preset("nano", **changes), name) for name in changes]
    assert values == [0.0, 500_000.0, 2, True, "float64"]
    assert [type(value) for value in values] == [float, float, int, bool, str]


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="unknown config field 'n_heads'; did you mean 'n_head'"):
        preset("nano", n_heads=2)
    with pytest.raises(ValueError, match="unknown preset 'GPT-2'; did you mean 'gpt2'"):
        preset("GPT-2")
    with pytest.raises(ValueError, match="unknown preset 'zzz'; choose from toy, classic"):
        preset("zzz")
    with pytest.raises(ValueError, match="lacks vocab_size"):
        GPTConfig.from_dict({})
    with pytest.raises(ValueError, match="dictionary of fields, not list"):
        GPTConfig.from_dict([1])
    assert nearest(3, ["n_layer"]) == "choose from n_layer"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_follows_its_changes(name):
    assert preset(name).to_dict() == GPTConfig.from_dict(PRESETS[name]).to_dict()
    assert preset(name, vocab_size=99).vocab_size == 99


def test_presets_are_what_the_documents_say():
    def of(name, *fields):
        return tuple(getattr(preset(name), field) for field in fields)

    family = ("norm", "pos", "mlp", "bias", "tied")
    assert of("toy", *family) == ("rmsnorm", "rope", "swiglu", False, False)
    assert of("classic", *family) == ("layernorm", "sinusoidal", "gelu", True, True)
    assert of("micro", *family) == ("rmsnorm", "learned", "relu", False, False)
    assert of("micro", "norm_gain", "embed_norm", "final_norm") == (False, True, False)
    sizes = ("n_embd", "n_layer", "n_head", "block_size", "vocab_size")
    assert of("tiny", *sizes) == (32, 1, 2, 16, 28)
    assert of("nano", *sizes) == (128, 4, 4, 64, 65)
    assert of("mid", *sizes) == (256, 6, 8, 128, 256)
    assert of("long", *sizes) == (256, 4, 8, 1024, 256)
    for name in BATCH_SIZES:
        assert of(name, *family) == ("layernorm", "learned", "gelu", False, True)
    assert of("llama-toy", "n_head", "n_kv_head") == (8, 2)
    assert preset("nano", n_embd=96, n_head=6).d_ff == 384  # widths that follow are not frozen in the preset
