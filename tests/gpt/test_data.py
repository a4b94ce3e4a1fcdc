"""Windows, splits and baselines of text."""

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt.corpus import builtin_text
from gpt.data import DataError, TextData, batch, check_ids
from gpt.streams import stream
from gpt.tokenizer import CharTokenizer
from gpt.windows import bigram_baseline, unigram_baseline


def of(tokens, block_size, **kwargs):
    return TextData(tokens, vocab_size=int(np.max(tokens, initial=0)) + 1, block_size=block_size, **kwargs)


# batches


def test_targets_are_inputs_shifted_by_one_and_starts_span_the_whole_range():
    starts = set()
    for step in range(100):
        x, y = batch(np.arange(100), 32, 7, seed=0, step=step)
        assert x.shape == y.shape == (32, 7)
        assert x.dtype == y.dtype == np.int64
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(x, x[:, :1] + np.arange(7))
        starts.update(x[:, 0].tolist())
    assert starts == set(range(93))


def test_a_batch_is_a_pure_function_of_seed_and_step():
    def drawn(seed, step):
        return batch(np.arange(1000), 4, 8, seed, step)[0].tolist()

    assert drawn(3, 5) == drawn(3, 5)
    grid = {str(drawn(seed, step)) for seed in range(8) for step in range(8)}
    assert len(grid) == 64  # in particular (seed + 1, step) is not (seed, step + 1)


def test_streams_of_other_names_are_independent():
    first = {name: stream(0, name, 1).integers(1 << 62) for name in ("batch", "dropout", "sample", "init")}
    assert len(set(first.values())) == 4
    assert stream(1 << 70, "batch", 1 << 40).integers(1 << 62) != first["batch"]


@pytest.mark.parametrize(("seed", "step"), [(-1, 0), (0, -1), (0.0, 0), (True, 0), (0, "1"), (None, 0)])
def test_impossible_seeds_and_steps_are_refused(seed, step):
    with pytest.raises(ValueError, match="must be an integer of at least 0"):
        stream(seed, "batch", step)


def test_batches_come_from_the_training_part_only():
    data = of(np.arange(200), 8, seed=1)
    seen = {int(i) for step in range(50) for part in data.batch(step, 16) for i in part.ravel()}
    assert max(seen) == 179
    assert min(seen) == 0
    x, _ = data.batch(3, 16)
    np.testing.assert_array_equal(x, batch(data.train, 16, 8, 1, 3)[0])


# the split


@pytest.mark.parametrize(
    ("total", "block", "train", "val", "note"),
    [
        (1000, 64, 900, 100, None),
        (650, 64, 585, 65, None),  # 10 windows: both parts hold a whole one
        (649, 64, 584, 65, None),
        (640, 64, 576, 64, "one window of 64 tokens"),
        (100, 64, 90, 10, "one window of 10 tokens"),
        (70, 64, 65, 5, "one window of 5 tokens"),  # training is never shorter than one window
        (66, 64, 65, 1, "no validation"),
        (65, 64, 65, 0, "no validation"),
    ],
)
def test_the_split_is_contiguous_and_short_texts_have_a_stated_fallback(total, block, train, val, note):
    data = of(np.arange(total), block)
    assert (len(data.train), len(data.val)) == (train, val)
    np.testing.assert_array_equal(np.concatenate([data.train, data.val]), np.arange(total))
    assert data.has_validation == (val >= 2)
    assert ("".join(data.notes) == "") if note is None else note in data.notes[0] and "650 tokens" in data.notes[0]
    x, y = data.batch(0, 3)
    np.testing.assert_array_equal(y, x + 1)
    evaluated = sum(len(x) for x, _ in data.eval_batches(4))
    assert evaluated == (math.ceil((val - 1) / min(block, val - 1)) if val >= 2 else 0)
    assert set(data.baselines()) == ({"uniform", "unigram", "bigram"} if val >= 2 else {"uniform"})


def test_a_text_of_exactly_one_window_trains_on_it():
    data = of(np.arange(9), 8)
    for step in range(3):
        x, y = data.batch(step, 2)
        np.testing.assert_array_equal(x, [range(8)] * 2)
        np.testing.assert_array_equal(y, [range(1, 9)] * 2)


def test_a_text_shorter_than_a_window_is_refused_with_what_would_fit():
    with pytest.raises(DataError, match=r"notes: 8 token.*block_size=8.* = 9; .*--block-size 7 or less"):
        of(np.arange(8), 8, source="notes")
    with pytest.raises(DataError, match=r"1 token.*use a longer text$"):
        of([0], 8)
    with pytest.raises(DataError, match=r"0 token.*use a longer text$"):
        of([], 8)


# evaluation


@given(st.integers(2, 300), st.integers(1, 40), st.integers(1, 9))
def test_evaluation_covers_the_whole_validation_part_in_order(val, block, batch_size):
    data = of(np.arange(block + 1), block)
    data.val = np.arange(val)
    batches = list(data.eval_batches(batch_size))
    x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_array_equal(y, x + 1)
    assert set(y.ravel().tolist()) == set(range(1, val))
    assert (np.diff(x[:, 0]) > 0).all()
    assert x.shape[1] <= block
    assert [len(x) for x, _ in batches[:-1]] == [batch_size] * (len(batches) - 1)


def test_evaluation_of_a_few_batches_is_evenly_spaced_and_always_the_same():
    data = of(np.arange(10_000), 16)
    starts = np.concatenate([x[:, 0] for x, _ in data.eval_batches(5, 2)]) - 9000
    assert starts[0] == 0
    assert starts[-1] == 1000 - 17
    assert len(starts) == 10
    assert np.ptp(np.diff(starts)) <= 1
    again = np.concatenate([x[:, 0] for x, _ in data.eval_batches(5, 2)]) - 9000
    np.testing.assert_array_equal(again, starts)
    assert len(list(data.eval_batches(5, 10**6))) == len(list(data.eval_batches(5))) == 13


# ids


@pytest.mark.parametrize(("bad", "position"), [(-1, 3), (5, 3), (10**12, 3)])
def test_an_id_outside_the_vocabulary_is_named_before_training(bad, position):
    tokens = np.array([0, 4, 2, bad, -7])
    with pytest.raises(DataError, match=rf"ids\.bin: token id {bad} at position {position} .* of 5 \(ids 0 to 4\)"):
        check_ids(tokens, 5, "ids.bin")
    with pytest.raises(DataError, match=f"token id {bad}"):
        TextData(tokens, vocab_size=5, block_size=2)
    with pytest.raises(DataError, match=f"token id {bad} at position 3"):
        check_ids(tokens[:4], 5)


def test_tokens_are_one_row_of_integers():
    with pytest.raises(DataError, match="float64"):
        check_ids([0.0, 1.0], 5)
    with pytest.raises(DataError, match="bool"):
        check_ids([True], 5)
    with pytest.raises(DataError, match=r"shape \(1, 2\)"):
        check_ids([[0, 1]], 5)
    assert check_ids([], 5).size == 0
    assert check_ids(np.array([0, 4], np.uint16), 5).dtype == np.uint16


@pytest.mark.parametrize("kwargs", [{"block_size": 0}, {"vocab_size": 2.0}, {"seed": -1}, {"seed": 0.5}])
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(ValueError, match=f"{next(iter(kwargs))}=.* must be an integer of at least"):
        TextData(np.zeros(9, int), **{"vocab_size": 2, "block_size": 4, **kwargs})


# baselines


def counted(train, val, vocab, smoothing=0.1):
    """Both baselines, counted pair by pair."""
    single, pairs, firsts = Counter(train), Counter(pairwise(train)), Counter(train[:-1])
    unigram = [(single[b] + smoothing) / (len(train) + smoothing * vocab) for b in val[1:]]
    bigram = [
        (pairs[a, b] + smoothing) / (firsts[a] + smoothing * vocab) for a, b in pairwise(val)
    ]
    return [-math.fsum(map(math.log, p)) / len(p) for p in (unigram, bigram)]


@given(st.data(), st.integers(1, 6))
def test_baselines_agree_with_counting_pair_by_pair(data, vocab):
    train = data.draw(st.lists(st.integers(0, vocab - 1), min_size=2, max_size=40))
    val = data.draw(st.lists(st.integers(0, vocab - 1), min_size=2, max_size=20))
    found = [f(np.array(train), np.array(val), vocab) for f in (unigram_baseline, bigram_baseline)]
    assert found == pytest.approx(counted(train, val, vocab), rel=1e-12)


def test_a_large_vocabulary_needs_no_square_table():
    tokens = stream(0, "test").integers(0, 1_000_000, 1000)
    assert bigram_baseline(tokens[:900], tokens[900:], 1_000_000) == pytest.approx(math.log(1_000_000), abs=0.01)


def test_the_baselines_of_the_builtin_text():
    data = TextData.builtin(block_size=64)
    baselines = data.baselines()
    assert data.recipe == {"builtin": True}
    # 2.316 with the topics of Python 3.11; those of other versions differ a little
    assert baselines["bigram"] == pytest.approx(2.316, abs=0.02)
    assert baselines["bigram"] < baselines["unigram"] < baselines["uniform"] == math.log(data.vocab_size)
    assert len(data.val) == math.ceil(len(builtin_text()) / 10)
    assert 1 <= data.bytes_per_token() < 1.1


# from text


def test_text_is_encoded_with_its_own_characters_or_with_a_given_tokenizer(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("abcab" * 20, encoding="utf-8")
    data = TextData.from_files(path, block_size=4, seed=3)
    assert (data.vocab_size, data.seed, data.source) == (3, 3, str(path))
    assert data.tokenizer.decode(data.val) == "abcab" * 2
    assert data.recipe == {"files": [str(path)], "encoding": None}
    wider = CharTokenizer("abcdef")
    data = TextData.from_files([path, path], block_size=4, tokenizer=CharTokenizer("\nabcdef"))
    assert data.vocab_size == 7
    assert data.source == f"{path} + {path}"
    with pytest.raises(DataError, match=r"a\.txt \+ .*outside the vocabulary: '\\n' .* position 100"):
        TextData.from_files([path, path], block_size=4, tokenizer=wider)
    with pytest.raises(DataError, match="text is empty"):
        TextData.from_text("", block_size=4)


def test_bytes_per_token_count_the_validation_text():
    assert TextData.from_text("é" * 100, block_size=4).bytes_per_token() == 2
    assert TextData.from_text("ab☃" * 100, block_size=4).bytes_per_token() == pytest.approx(5 / 3)
    assert of(np.arange(100), 4).bytes_per_token() is None
    assert TextData.from_text("éa", block_size=1).bytes_per_token() is None


def test_the_description_is_json_safe():
    described = TextData.from_text("abc" * 20, block_size=16, source="it").describe()
    assert json.loads(json.dumps(described)) == described
    assert (described["source"], described["tokens"], described["vocab_size"]) == ("it", 60, 3)
    assert len(described["notes"]) == 1


def test_a_relative_path_is_remembered_from_the_root(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes("é".encode("gb18030") * 9)
    monkeypatch.chdir(tmp_path)
    data = TextData.from_files("a.txt", "gb18030", block_size=2)
    assert data.recipe == {"files": [str(tmp_path / "a.txt")], "encoding": "gb18030"}
    assert data.source == "a.txt"
