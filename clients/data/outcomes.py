"""Outcomes in the fusion center's own files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.data.cells import text_of
from clients.data.column_selection import cell_name, numeric
from clients.data.entities import entity_names
from clients.data.persons import persons_of
from clients.data.preparation import complete_rows
from clients.data.table import DataError, Table, quote, setting
from clients.data.target import Target, class_names, read_target
from clients.data.testset import center_source, center_table
from numerics.shared.classes import places_of
from protocols.classes import ClassListError, agree_on_classes


class CenterOutcomes(NamedTuple):
    """Outcomes by entity.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` finite outcomes, or places of `classes`; NaN for an unknown outcome to predict.
    entity : ndarray or None
        ``(n,)`` names of the entities as text, each once; None: entities are matched by row.
    n_test : int
        Number of test rows, which come last and are not learned from.
    entity_kind : str
        Content of the column of names, ``number`` or ``text``; empty without one.
    person : ndarray or None
        ``(n,)`` person of each entity, if ``group`` names their column.
    classes : tuple of str
        Names of the classes, in order; empty for amounts.
    """

    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None
    n_test: int
    entity_kind: str
    person: Int64[np.ndarray, "n"] | None = None
    classes: tuple[str, ...] = ()


def center_outcomes(
    config: Mapping[str, object], *, by_row: bool, tasks: Collection[str] = ("regression",), known: Sequence[str] = ()
) -> CenterOutcomes | None:
    """Return the outcomes in the center's own files; None if it has no file.

    Parameters
    ----------
    config : Mapping
        Run configuration. ``labels`` is a CSV, Parquet or NPZ file, ``test`` one of test rows. In a simulation on own
        data, their defaults are the files ``_labels`` and ``_test`` in the folder ``data``. ``target`` and ``id`` name
        the columns of outcomes and of entities' names (without ``id`` entities are matched by row). With ``from``,
        nothing is learned: outcomes may be empty, and the column may be missing.
    by_row : bool
        Whether entities are matched by row even if ``id`` names a column.
    tasks : collection of str
        Kinds of target of the protocol, as in `clients.data.target.read_target`.
    known : sequence of str
        Classes of the earlier run, for outcomes of rows to predict.

    Raises
    ------
    DataError
        If a file cannot be read, or lacks the column `target` or `id`; if an outcome is empty or not a number; if an
        entity has no name, has the name of another, or is in both files; or if there are only test rows.
    """
    predicting = bool(setting(config, "from"))
    labels, held_out = center_source(config, "labels"), center_source(config, "test")
    if not labels and held_out and not predicting:
        raise DataError(
            f"{held_out}: gives outcomes to test on, but the fusion center has none to learn from; set labels to the "
            "file that holds them, or put it beside the other file as _labels",
            "bad-configuration",
        )
    sources = [source for source in (labels, held_out) if source]
    parts = [_read(source, config, tasks, known, predicting=predicting, by_row=by_row) for source in sources]
    if not parts:
        return None
    classes = tuple(known)
    if not predicting:
        try:
            classes = agree_on_classes({part.table.source: part.classes for part in parts}, setting(config, "target"))
        except ClassListError as error:
            raise DataError(str(error), "bad-shape") from error
    if len(parts) == 2:
        _check_apart(*parts)
    return CenterOutcomes(
        y=np.concatenate([part.in_list(classes) for part in parts]),
        entity=None if parts[0].entity is None else np.concatenate([part.entity for part in parts]),
        n_test=len(parts[-1].y) if held_out else 0,
        entity_kind=parts[0].kind,
        person=None if predicting else _persons(parts, config),
        classes=classes,
    )


@dataclass(frozen=True)
class _Part:
    """One file's rows."""

    table: Table
    id: str
    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None
    kind: str
    classes: tuple[str, ...]

    def in_list(self, classes: Sequence[str]) -> Float64[np.ndarray, "n"]:
        """Return the outcomes as places in this longer list of classes."""
        if not self.classes:
            return self.y
        known = np.isfinite(self.y)
        y = self.y.copy()
        y[known] = places_of(self.classes, classes)[y[known].astype(np.int64)]
        return y

    def cell(self, row: int) -> str:
        return cell_name(self.table, self.id, row)


def _read(
    source: str,
    config: Mapping[str, object],
    tasks: Collection[str],
    known: Sequence[str],
    *,
    predicting: bool,
    by_row: bool,
) -> _Part:
    table = center_table(source, config)
    if not predicting and not by_row:  # rows that are matched by their numbers cannot be left out
        table = complete_rows(table, config, inputs=False)
    target, id_column = setting(config, "target"), setting(config, "id")
    if predicting:
        outcome = _to_predict(table, target, known)
    elif target:
        outcome = read_target(table, config, tasks)
    else:
        raise DataError(
            f"configuration: target is not set; name the outcome's column of {table.source}, one of "
            f"{quote(table.columns)}",
            "bad-configuration",
        )
    entity, kind = entity_names(table, id_column) if id_column and not by_row else (None, "")
    return _Part(table, id_column, outcome.y, entity, kind, outcome.classes)


def _to_predict(table: Table, target: str, known: Sequence[str]) -> Target:
    """Return the outcomes of rows to predict, NaN if unknown."""
    if not target or target not in table.columns:
        return Target(np.full(table.n, np.nan), ())
    if not known:
        return Target(numeric(table, target, allow_missing=True), ())
    cells = table.column(target)
    empty = np.array([cell is None or cell != cell or str(cell).strip() == "" for cell in cells.tolist()], bool)
    places = {label: place for place, label in enumerate(known)}
    y = np.full(table.n, np.nan)
    rows = np.flatnonzero(~empty)
    for row, label in zip(rows.tolist(), class_names(table, target, rows), strict=True):
        if label not in places:
            raise DataError(
                f"{cell_name(table, target, row)}: the run that has learned had no class {label!r}; it had"
                f" {quote(known)}",
                "label-out-of-range",
            )
        y[row] = places[label]
    return Target(y, tuple(known))


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
    """Refuse two files with a common entity, or with names of different kinds."""
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
