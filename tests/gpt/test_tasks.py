"""Sequence tasks: right answers, disjoint parts, targets for the answer only."""

import json
import math

import numpy as np
import pytest

from gpt.data import TaskData

SOLVE = {
    "sort": lambda question, base: sorted(question),
    "copy": lambda question, base: question,
    "add": lambda question, base: add(question, base),
}
TASKS = [
    ("sort", {}), ("add", {}), ("copy", {"length": 4}), ("sort", {"length": 3, "symbols": 7}),
    ("add", {"length": 3, "symbols": 4}), ("add", {"length": 1, "symbols": 36}), ("copy", {"length": 9, "symbols": 2}),
]  # fmt: skip


def add(question, base):
    """School addition from the last digit on."""
    n, carry, total = len(question) // 2, 0, []
    for a, b in zip(reversed(question[:n]), reversed(question[n:]), strict=True):
        carry, digit = divmod(a + b + carry, base)
        total.append(digit)
    return [*total, carry]


@pytest.fixture(params=TASKS, ids=str)
def case(request):
    name, sizes = request.param
    return name, TaskData.named(name, seed=5, **sizes)


def test_every_sequence_is_a_question_and_its_right_answer(case):
    name, data = case
    n = data.question_length
    for x, y in [data.batch(0, 16), data.batch(1, 16), next(data.eval_batches(16))]:
        assert x.shape == y.shape
        assert x.shape[1] == data.block_size
        assert x.dtype == y.dtype == np.int64
        for inputs, targets in zip(x.tolist(), y.tolist(), strict=True):
            assert targets[: n - 1] == [-1] * (n - 1)
            assert targets[n - 1 :] == SOLVE[name](inputs[:n], data.vocab_size)
            assert inputs[n:] == targets[n - 1 : -1]
            assert 0 <= min(inputs)
            assert max(inputs) < data.vocab_size


def test_held_out_questions_are_distinct_and_never_trained_on(case):
    _, data = case
    held_out = {tuple(row) for row in data.held_out()[0].tolist()}
    n = data.question_length
    total = data.vocab_size**n
    assert len(held_out) == len(data.held_out()[0])
    assert abs(len(held_out) / total - 0.25) < 3 * math.sqrt(0.25 * 0.75 / total)
    trained = {tuple(row[:n]) for step in range(30) for row in data.batch(step, 64)[0].tolist()}
    assert not trained & held_out
    evaluated = [tuple(row[:n]) for x, _ in data.eval_batches(50) for row in x.tolist()]
    assert len(evaluated) == len(held_out)
    assert set(evaluated) == held_out


def test_the_first_held_out_questions_are_typical():
    questions, _ = TaskData.named("copy", symbols=10).held_out(400)
    assert abs(questions.mean(axis=0) - 4.5).max() < 0.6  # four standard errors; in numerical order the first are all 0


def test_the_training_part_is_drawn_whole():
    data = TaskData.named("sort", length=4)
    trained = {tuple(row[:4]) for step in range(40) for row in data.batch(step, 64)[0].tolist()}
    assert len(trained) + len(data.held_out()[0]) == 3**4


def test_batches_depend_on_seed_and_step_alone_and_the_split_on_neither():
    one, two, other = TaskData.named("add", seed=1), TaskData.named("add", seed=1), TaskData.named("add", seed=2)
    two.batch(0, 8)
    np.testing.assert_array_equal(one.batch(7, 8)[0], two.batch(7, 8)[0])
    assert (one.batch(7, 8)[0] != one.batch(8, 8)[0]).any()
    assert (one.batch(7, 8)[0] != other.batch(7, 8)[0]).any()
    np.testing.assert_array_equal(one.held_out()[0], other.held_out()[0])


def test_the_usual_sizes_are_those_of_mingpt():
    sort, addition = TaskData.named("sort"), TaskData.named("add")
    assert (sort.vocab_size, sort.block_size, sort.question_length, sort.answer_length) == (3, 11, 6, 6)
    assert (addition.vocab_size, addition.block_size, addition.answer_length) == (10, 6, 3)
    assert sort.tokenizer.chars == "012"


def test_a_few_evaluation_batches_are_the_first_ones():
    data = TaskData.named("sort")
    assert [len(x) for x, _ in data.eval_batches(100)] == [100, 88]
    assert [len(x) for x, _ in data.eval_batches(60, 2)] == [60, 60]
    first = np.concatenate([x for x, _ in data.eval_batches(60, 2)])
    np.testing.assert_array_equal(first[:, :6], data.held_out(120)[0])


def test_exact_match_counts_whole_answers():
    data = TaskData.named("sort")
    assert data.exact_match(lambda q, m: np.sort(q, axis=1)) == 1

    def last_wrong_in_half(q, m):
        answers = np.sort(q, axis=1)
        answers[::2, -1] = (answers[::2, -1] + 1) % 3
        return answers

    assert data.exact_match(last_wrong_in_half, count=100) == 0.5
    with pytest.raises(ValueError, match=r"shape \(4, 5\); the answers have shape \(4, 6\)"):
        data.exact_match(lambda q, m: q[:, :-1], count=4)


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("sorted", {}, "unknown task 'sorted'; did you mean 'sort'"),
        ("copy", {"length": 0}, "length=0 must be an integer from 1 to 64"),
        ("copy", {"symbols": 37}, "symbols=37 must be an integer from 2 to 36"),
        ("copy", {"symbols": 1}, "symbols=1 must be"),
        ("copy", {"length": 8, "symbols": 10}, "100,000,000 questions; reduce"),
        ("add", {"length": 64, "symbols": 36}, "questions; reduce"),
        ("copy", {"length": 1, "symbols": 2}, "only 2 questions; increase"),
        ("copy", {"seed": -1}, "seed=-1 must be"),
    ],
)
def test_impossible_tasks_are_refused(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        TaskData.named(name, **kwargs)


def test_a_task_describes_itself():
    data = TaskData.named("add")
    described = data.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["train_questions"] + described["held_out_questions"] == 10_000
    assert described["source"] == "task add"
    assert data.has_validation
    assert data.recipe == {"task": "add", "length": 2, "symbols": 10}
    assert data.baselines() == {"uniform": math.log(10)}
    assert data.bytes_per_token() is None
