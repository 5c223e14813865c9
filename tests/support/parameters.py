"""Which values of a parametrized test are tried by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def few(values: Sequence[Any], number: int = 1) -> list[Any]:
    """Return values for ``pytest.mark.parametrize``, of which all but the first `number` are marked slow."""
    slow = [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.slow) for each in values]
    return [*values[:number], *slow[number:]]
