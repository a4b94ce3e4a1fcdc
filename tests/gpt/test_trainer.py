"""One step, the losses, saved states: what a gradient is of, what randomness depends on, what is refused."""

import itertools
import math
import re

import numpy as np
import pytest

from autodiff import optim
from gpt import GPT, GPTConfig, Settings
from gpt.checkpoint import CheckpointError
from gpt.data import TaskData, TextData
from gpt.run import RunError
from gpt.trainer import NonFiniteError, Trainer, evaluate, exact_match, fingerprint

TEXT = "how much wood would a woodchuck chuck if a woodchuck could chuck wood? as much as it could. " * 8


def make_data(text=TEXT, block_size=8, seed=0):
    return TextData.from_text(text, block_size=block_size, seed=seed)


def make_model(data, rng=0, kind=GPT, **fields):
    small = {"block_size": data.block_size, "n_layer": 2, "n_head": 2, "n_embd": 8, **fields}
    return kind(GPTConfig(vocab_size=data.vocab_size, **small), rng=rng)


def make_trainer(fields=(), data=None, kind=GPT, **settings):
    data = make_data() if data is None else data
    usual = {"max_steps": 20, "batch_size": 4, "lr": 0.01}
    return Trainer(make_model(data, kind=kind, **dict(fields)), data, Settings(**{**usual, **settings}))


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# --- a step ---


def test_first_loss_is_that_of_guessing():
    trainer = make_trainer()
    assert trainer.step()["loss"] == pytest.approx(math.log(trainer.data.vocab_size), rel=0.01)


def test_step_does_what_the_founding_loop_does():
    trainer, by_hand = make_trainer(clip=0.05), make_trainer()
    s, model = trainer.settings, by_hand.model
    optimizer = optim.AdamW(optim.decay_groups(model, s.weight_decay), lr=s.lr, betas=(s.beta1, s.beta2))
    for step in range(3):
        record = trainer.step()
        x, y = by_hand.data.batch(step, 4)
        model.zero_grad()
        log_p = model(x).data - np.logaddexp.reduce(model(x).data, axis=-1, keepdims=True)
        loss = evaluate_batch(model, x, y)
        loss.backward()
        assert record["loss"] == pytest.approx(-np.take_along_axis(log_p, y[..., None], -1).mean(), rel=1e-5)
        norm = optim.clip_grad_norm(model.parameters(), 0.05)
        optimizer.lr = optim.warmup_cosine(step, lr=s.lr, min_lr=s.min_lr, warmup=s.warmup, total=s.max_steps)
        optimizer.step()
        assert record["lr"] == optimizer.lr
        assert record["grad_norm"] == pytest.approx(norm, rel=1e-4)
        assert record["step"] == trainer.done == step + 1
        for mine, theirs in zip(trainer.model.parameters(), model.parameters(), strict=True):
            np.testing.assert_allclose(mine.data, theirs.data, rtol=1e-3, atol=1e-5)


def evaluate_batch(model, x, y):
    import autodiff.functional as F

    return F.cross_entropy(model(x), y)


class Uneven(TaskData):
    """A task in which some answers are hidden, so that parts of a batch have different numbers of targets."""

    def batch(self, step, batch_size):
        x, y = super().batch(step, batch_size)
        y[: batch_size // 2, -3:] = -1
        return x, y


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_accumulated_gradient_is_that_of_the_big_batch(parts):
    fields = {"dtype": "float64", "dropout": 0.3}
    whole, cut = (
        make_trainer(fields, Uneven("sort"), batch_size=6 // n, accumulate=n, clip=0) for n in (1, parts)
    )  # fmt: skip
    for _ in range(2):
        one, other = whole.step(), cut.step()
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-13)
        assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-12)
    for a, b in zip(whole.model.parameters(), cut.model.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_clip(clip):
    trainer = make_trainer(clip=clip, beta1=0.75)
    trainer.model.embedding.weight.data *= 50
    norm = trainer.step()["grad_norm"]
    means = [array for name, array in trainer.state().moments.items() if name.startswith("exp_avg.")]
    kept = math.sqrt(sum(float(np.square(mean / 0.25).sum()) for mean in means))  # the mean began at 0
    assert norm > 1
    assert kept == pytest.approx(clip or norm, rel=1e-4)


def test_all_targets_ignored_is_a_step_without_loss():
    data = TaskData("sort")
    data.batch = lambda step, batch_size: (np.zeros((batch_size, 11), np.int64), np.full((batch_size, 11), -1))
    record = make_trainer(data=data).step()
    assert record["loss"] == record["grad_norm"] == 0


def test_learns_to_repeat_a_batch():
    data = make_data()
    data.batch = lambda step, batch_size: TextData.batch(data, 0, batch_size)
    trainer = make_trainer({"n_embd": 16}, data, max_steps=150, lr=0.02, weight_decay=0.0)
    assert [trainer.step()["loss"] for _ in range(150)][-1] < 0.35  # what follows the first letters is open


def test_noise_teaches_nothing_about_noise():
    rng = np.random.default_rng(5)
    data = TextData(rng.integers(0, 10, 8000), vocab_size=10, block_size=16)
    trainer = make_trainer(data=data, max_steps=60, batch_size=8)
    for _ in range(60):
        trainer.step()
    assert evaluate(trainer.model, data, 32) > math.log(10) - 0.02


# --- randomness ---


def test_dropout_depends_on_the_seed_and_the_step_only():
    def losses(seed, evaluations=0, rng=0):
        trainer = make_trainer({"dropout": 0.5}, seed=seed)
        found = []
        for _ in range(3):
            found.append(trainer.step()["loss"])
            for _ in range(evaluations):
                evaluate(trainer.model, trainer.data, 4)
                trainer.model.generate([0], 3, rng=rng)
        return found

    assert losses(1) == losses(1) == losses(1, evaluations=2) == losses(1, evaluations=1, rng=7)
    assert losses(1) != losses(2)


def test_each_step_drops_others():
    data = make_data()
    data.batch = lambda step, batch_size: TextData.batch(data, 0, batch_size)

    def losses(dropout):
        trainer = make_trainer({"dropout": dropout}, data, lr=0.0)
        trainer.model.eval()  # a step is training all the same
        return {trainer.step()["loss"] for _ in range(3)}

    assert len(losses(0.0)) == 1
    assert len(losses(0.5)) == 3


def test_evaluation_is_without_dropout_and_leaves_the_mode():
    trainer = make_trainer({"dropout": 0.5})
    model, data = trainer.model.train(), trainer.data
    assert evaluate(model, data, 4) == evaluate(model, data, 4)
    assert model.training
    assert not evaluate(model.eval(), data, 4) > math.log(data.vocab_size) * 1.01
    assert not model.training


def test_evaluation_weighs_every_target_alike():
    data = make_data()
    model = make_model(data)
    losses = {size: evaluate(model, data, size) for size in (1, 3, 100)}
    assert losses[3] == pytest.approx(losses[1], rel=1e-5)
    assert losses[100] == pytest.approx(losses[1], rel=1e-5)
    assert evaluate(model, data, 1, batches=2) != losses[1]


def test_no_validation_data_no_validation_loss():
    data = make_data("to be or", block_size=7)
    assert not data.has_validation
    assert evaluate(make_model(data), data, 4) is None


def test_exact_match_is_of_greedy_answers():
    data = TaskData("copy", length=3, symbols=2)
    model = make_model(data)
    questions, answers = data.held_out()
    given = model.generate(questions, 3, temperature=0)[:, -3:]
    assert exact_match(model, data) == (given == answers).all(axis=1).mean()


# --- what is not finite ---


def test_diverging_run_stops_in_the_step_in_which_the_loss_is_lost():
    trainer = make_trainer(lr=1e3, min_lr=1e3, warmup=0, max_steps=200)
    losses = []
    with pytest.raises(NonFiniteError, match=r"became (nan|inf) in step \d+") as caught:
        losses.extend(trainer.step()["loss"] for _ in itertools.count())
    assert np.isfinite(losses).all()
    assert re.search(rf"in step {len(losses) + 1}\b", str(caught.value))
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_first_bad_op_is_named():
    trainer = make_trainer()
    trainer.model.blocks[1].mlp.down.weight.data[...] = 1e38
    trainer.model.blocks[1].mlp.up.weight.data[0] = 1e3
    with pytest.raises(NonFiniteError, match=r"in step 1: the forward of 'linear' in blocks\.1\.mlp\.down made inf"):
        trainer.step()


def test_bad_parameter_is_named():
    trainer = make_trainer()
    trainer.step()
    trainer.model.blocks[0].attn.proj.weight.data[0, 0] = np.nan
    with pytest.raises(NonFiniteError, match=r"in step 2: the parameter blocks\.0\.attn\.proj\.weight is not finite"):
        trainer.step()
    with pytest.raises(NonFiniteError, match=r"blocks\.0\.attn\.proj\.weight became non-finite in step 1"):
        trainer.state()


class Cusp(GPT):
    """Adds the root of a zero that depends on a weight: the loss is finite, the gradient is not."""

    def forward(self, tokens, cache=None):
        return super().forward(tokens, cache) + np.sqrt(self.embedding.weight[0, 0] * 0)


def test_bad_gradient_is_named_and_no_step_taken():
    trainer = make_trainer(kind=Cusp)
    before = trainer.model.state_dict()
    with pytest.raises(NonFiniteError, match=r"embedding\.weight became nan in step 1: the VJP rule of 'sqrt'"):
        trainer.step()
    assert same(trainer.model.state_dict(), before)
    assert trainer.done == 0


# --- states ---


def test_state_restores_everything():
    trainer, again = make_trainer({"dropout": 0.2}), make_trainer({"dropout": 0.2})
    for _ in range(3):
        trainer.step()
    trainer.best = 2.5
    again.restore(trainer.state())
    assert (again.done, again.best) == (3, 2.5)
    assert trainer.step()["loss"] == again.step()["loss"]
    mine, theirs = trainer.state(), again.state()
    assert same(mine.weights, theirs.weights)
    assert same(mine.moments, theirs.moments)
    assert mine.manifest == theirs.manifest
    assert len(mine.moments) == 2 * len(mine.weights)


def test_changed_settings_hold_after_restoring():
    trainer, again = make_trainer(weight_decay=0.1), make_trainer(weight_decay=0.4, lr=0.5, beta2=0.9)
    trainer.step()
    again.restore(trainer.state())
    assert [group["weight_decay"] for group in again.optimizer.param_groups] == [0.4, 0.0]
    assert {tuple(group["betas"]) for group in again.optimizer.param_groups} == {(0.9, 0.9)}
    assert again.step()["lr"] > 0.1


def test_dropout_may_change():
    trainer, again = make_trainer(), make_trainer({"dropout": 0.3})
    trainer.step()
    again.restore(trainer.state())
    assert again.done == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"n_layer": 1}, "n_layer=2 in the run, 1 now"),
        ({"n_head": 4}, "n_head=2 in the run, 4 now"),
        ({"pos": "none"}, "pos='learned' in the run, 'none' now"),
    ],
)
def test_other_architecture_is_refused_with_both_values(fields, named):
    state, other = make_trainer().state(), make_trainer(fields)
    before = other.model.state_dict()
    with pytest.raises(RunError, match=named):
        other.restore(state)
    assert same(other.model.state_dict(), before)


def test_other_data_are_refused():
    state = make_trainer().state()
    with pytest.raises(RunError, match=r"trained on other data \(text\)"):
        make_trainer(data=make_data(TEXT.replace("wood", "doow"))).restore(state)


def test_weights_alone_cannot_be_resumed():
    trainer = make_trainer()
    trainer.step()
    with pytest.raises(CheckpointError, match="no optimiser state"):
        make_trainer().restore(trainer.state()._replace(moments={}))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.moments.pop("exp_avg.embedding.weight"),
        lambda state: state.moments.update({"exp_avg.nothing": np.zeros(3, np.float32)}),
        lambda state: state.moments.update(nothing=np.zeros(3, np.float32)),
        lambda state: state.moments.update({"exp_avg.embedding.weight": np.zeros(3, np.float32)}),
        lambda state: state.manifest["optimizer"].pop("steps"),
        lambda state: state.manifest["optimizer"]["steps"].update(nothing=3),
        lambda state: state.weights.pop("embedding.weight"),
        lambda state: state.weights["embedding.weight"].fill(np.nan),
    ],
)
def test_state_that_does_not_fit_is_refused(spoil):
    trainer = make_trainer()
    trainer.step()
    state = trainer.state()
    spoil(state)
    with pytest.raises(CheckpointError, match=r"does not fit|non-finite"):
        make_trainer().restore(state)


def test_model_and_data_must_fit():
    data = make_data()
    model = GPT(GPTConfig(vocab_size=99, block_size=8, n_layer=1, n_head=1, n_embd=4))
    with pytest.raises(ValueError, match=rf"{data.vocab_size} different tokens, the model has vocab_size=99"):
        Trainer(model, data, Settings())
    with pytest.raises(ValueError, match=r"windows of 8 tokens of text do not fit the model's block_size=4"):
        Trainer(make_model(data, block_size=4), data, Settings())


def test_fingerprint_tells_data_apart():
    prints = [
        fingerprint(data)
        for data in (
            make_data(), make_data("x" + TEXT), make_data(block_size=9), make_data(TEXT.replace("a", "z")),
            TextData([0, 1] * 20, vocab_size=2, block_size=4), TextData([0, 1] * 20, vocab_size=3, block_size=4),
            TaskData("sort"), TaskData("sort", length=5), TaskData("copy"),
        )
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert fingerprint(make_data(seed=3)) == prints[0]
