"""The outcomes that a fusion center holds, from its own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data.entities import entity_names
from clients.data.persons import persons_of
from clients.data.preparation import text_of
from clients.data.table import DataError, Table, cell_name, numeric, quote, setting
from clients.data.testset import center_source, center_table


class CenterOutcomes(NamedTuple):
    """Outcomes by entity.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` finite outcomes; NaN where an outcome is to be predicted and is not known.
    entity : ndarray or None
        ``(n,)`` names of the entities as text, each once; None: entities go by their row.
    n_test : int
        Number of test rows, which are the last; nothing is learned from them.
    entity_kind : str
        ``number`` or ``text``: what the column of names holds; empty without one.
    person : ndarray or None
        ``(n,)`` persons that the entities belong to, if ``group`` names their column.
    """

    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None
    n_test: int
    entity_kind: str
    person: Int64[np.ndarray, "n"] | None = None


def center_outcomes(config: Mapping[str, object], *, by_row: bool) -> CenterOutcomes | None:
    """Return the outcomes in the center's own files; None where it has no file.

    Parameters
    ----------
    config : Mapping
        Run configuration. ``labels`` is a CSV, Parquet or NPZ file, ``test`` one of test rows. In a simulation on own
        data, the files ``_labels`` and ``_test`` in the folder ``data`` take their place if they are not set.
        ``target`` and ``id`` name the columns of outcomes and of entities' names (without ``id`` entities go by
        their row). ``from``: nothing is learned, so outcomes may be empty, and the column may be missing, since
        `target` is that of the run which has learned.

    by_row : bool
        Whether entities go by their row even where ``id`` names a column.

    Raises
    ------
    DataError
        If a file cannot be read, or lacks the column `target` or `id`; if an outcome is empty or not a number; if an
        entity has no name, has the name of another, or is in both files; or if there are test rows only.
    """
    predicting = bool(setting(config, "from"))
    labels, held_out = center_source(config, "labels"), center_source(config, "test")
    if not labels and held_out and not predicting:
        raise DataError(
            f"{held_out}: gives outcomes to test on, but the fusion center has none to learn from; set labels to the "
            "file that holds them, or put it beside the other file as _labels",
            "bad-configuration",
        )
    parts = [_read(source, config, predicting=predicting, by_row=by_row) for source in (labels, held_out) if source]
    if not parts:
        return None
    if len(parts) == 2:
        _check_apart(*parts)
    return CenterOutcomes(
        y=np.concatenate([part.y for part in parts]),
        entity=None if parts[0].entity is None else np.concatenate([part.entity for part in parts]),
        n_test=len(parts[-1].y) if held_out else 0,
        entity_kind=parts[0].kind,
        person=None if predicting else _persons(parts, config),
    )


@dataclass(frozen=True)
class _Part:
    """One file's rows."""

    table: Table
    id: str
    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None
    kind: str

    def cell(self, row: int) -> str:
        return cell_name(self.table, self.id, row)


def _read(source: str, config: Mapping[str, object], *, predicting: bool, by_row: bool) -> _Part:
    table = center_table(source, config)
    target, id_column = setting(config, "target"), setting(config, "id")
    if target and (not predicting or target in table.columns):
        y = numeric(table, target, allow_missing=predicting)
    elif predicting:
        y = np.full(table.n, np.nan)
    else:
        raise DataError(
            f"configuration: target is not set; name the outcome's column of {table.source}, one of "
            f"{quote(table.columns)}",
            "bad-configuration",
        )
    if not id_column or by_row:
        return _Part(table, id_column, y, None, "")
    return _Part(table, id_column, y, *entity_names(table, id_column))


def _persons(parts: Sequence[_Part], config: Mapping[str, object]) -> Int64[np.ndarray, "n"] | None:
    """Return the persons of all rows; refuse one that is in both files."""
    name = setting(config, "group")
    if not name:
        return None
    if len(parts) == 2:
        known, tested = (set(text_of(part.table.column(name))) for part in parts)
        if both := sorted(known & tested - {""}):
            raise DataError(
                f"{parts[1].table.source}, column {name!r}: {both[0][:20]!r} is in {parts[0].table.source}, too; a"
                " person is learned from or tested on, so leave their rows out of one file",
                "duplicate-entity",
            )
    columns = [part.table.column(name).astype(object) for part in parts]
    return persons_of(Table(parts[0].table.source, {name: np.concatenate(columns)}, parts[0].table.first_line), config)


def _check_apart(learned: _Part, tested: _Part) -> None:
    """Refuse two files that have an entity in common, or names of different kinds."""
    if learned.entity is None or tested.entity is None:
        return
    if learned.kind != tested.kind:
        raise DataError(
            f"{tested.table.source}, column {tested.id!r}: holds names of the kind {tested.kind}, but that of "
            f"{learned.table.source} holds {learned.kind}; store them alike",
            "bad-shape",
        )
    for row in np.flatnonzero(np.isin(tested.entity, learned.entity))[:1]:
        name = str(tested.entity[row])
        earlier = learned.table.where(int(np.flatnonzero(learned.entity == name)[0]))
        raise DataError(
            f"{tested.cell(int(row))}: {name[:20]!r} is in {learned.table.source}, {earlier}, too; an entity is "
            "learned from or tested on, so leave it out of one file",
            "duplicate-entity",
        )
