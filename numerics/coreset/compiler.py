"""Compiler of loops over rows: `njit` of numba. If numba is not installed, one sentence says how to install it.

Functions import compiled modules where they use them, because importing numba takes a third of a second.
"""

from __future__ import annotations

from common.extras import require

require("numba", "fair clustering")

from numba import njit  # noqa: E402

__all__ = ["njit"]
