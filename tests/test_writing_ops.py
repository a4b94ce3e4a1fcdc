"""The op author's guide: its files are written, its commands run, and what they print is what the page shows."""

import re
from pathlib import Path

from autodiff.__main__ import main
from autodiff.testing.vjp import CHECKS

PAGE = Path(__file__).parents[1] / "docs" / "writing-ops.md"
TEXT = PAGE.read_text(encoding="utf-8")

BLOCK = re.compile(
    r"^<!-- in (?P<changed>\S+): \"(?P<old>.+?)\" becomes \"(?P<new>.+?)\" -->$"
    r"|^```python\n# (?P<file>\w+\.py)\n(?P<code>.*?)^```$"
    r"|^```text\n\$ python -m autodiff (?P<command>.+?)\n(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def steady(text):
    """Blank out what differs from one run or machine to the next: times, errors of rounding, and folders."""
    varies = r"\d+\.?\d*e-\d+|\b\d+(\.\d+)? m?s\b|\S*[/\\](?=\w+\.py)"
    lines = [re.sub(varies, "", line) for line in text.splitlines()]
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_commands_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = 0
    for step in BLOCK.finditer(TEXT):
        if step["file"]:
            Path(step["file"]).write_text(step["code"], encoding="utf-8")
        elif step["changed"]:
            code = Path(step["changed"]).read_text(encoding="utf-8")
            assert step["old"] in code
            kept, file = code, Path(step["changed"])
            file.write_text(code.replace(step["old"], step["new"]), encoding="utf-8")
        else:
            status = main(step["command"].split())
            assert steady(capsys.readouterr().out) == steady(step["output"])
            assert status == (1 if "VJPError" in step["output"] else 0)
            commands += 1
            if "VJPError" in step["output"]:
                file.write_text(kept, encoding="utf-8")  # the mistake was for show
    assert commands >= 4


def test_every_verdict_is_explained():
    explained = re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)))
    assert {kind for kind, _ in CHECKS} | {"raises", "kink", "pointwise", "vacuous", "inconclusive"} == set(explained)
