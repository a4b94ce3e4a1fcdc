"""The first picture: what it shows, and that any name and any size of graph can be drawn."""

from __future__ import annotations

import html
import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, viz

graphviz = pytest.importorskip("graphviz", reason="the graphviz package (extra [viz]) is not installed")


def labels(picture):
    """The text of every box, as a reader sees it."""
    found = re.findall(r'^\t(\w+) \[label=(".*?[^\\]"|\S+)(?: |\])', picture.source, re.MULTILINE)
    return {name: label.strip('"').replace("\\n", "\n") for name, label in found}


def edges(picture):
    return re.findall(r"^\t(\w+) -> (\w+)(?: \[label=(\w+)\])?", picture.source, re.MULTILINE)


def test_data_shape_and_gradient_are_shown():
    x = Tensor(3.0, requires_grad=True, name="x")
    y = x * x + 1.0
    y.backward(retain_graph=True)
    shown = labels(viz.draw_dot(y))
    assert shown["value0"] == "x\ndata 3\nshape () float64\ngrad 6"
    assert "data 10" in shown["value2"]
    assert (shown["op0"], shown["op1"]) == ("multiply", "add")


def test_recomputed_function_before_and_after_backward():
    x = Tensor(np.ones(2), requires_grad=True, name="x")
    y = ad.recompute(lambda v: (F.exp(v) * v, v + 1))(x)[0].sum()
    before = labels(viz.draw_dot(y))
    assert "recompute" in "".join(before.values())
    y.backward()
    assert labels(viz.draw_dot(y)).keys() == before.keys()


def test_an_argument_used_twice_has_two_edges_with_their_names():
    x = Tensor(3.0, requires_grad=True)
    first, second = (x * x).node.op.signature.arguments
    assert edges(viz.draw_dot(x * x)) == [
        ("value0", "op0", first),
        ("value0", "op0", second),
        ("op0", "value1", ""),
    ]


def test_before_backward_there_is_no_gradient_yet():
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert labels(viz.draw_dot((x * 2.0).sum()))["value0"].endswith("no gradient yet")


def test_constants_have_no_gradient_line():
    x, c = Tensor(3.0, requires_grad=True), Tensor(2.0, name="c")
    picture = viz.draw_dot(x * c)
    (constant,) = [label for label in labels(picture).values() if "data 2" in label]
    assert "grad" not in constant
    assert labels(viz.draw_dot(c)) == {"value0": "c\ndata 2\nshape () float64"}


def test_numbers_are_drawn_where_a_rule_has_saved_them():
    picture = viz.draw_dot(Tensor(3.0, requires_grad=True) * 0.5)
    assert labels(picture)["constant0_1"].startswith("data 0.5\n")
    assert ("constant0_1", "op0", "x2") in edges(picture)


@pytest.mark.parametrize("root", [3, [Tensor(1.0)], np.ones(2)])
def test_only_a_tensor_is_drawn(root):
    with pytest.raises(TypeError, match="graph of one tensor, not of a"):
        viz.draw_dot(root)


def test_a_leaf_alone_is_one_box():
    picture = viz.draw_dot(Tensor(2.0, requires_grad=True))
    assert list(labels(picture)) == ["value0"]
    assert edges(picture) == []


def test_retained_gradients_and_scopes_are_shown():
    x = Tensor([1.0, 2.0], requires_grad=True)
    with ad.scope("mlp"):
        h = np.tanh(x)
    h.retain_grad()
    y = h.sum()
    y.backward()
    shown = labels(viz.draw_dot(y))
    assert shown["op0"] == "tanh\nmlp"
    assert "grad [1., 1.]" in shown["value1"]


def test_several_outputs():
    first, second = F.split(Tensor(np.arange(4.0), requires_grad=True), 2)
    shown = labels(viz.draw_dot((first * second).sum()))
    assert "2 outputs" in shown.values()
    assert list(shown.values()).count("pick") == 2


def test_large_arrays_are_shown_by_shape():
    x = Tensor(np.ones((1000, 1000)), requires_grad=True)
    label = labels(viz.draw_dot(x))["value0"]
    assert label == "shape (1000, 1000) float64\nno gradient yet"
    assert labels(viz.draw_dot(Tensor(np.ones((0, 3)))))["value0"] == "data []\nshape (0, 3) float64"


def test_drawing_twice_gives_the_same_text_and_changes_nothing():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = F.softmax(x * x).sum() + x.sum()
    assert viz.draw_dot(y).source == viz.draw_dot(y).source
    y.backward()
    np.testing.assert_allclose(x.grad, [1.0, 1.0], atol=1e-15)


def test_a_chain_of_ten_thousand_ops():
    y = Tensor(0.0, requires_grad=True)
    for _ in range(10_000):
        y = y + 1.0
    limit = sys.getrecursionlimit()
    assert len(edges(viz.draw_dot(y))) == 20_000
    assert sys.getrecursionlimit() == limit


def test_shared_parts_are_drawn_once():
    y = Tensor(1.0, requires_grad=True)
    for _ in range(40):
        y = y + y
    assert len([name for name in labels(viz.draw_dot(y)) if name.startswith("value")]) == 41


NAMES = [
    'a"b', "a\\", "C:\\new\\table", "<b>x</b>", "<lambda> <x>", "</script>", "{a|b}", "]]>", "node", "", "a\nb",
    "nul\0", "\u0665.\u0660", "\ud800", "\\N", "&amp;", "\uffff", "a\ufffe", "\x85\x9b", "\U0001ffff", "\udfff\x1b",
]  # fmt: skip


def shown_name(name):
    """What the picture promises to show: control characters as their pictures; replaced what UTF-8 or XML lacks."""
    pictured = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else "\u2421" if c == "\x7f" else c for c in name)
    return re.sub("[\ufffe\uffff]", "\ufffd", pictured).encode("utf-8", "replace").decode()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name):
    check_name(name)


@given(st.text(max_size=12))
def test_any_unicode_name_is_shown_as_it_is(name):
    check_name(name)


@pytest.mark.parametrize("name", [5, 1.5, True, b"w", ["w"], np.array("w"), Tensor(1.0), str])
def test_a_name_is_a_string_or_none(name):
    message = r"name=.* must be a string or None, not a "
    with pytest.raises(TypeError, match=message):
        Tensor(1.0, name=name)
    for x in (Tensor(1.0, name="x"), Tensor(1.0, requires_grad=True) * 2.0, Tensor(1.0).detach()):
        before = x.name
        with pytest.raises(TypeError, match=message):
            x.name = name
        assert x.name is before
        x.name = np.str_("y")
        viz.draw_dot(x)
        x.name = None


def check_name(name):
    source = viz.draw_dot(Tensor(2.0, name=name)).source
    source.encode("utf-8")
    (line,) = [line for line in source.split("\n") if line.startswith("\tvalue0")] or [source]
    label = re.search(r'label="((?:[^"\\]|\\.)*)"', line).group(1)
    as_drawn = re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], label).replace("&amp;", "&")
    assert as_drawn == f"{shown_name(name)}\ndata 2\nshape () float64"
    xml = ElementTree.fromstring(f"<text>{html.escape(as_drawn)}</text>")  # as Graphviz writes it into an SVG
    assert xml.text == as_drawn


def test_a_missing_package_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r"pip install 'autodiff-gpt\[viz\]'"):
        viz.draw_dot(Tensor(1.0))
