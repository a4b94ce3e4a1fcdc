"""Strict JSON: what is accepted is exact, and what is refused is named."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt.strictjson import check_json, parse_json, shown

numbers = st.integers(-(2**127), 2**127) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.text() | numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_what_passes_the_check_survives_exactly(value):
    check_json(value)
    again = parse_json(json.dumps(value))
    assert again == value
    assert json.dumps(again) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no valid JSON"),
        ("{", "no valid JSON"),
        ("{} {}", "no valid JSON"),
        ("{'a': 1}", "no valid JSON"),
        ("\ufeff{}", "no valid JSON"),
        ("[1]", "object was expected"),
        ("null", "object was expected, not None"),
        ('{"a": 1, "a": 1}', "the key 'a' occurs twice"),
        ('{"x": [{"a": 1, "b": 2, "a": 1}]}', "the key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ('{"a": 1e999}', "a is inf; numbers must be finite"),
        (f'{{"a": {{"b": [0, {2**128}]}}}}', r"a\.b\[1\] is an integer of more than 128 bits"),
        ('{"a": ' + "9" * 10_000 + "}", "integer of 10000 digits"),
        ('{"a": ' + "[" * 33 + "]" * 33 + "}", "nested more than 32 deep"),
        ('{"a": ' + "[" * 200_000, "nested more than 32 deep"),
        ('{"a":' * 200_000, "nested more than 32 deep"),
    ],
)
def test_what_is_refused_is_named(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_json(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": np.float32(1)}, "a is of type float32; use"),
        ({"a": np.int64(1)}, "a is of type int64"),
        ({"a": (1, 2)}, "a is of type tuple"),
        ({"a": {1: 2}}, "a has the key 1; keys must be strings"),
        ({1: 2}, "the top level has the key 1"),
        ({"a": [0.0, float("nan")]}, r"a\[1\] is nan"),
        ({"a": b""}, "a is of type bytes"),
    ],
)
def test_what_json_would_change_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        check_json(value)


def test_cost_does_not_grow_with_hostile_keys():
    # a path written out for every element would copy 100,000 times 500,000 characters
    parse_json(json.dumps({"k" * 500_000: [0] * 100_000}))
    with pytest.raises(ValueError, match="'99999' occurs twice"):
        parse_json("{" + ",".join(f'"{i}":0' for i in range(100_000)) + ',"99999":0}')


def test_values_are_shown_short():
    assert len(shown("x" * 10**6)) < 80
    assert len(shown([10**30] * 1000)) < 300
    assert shown("short") == "'short'"
