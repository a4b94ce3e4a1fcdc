"""Helpers for tests of the checker."""

from __future__ import annotations

import pytest

from autodiff.op import Op
from autodiff.testing import VJPError


def elementwise(forward, **declared):
    def made_with(rule):
        made = Op(forward, elementwise=True, **declared)
        made.vjp("x")(rule)
        return made

    return made_with


def caught(call, *args, **settings):
    with pytest.raises(VJPError) as info:
        call(*args, **settings)
    return info.value
