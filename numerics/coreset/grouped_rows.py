"""Rows with groups, a site's data in fair clustering: read in blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

BLOCK_ROWS = 65_536
"""Default of the largest number of rows in a block."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Consecutive rows of a shard.

    Attributes
    ----------
    x : ndarray
        ``(b, d)`` finite coordinates.
    group : ndarray
        ``(b,)`` group of each row, the value of its sensitive attribute, as an index of `group_names`.
    group_names : tuple of str
        Names of the groups so far; the names of a later block begin with those of an earlier one.
    entity : ndarray or None
        ``(b,)`` names of the rows; None if rows have no names.

    Examples
    --------
    >>> block = RowBlock(np.array([[1.0], [2.0]]), np.array([0, 1]), ("Female", "Male"))
    >>> block.group_names[block.group[1]]
    'Male'
    """

    x: Float64[np.ndarray, "b d"]
    group: Int64[np.ndarray, "b"]
    group_names: tuple[str, ...]
    entity: Shaped[np.ndarray, "b"] | None = None


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows with groups of one shard.

    Attributes
    ----------
    features : tuple of str
        Names of the d columns.
    blocks : Callable
        ``blocks()`` reads all rows from the first to the last, block by block; every call yields the same blocks.
    quick : bool
        Whether that is as fast as reading numbers from a disk, so that a copy would not help.

    Examples
    --------
    >>> rows = GroupedRows.of(np.array([[1.0], [2.0]]), np.array([0, 1]), ("Female", "Male"))
    >>> [block.group.tolist() for block in rows.blocks()]
    [[0, 1]]
    """

    features: tuple[str, ...]
    blocks: Callable[[], Iterator[RowBlock]]
    quick: bool = False

    @classmethod
    def of(
        cls,
        x: Float64[np.ndarray, "n d"],
        group: Int64[np.ndarray, "n"],
        group_names: tuple[str, ...],
        features: tuple[str, ...] = (),
        entity: Shaped[np.ndarray, "n"] | None = None,
    ) -> GroupedRows:
        """Wrap rows that are in memory; by default, features are called ``x_0``, ``x_1``, ..."""

        def blocks() -> Iterator[RowBlock]:
            for start in range(0, len(x), BLOCK_ROWS):
                part = slice(start, start + BLOCK_ROWS)
                yield RowBlock(x[part], group[part], group_names, None if entity is None else entity[part])

        return cls(features or tuple(f"x_{j}" for j in range(x.shape[1])), blocks)
