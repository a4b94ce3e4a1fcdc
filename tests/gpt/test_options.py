"""Flags: their spelling, their values, files of them, and answers to those of other programs."""

import dataclasses

import pytest

from gpt.config import PRESETS, GPTConfig
from gpt.options import ELSEWHERE, HELP, Parser, add_common, add_config, add_data, add_sampling, add_settings, parse
from gpt.settings import Settings


def make_parser():
    main = Parser(prog="gpt")
    commands = main.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    train = commands.add_parser("train")
    add_data(train, default="none")
    add_config(train)
    add_settings(train)
    train.add_argument("--resume", action="store_true")
    sample = commands.add_parser("sample")
    add_sampling(sample)
    for command in (train, sample):
        add_common(command)
    return main


def read(*words):
    return parse(["train", *words], make_parser())


def refuse(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        parse(words, make_parser())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


# --- names ---


def test_every_field_is_a_flag_with_help():
    given = vars(read())
    fields = [field.name for of in (GPTConfig, Settings) for field in dataclasses.fields(of)]
    assert {name: given[name] for name in fields} == dict.fromkeys(fields)  # None: not given
    assert set(HELP) == set(fields)


def test_dashes_and_underscores_are_the_same():
    for words in (["--n-layer", "6"], ["--n_layer", "6"], ["--n-layer=6"], ["--n_layer=6"]):
        assert read(*words).n_layer == 6
    assert parse(["sample", "--prompt=a_b=c--d_e"], make_parser()).prompt == "a_b=c--d_e"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("--max_iters=5", "here it is --max-steps"),
        ("--learning_rate=1", "here it is --lr"),
        ("--gradient_accumulation_steps=2", "here it is --accumulate"),
        ("--eval_iters=2", "here it is --eval-batches"),
        ("--warmup_iters=2", "here it is --warmup"),
        ("--grad_clip=2", "here it is --clip"),
        ("--out_dir=x", "here it is --out"),
        ("--dataset=x", "here it is --data"),
        ("--init_from=resume", "here it is --resume"),
        ("--device=cpu", "here it is none, as everything runs on the CPU"),
        ("--compil=1", "here it is none, as there is nothing to compile"),
        ("--n_layers=2", "did you mean --n-layer?"),
        ("--bach-size=2", "did you mean --batch-size?"),
        ("--nothing-like-it", "unknown option --nothing-like-it (help: gpt train --help)"),
        ("--n-lay=2", "did you mean --n-layer?"),  # no abbreviations: a new flag could change what they mean
        ("stray", "unexpected argument 'stray'"),
        ("--\x1b[31m", "unknown option --\\x1b[31m"),
    ],
)
def test_unknown_name_is_answered_with_ours(capsys, word, hint):
    assert hint in refuse(capsys, "train", word)


def test_names_of_other_programs_are_not_ours():
    main = make_parser()
    ours = {option for words in (["train"], ["sample"]) for option in parse(words, main).parser._option_string_actions}
    assert not {f"--{name}" for name in ELSEWHERE} & ours
    for there, here in ELSEWHERE.items():
        name = here.split()[0].rstrip(",")
        assert name in ours | {"--out", "none"}, there


# --- values ---


def test_values():
    given = read("--dropout=0", "--lr=1", "--seed=7", "--norm=rmsnorm", "--min-lr", "1e-5", "--minutes=.5")
    assert (given.dropout, given.lr, given.seed, given.norm, given.min_lr) == (0.0, 1.0, 7, "rmsnorm", 1e-5)
    assert given.minutes == 0.5


def test_switches():
    for word, value in {"": True, "=true": True, "=1": True, "=False": False, "=0": False, "=off": False}.items():
        assert read(f"--bias{word}").bias is value
    assert read("--no-bias").bias is False
    assert read("--tied", "false", "--bias", "--lr", "1").tied is False


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("--n_layer=2.5", "--n-layer: '2.5' is not a whole number"),
        ("--max-steps=many", "--max-steps: 'many' is not a whole number"),
        ("--lr=fast", "--lr: 'fast' is not a number"),
        ("--lr=nan", "--lr: 'nan' is not a number, or not a finite one"),
        ("--minutes=inf", "--minutes"),
        ("--bias=perhaps", "--bias: 'perhaps' is not true or false"),
        ("--norm=batchnorm", "--norm"),
        ("--preset=huge", "--preset"),
        ("--task=subtract", "--task"),
        ("--tokenizer=word", "--tokenizer"),
        ("--lr", "expected one argument"),
    ],
)
def test_wrong_value_names_its_flag(capsys, word, named):
    assert named in refuse(capsys, "train", word)


def test_command_is_needed(capsys):
    assert "COMMAND" in refuse(capsys)
    assert "invalid choice: 'trian'" in refuse(capsys, "trian")


# --- files ---


def test_file_holds_flags(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        '\ufeffpreset = "classic"\nlr = 1\ndata = ["a b.txt", "c.txt"]\n[model]\nn_layer = 3\nbias = false\n'
        '[training]\nmax-steps = 7\nmin_lr = 1e-5\n',
        encoding="utf-8",
    )  # fmt: skip
    given = read("--config", str(path), "--n-layer=4", "--task", "sort")
    assert (given.preset, given.lr, given.data, given.bias) == ("classic", 1.0, ["a b.txt", "c.txt"], False)
    assert (given.max_steps, given.min_lr, given.task) == (7, 1e-5, "sort")
    assert given.n_layer == 4  # the command line wins
    assert given.preset in PRESETS


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("n_layers = 2", "unknown option --n-layers; did you mean --n-layer?"),
        ("max_iters = 2", "here it is --max-steps"),
        ("n_layer = 2.5", "'2.5' is not a whole number"),
        ("lr = inf", "--lr"),
        ("lr = true", "--lr"),
        ("lr = [1, 2]", "unexpected argument '2'"),
        ("resume = true", "'resume' cannot stand in a file; give --resume on the command line"),
        ("config = 'x.toml'", "'config' cannot stand in a file"),
        ("n_layer 2", "no valid TOML"),
        ("a.b.c = 1", "unknown option --b"),
    ],
)
def test_wrong_file_is_named(capsys, tmp_path, content, named):
    path = tmp_path / "run.toml"
    path.write_text(content, encoding="utf-8")
    message = refuse(capsys, "train", "--config", str(path))
    assert f"--config {path}: " in message
    assert named in message


def test_unreadable_file_is_named(capsys, tmp_path):
    assert "none.toml: cannot be read: " in refuse(capsys, "train", "--config", str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    assert "latin.toml: no valid TOML" in refuse(capsys, "train", "--config", str(tmp_path / "latin.toml"))
