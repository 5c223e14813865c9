"""Proposals of a protocol and settings for a folder of files: what a protocol's module ``fit`` returns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from clients.data.categories import Category, categories_of, categories_text
from clients.data.cells import number_of, numbers_of, text_of
from clients.data.inspection import misleading, person_column, suggested_categories
from clients.data.preparation import prepare
from clients.data.table import MOST_SHOWN, UNKNOWN, DataError, Table, quote
from common.grouping import list_names

Tables = Mapping[str, Table]
"""Tables by site, as they were read."""

_TARGETS = ("y", "target", "outcome", "label", "response", "result", "class", "diagnosis")
"""Names that people give an outcome."""
_MOST_NAMED = 3
"""Most columns of an error."""
_COMMON = 0.6
"""Share of the columns of each file that all files must have to count as tables of the same columns."""


@dataclass(frozen=True)
class Proposal:
    """A protocol's proposal for the files.

    Attributes
    ----------
    fit : float
        From 0 to 1: how well the protocol fits.
    why : str
        The reason, as text that follows "because".
    settings : Mapping[str, str]
        Settings of the run, beside protocol and data.
    left_out : Mapping[str, str]
        Reasons by unused column.
    """

    fit: float
    why: str
    settings: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)


def common_columns(tables: Tables) -> list[str]:
    """Return the columns that all files have, in the order of the first; empty if the files are too different.

    Examples
    --------
    >>> a, b = (Table(name, {"x": np.zeros(2), name: np.zeros(2)}) for name in "ab")
    >>> common_columns({"a": a, "b": b}), common_columns({"a": a, "c": a})
    ([], ['x', 'a'])
    """
    first = next(iter(tables.values()))
    common = [name for name in first.columns if all(name in table.columns for table in tables.values())]
    alike = all(len(common) >= _COMMON * len(table.columns) for table in tables.values())
    return common if alike else []


def target_of(tables: Tables, wanted: str, columns: Sequence[str]) -> str:
    """Return the outcome's column: the wanted one, else one with a usual name; empty if there is none.

    Raises
    ------
    DataError
        If no file has the wanted column.
    """
    if wanted:
        if not any(wanted in table.columns for table in tables.values()):
            next(iter(tables.values())).column(wanted)
        return wanted
    return next((name for usual in _TARGETS for name in columns if name.lower() == usual), "")


def identifier_of(tables: Tables) -> str:
    """Return the column that names the same entities in all files: each name once, half of them common to all."""
    first, *others = tables.values()
    for name in first.columns:
        if not all(name in table.columns for table in others):
            continue
        names = [text_of(table.columns[name]) for table in tables.values()]
        if any(len(set(each)) < len(each) for each in names):
            continue
        shared = set(names[0]).intersection(*map(set, names[1:]))
        whole = all(cells.dtype != np.float64 for cells in (table.columns[name] for table in tables.values()))
        if whole and len(shared) >= min(map(len, names)) / 2:
            return name
    return ""


def cleaning(tables: Tables, columns: Iterable[str], roles: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings that clean columns of all files, and reasons by column that is left out.

    Parameters
    ----------
    tables : Mapping[str, Table]
        The files.
    columns : iterable of str
        Columns that all files have.
    roles : Mapping[str, str]
        Settings that name columns with a role, such as ``target``.
    """
    columns = list(columns)
    parts = [Table(each.source, {name: each.columns[name] for name in columns}) for each in tables.values()]
    settings: dict[str, str] = {}
    if (group := person_column(parts)) and group not in roles.values():
        settings["group"] = group
        roles = {**roles, "group": group}
    if categories := suggested_categories(parts, roles):
        settings["categories"] = categories
    if any(has_gaps(part, roles) for part in parts):
        settings["missing"] = "impute"
    left_out = _misleading_columns(parts, roles, settings)
    done = [prepare(part, {**roles, **settings}, whole=False).table for part in parts]
    taken = set(roles.values())
    values = [part.columns for part in done]
    for name in done[0].columns:
        if name in taken or name in left_out:
            continue
        if not all(name in each and each[name].dtype.kind in "iuf" for each in values):
            left_out[name] = describe_text(tables, name)
        elif all(_is_constant(each[name]) for each in values):
            left_out[name] = "is constant"
        elif any(np.isnan(each[name].astype(float)).all() for each in values):
            left_out[name] = "is empty at a site"
    left_out |= absent_columns(tables, columns)
    if left_out:
        used = [name for name in done[0].columns if name not in left_out and name not in taken]
        settings["features"] = " ".join(_patterns(used, categories_of(settings)))
    return settings, left_out


def describe_text(tables: Tables, name: str) -> str:
    """Return the reason why a column is no input, with the first cell that is no number if most are numbers."""
    for table in tables.values():
        cells = table.columns[name].tolist() if name in table.columns else []
        texts = {
            row: cell for row, cell in enumerate(cells) if isinstance(cell, str) and cell.strip().lower() not in UNKNOWN
        }
        odd = [row for row, cell in texts.items() if number_of(cell) is None and number_of(cell, commas=True) is None]
        if 0 < len(odd) < len(texts) / 2:
            return f"holds text: {texts[odd[0]][:MOST_SHOWN]!r} at {table.source}, {table.where(odd[0])}"
    return "holds text"


def absent_columns(tables: Tables, common: Sequence[str]) -> dict[str, str]:
    """Return reasons by column that some file lacks, with the column there that differs from it only in case or blanks.

    Examples
    --------
    >>> a, b = (Table(name, {"x": np.zeros(2), column: np.zeros(2)}) for name, column in (("a", "age"), ("b", "Age")))
    >>> absent_columns({"a": a, "b": b}, ["x"])["age"]
    "is not at b, which has 'Age': write them alike"
    """
    reasons = {}
    for name in dict.fromkeys(name for table in tables.values() for name in table.columns if name not in common):
        without = [site for site, table in tables.items() if name not in table.columns]
        near = {each for site in without for each in tables[site].columns if _is_alike(each, name)}
        which = f", which has {quote(sorted(near))}: write them alike" if near else ""
        reasons[name] = f"is not at {list_names(without)}{which}"
    return reasons


def _is_alike(name: str, other: str) -> bool:
    return name.strip().casefold() == other.strip().casefold()


def _misleading_columns(parts: Sequence[Table], roles: Mapping[str, str], settings: dict[str, str]) -> dict[str, str]:
    """Return reasons by column that a model should not learn from; such categories are taken out of the settings."""
    read = {key: value for key, value in settings.items() if key != "categories"}
    numbers = [prepare(part, {**roles, **read}, whole=False).table for part in parts]
    left_out = {name: why for part in numbers for name, why in misleading(part, {**roles, **settings}).items()}
    others = []
    for category in categories_of(settings):
        telling = [value for value in category.values if f"{category.column}={value}" in left_out]
        if not telling:
            others.append(category)
            continue
        left_out[category.column] = f"tells the target: {quote(telling)} is nearly the same"
        for value in telling:
            del left_out[f"{category.column}={value}"]
    if "categories" in settings:
        settings["categories"] = categories_text(others)
        if not others:
            del settings["categories"]
    return left_out


def _patterns(names: Sequence[str], categories: Sequence[Category]) -> list[str]:
    """Return columns as the key ``features`` names them: those of a category, and blanks and commas, by a glob."""
    of_category = {f"{each.column}={value}": f"{each.column}=*" for each in categories for value in each.values}
    return [re.sub(r"[,\s\[\]]", "?", name) for name in dict.fromkeys(of_category.get(name, name) for name in names)]


def has_gaps(table: Table, roles: Mapping[str, str]) -> bool:
    """Whether some number is missing, or written with units, signs or words."""
    for name, cells in table.columns.items():
        if name in (roles.get("id"), roles.get("sensitive"), roles.get("group")):
            continue
        if cells.dtype.kind == "f" and np.isnan(cells).any():
            return True
        if cells.dtype == object and numbers_of(cells) is not None:
            return True
        if name == roles.get("target") and cells.dtype == object and any(cell is None for cell in cells):
            return True
    return False


def _is_constant(cells: np.ndarray) -> bool:
    known = cells.astype(float)[~np.isnan(cells.astype(float))]
    return len(known) > 0 and float(np.ptp(known)) == 0


def check_proposals(proposals: Mapping[str, Proposal], tables: Tables, target: str = "") -> None:
    """Refuse files that fit no protocol; `target`: the outcome that the user named.

    Raises
    ------
    DataError
        If there is no proposal.
    """
    if proposals:
        return
    if len(tables) == 1:
        [name] = tables
        raise DataError(f"{name} is the only file, and a file is a site: put the others' beside it", "bad-shape")
    if without := [name for name, table in tables.items() if target and target not in table.columns]:
        raise DataError(
            f"these files fit no protocol: there is no outcome {target!r} at {list_names(without)}",
            "missing-column",
        )
    common = [
        name for name in next(iter(tables.values())).columns if all(name in each.columns for each in tables.values())
    ]
    alike = [f"{name!r} {why}" for name, why in absent_columns(tables, common).items() if "write them alike" in why]
    if alike:
        raise DataError(f"these files fit no protocol: {'; '.join(alike[:_MOST_NAMED])}", "missing-column")
    columns = quote(dict.fromkeys(name for table in tables.values() for name in table.columns))
    raise DataError(
        f"these files fit no protocol as they are; name the outcome with --target, one of {columns}",
        "missing-column",
    )
