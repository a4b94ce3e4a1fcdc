"""The picture of the losses and the page about a run."""

import html.parser
import re
import sys
import xml.etree.ElementTree as ET

import pytest

from gpt.report import loss_picture, write_report
from gpt.run import Run

RECORDS = [
    {"step": 1, "loss": 4.0},
    {"step": 2, "loss": 3.0, "val_loss": 3.5},
    {"step": 3, "loss": 2.0},
    {"step": 4, "loss": 1.5, "val_loss": 2.25},
]
BASELINES = {"uniform": 4.25, "bigram": 2.3162}


class Page(html.parser.HTMLParser):
    """Collects what a page would fetch or run, and its tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.outside, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in {"script", "iframe", "link", "object", "img"} or any(name.startswith("on") for name in values):
            self.outside.append(tag)
        for name in ("src", "href", "xlink:href"):
            if name in values and not values[name].startswith("#"):
                self.outside.append(values[name])
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run <1>")
    for record in RECORDS:
        made.append(record)
    made.write_config({"config": {"n_layer": 1}, "settings": {"lr": 0.1}, "data": {"source": "a<b>.txt"}})
    return made


def write(run, sample="to be\x1b <script>alert(1)</script> & \ud800"):
    return write_report(run, {"validation loss": "2.25 < 2.32"}, BASELINES, sample)


def test_page_is_whole_and_fetches_nothing(run):
    assert write(run) is None
    text = (run.path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.outside == []
    assert not re.search(r"url\((?!#)", text)


def test_page_says_it_all_and_escapes_it(run):
    write(run)
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert "to be\\x1b &lt;script&gt;alert(1)&lt;/script&gt; &amp; \\ud800" in text
    for part in ("run &lt;1&gt;", "2.25 &lt; 2.32", "a&lt;b&gt;.txt", "n_layer", "<td>3.5000</td>", "<td>2.2500</td>"):
        assert part in text


def test_picture_is_valid_and_shows_the_losses(run):
    write(run)
    root = ET.parse(run.path / "loss.svg").getroot()
    assert root.tag.endswith("}svg")
    words = " ".join(text.strip() for text in root.itertext() if text.strip())
    for part in ("loss, nats per token", "step", "validation", "bigram 2.316", "uniform 4.250", "training"):
        assert part in words


def test_picture_depends_on_the_losses_only():
    assert loss_picture(RECORDS, BASELINES) == loss_picture(RECORDS, BASELINES)
    assert loss_picture(RECORDS, BASELINES) != loss_picture(RECORDS[:3], BASELINES)


def test_running_mean_of_a_constant_is_the_constant():
    from gpt.report import _smooth

    assert _smooth([3.0] * 5) == pytest.approx([3.0] * 5)
    assert _smooth([1.0, 3.0]) == pytest.approx([1.0, (0.95 * 0.05 * 1 + 0.05 * 3) / (1 - 0.95**2)])


def test_nothing_to_draw_yet(run):
    (run.path / "metrics.jsonl").unlink()
    assert write(run, sample="") is None
    assert "None." in (run.path / "report.html").read_text(encoding="utf-8")


def test_without_matplotlib_the_page_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    missing = write(run)
    assert "pip install 'autodiff-gpt[train]'" in missing
    assert not (run.path / "loss.svg").exists()
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert "needs matplotlib" in text
    assert Page(text).open == []
