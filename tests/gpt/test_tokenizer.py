"""The character tokenizer: an exact round trip, and errors that name what is unknown."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt import tokenizer as module
from gpt.tokenizer import CharTokenizer, tokenizer_from_dict

texts = st.text(st.characters(exclude_categories=()), min_size=1)  # lone surrogates, NUL and astral planes included


@given(texts, st.data())
def test_decoding_what_was_encoded_gives_every_text_over_the_vocabulary(corpus, data):
    tokenizer = CharTokenizer(corpus)
    text = data.draw(st.text(st.sampled_from(corpus)))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids.shape == (len(text),)
    assert np.issubdtype(ids.dtype, np.integer)


def test_lone_surrogates_are_characters_like_any_other():
    text = "a\ud800\udc00z\udfff"
    tokenizer = tokenizer_from_dict(json.loads(json.dumps(CharTokenizer(text).to_dict())))
    assert tokenizer.vocab_size == 5
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(texts)
def test_ids_are_places_among_the_sorted_distinct_characters(corpus):
    tokenizer = CharTokenizer(corpus)
    expected = sorted(set(corpus))
    assert tokenizer.vocab_size == len(expected)
    assert [expected.index(c) for c in corpus] == tokenizer.encode(corpus).tolist()
    assert [tokenizer.decode([i]) for i in range(len(expected))] == expected


@given(texts)
def test_the_dictionary_form_survives_json(corpus):
    tokenizer = CharTokenizer(corpus)
    again = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again.encode(corpus).tolist() == tokenizer.encode(corpus).tolist()


def test_unknown_characters_are_all_listed_with_their_first_positions():
    expected = (
        "characters outside the vocabulary: 'é' (U+00E9) at position 1, '☃' (U+2603) at position 2, "
        "'\\n' (U+000A) at position 4"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        CharTokenizer("h").encode("hé☃é\n☃")


def test_a_message_about_very_many_unknown_characters_stays_readable():
    with pytest.raises(ValueError, match=r"U\+4E31\) at position 49, and 950 more$"):
        CharTokenizer("a").encode("".join(map(chr, range(0x4E00, 0x4E00 + 1000))))


def test_positions_are_right_beyond_the_first_chunk(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)
    tokenizer = CharTokenizer("abc")
    assert tokenizer.encode("abcabcabcab").tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    with pytest.raises(ValueError, match=r"'x' .* at position 6$"):
        tokenizer.encode("abcabcxabcx")


def test_empty_text_gives_an_empty_array_and_back():
    tokenizer = CharTokenizer("abc")
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode(tokenizer.encode("")) == tokenizer.decode([]) == ""


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.intp])
def test_decode_takes_any_integers(dtype):
    assert CharTokenizer("abc").decode(np.array([2, 0], dtype)) == "ca"


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0, 3, -1, 3], ValueError, r"vocabulary of 3 \(0 to 2\): -1, 3$"),
        (list(range(3, 103)), ValueError, r"52, and 50 more$"),
        ([[0, 1]], ValueError, r"shape \(1, 2\)"),
        (1, ValueError, r"shape \(\)"),
        ([0.0, 1.0], TypeError, "integers, not float64"),
        ([True], TypeError, "integers, not bool"),
    ],
)
def test_decode_names_what_is_no_id(ids, error, message):
    with pytest.raises(error, match=message):
        CharTokenizer("abc").decode(ids)


def test_a_vocabulary_needs_a_text():
    with pytest.raises(ValueError, match="at least one character"):
        CharTokenizer("")
    with pytest.raises(TypeError, match="str, not list"):
        CharTokenizer(["a"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "field 'type'"),
        ({}, "field 'type'"),
        ({"type": "chars"}, "'chars'; did you mean 'char'"),
        ({"type": ["char"]}, "unknown tokenizer type"),
        ({"type": "char"}, "has the fields"),
        ({"type": "char", "chars": ["a"], "size": 1}, "has the fields"),
        ({"type": "char", "chars": "ab"}, "non-empty list of single characters"),
        ({"type": "char", "chars": []}, "non-empty list of single characters"),
        ({"type": "char", "chars": ["ab"]}, "non-empty list of single characters"),
        ({"type": "char", "chars": ["a", 1]}, "non-empty list of single characters"),
        ({"type": "char", "chars": ["b", "a"]}, "sorted and without repetition"),
        ({"type": "char", "chars": ["a", "a"]}, "sorted and without repetition"),
    ],
)
def test_a_broken_description_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        tokenizer_from_dict(fields)


def test_unequal_vocabularies_differ():
    assert CharTokenizer("ab") != CharTokenizer("ac")
    assert CharTokenizer("ab") != "ab"
