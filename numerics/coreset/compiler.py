"""The compiler of loops over rows: `njit` of numba, or one sentence where that is not installed.

What needs it is imported where it is used: importing it takes a third of a second.
"""

from __future__ import annotations

from common.extras import require

require("numba", "fair clustering")

from numba import njit  # noqa: E402

__all__ = ["njit"]
