"""Alignment: the rows of several parties that are the same entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int64, UInt64

from numerics.residual.columns_and_outcomes import Outcomes
from numerics.shared.alignment import AlignmentError, align
from protocols.residual.payloads import AgentPredictions, Holdings
from strategies.errors import FusionError

CENTER = ""
"""Name of the fusion center among the names of sites, none of which is empty."""

Keys = UInt64[np.ndarray, "rows 2"]

_FEWEST_SHARED = 0.01
"""Part of the entities that most sites share; a site that shares fewer has another population, or other names."""


@dataclass(frozen=True)
class EntityKeys:
    """Keyed hashes by which a site, or the fusion center, names its rows.

    Attributes
    ----------
    n : int
        Number of rows.
    keys : ndarray
        ``(n, 2)`` keyed hashes; no rows without names.
    check : bytes
        Hash of the secret in them.
    kind : str
        ``number`` or ``text``: content of the column of names; empty if there is none.
    """

    n: int
    keys: Keys
    check: bytes
    kind: str

    @classmethod
    def of(cls, answer: Holdings | AgentPredictions) -> EntityKeys:
        """Return the keys in a site's answer."""
        n = answer.n if isinstance(answer, Holdings) else len(answer.part)
        return cls(n, answer.keys, answer.check.tobytes(), answer.kind)

    @classmethod
    def of_center(cls, outcomes: Outcomes, hashes: tuple[Keys, bytes] | None) -> EntityKeys:
        """Return the keys of the center's rows; `hashes`: their keyed hashes and the secret's, if rows have names."""
        keys, check = hashes or (np.zeros((0, 2), np.uint64), b"")
        return cls(len(outcomes.y), keys, check, outcomes.entity_kind if hashes else "")


@dataclass(frozen=True)
class Alignment:
    """The entities common to all, and their rows. The fusion center's rows are under `CENTER`.

    Attributes
    ----------
    rows : dict[str, ndarray]
        By site, ``(n,)`` places of the n common entities among its rows, in one order.
    n_distinct : int
        Number of entities that any site knows.
    lost : dict[str, int]
        By site, its number of rows that are not common to all.
    kinds : dict[str, str]
        By site, the kind of its names; empty if all are of one kind.
    named : bool
        Whether entities are matched by name, not by row number.
    left_out : dict[str, str]
        Sites whose rows cannot be matched with the others', with the reason.
    gains : dict[str, int]
        By site, the number of entities that would be common without it, beyond those that are.
    """

    rows: dict[str, Int64[np.ndarray, "n"]]
    n_distinct: int
    lost: dict[str, int]
    kinds: dict[str, str]
    named: bool
    left_out: dict[str, str] = field(default_factory=dict)
    gains: dict[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of common entities."""
        return len(next(iter(self.rows.values())))

    @property
    def n_lost(self) -> int:
        """Number of entities that are not common to all."""
        return self.n_distinct - self.n


def match(sites: Mapping[str, EntityKeys], first: str) -> Alignment:
    """Find the rows of all sites that are the same entity.

    A site whose rows cannot be matched with those of `first` is left out, unless no other site remains: neither its
    mistake nor its lie ends the run of the others.

    Parameters
    ----------
    sites : Mapping[str, EntityKeys]
        By name; `CENTER` for the fusion center.
    first : str
        The site whose rows give the order. The order of the keys would differ from run to run.

    Raises
    ------
    FusionError
        If no site is left beside `first`: some sites name their rows and others do not, rows without names differ in
        number, names were hashed with different secrets, a site has two rows of the same name, or nothing is common.

    Examples
    --------
    >>> def keys(*numbers):
    ...     return EntityKeys(len(numbers), np.array([(n, n) for n in numbers], np.uint64), b"", "number")
    >>> alignment = match({"bank": keys(7, 8, 9), "shop": keys(9, 7, 5)}, first="bank")
    >>> alignment.rows["bank"], alignment.rows["shop"], alignment.lost
    (array([0, 2]), array([1, 0]), {'bank': 1, 'shop': 1})
    >>> match({"bank": keys(7, 8, 9), "shop": keys(9, 7, 5), "town": keys(1, 1)}, first="bank").left_out
    {'town': 'left out: two of its rows are the same entity'}
    """
    try:
        alignment = _match_all(sites, first)
    except FusionError:
        if not (left_out := _misfits(sites, first)):
            raise
    else:
        if alignment.n >= _FEWEST_SHARED * sites[first].n or not (left_out := _misfits(sites, first)):
            return alignment
    fitting = {site: keys for site, keys in sites.items() if site not in left_out}
    return replace(_match_all(fitting, first), left_out=left_out)


def match_most(sites: Mapping[str, EntityKeys]) -> Alignment:
    """As `match`, in the order of the first site that fits more than half of all and shares many entities with them.

    If each such site shares few, the one that shares most gives the order.

    Raises
    ------
    FusionError
        If no site fits more than half of all.
    """
    candidates = []
    problem = FusionError(f"no entity is common to most of {_listed(set(sites))}: is it the same id column everywhere?")
    for first in sites:
        try:
            alignment = match(sites, first)
        except FusionError as error:
            problem = error
            continue
        if 2 * len(alignment.rows) > len(sites):
            if alignment.n >= _FEWEST_SHARED * sites[first].n:
                return alignment
            candidates.append(alignment)
    if not candidates:
        raise problem
    return max(candidates, key=lambda alignment: alignment.n)


def _match_all(sites: Mapping[str, EntityKeys], first: str) -> Alignment:
    named = {site for site, keys in sites.items() if keys.kind}
    if named and len(named) < len(sites):
        raise FusionError(
            f"entities go by name at {_listed(named)} and by row at {_listed(set(sites) - named)}: set id at all of"
            " them, or residual.align=row-order"
        )
    if not named:
        return _match_by_row(sites)
    _check_secrets(sites)
    try:
        common = align({site: keys.keys for site, keys in sites.items()})
    except AlignmentError as error:
        raise FusionError(f"the entities cannot be matched: {error}") from error
    kinds = {site: keys.kind for site, keys in sites.items()}
    if len(set(kinds.values())) == 1:
        kinds = {}
    order = np.argsort(common.rows[first])
    rows = {site: rows[order] for site, rows in common.rows.items()}
    alignment = Alignment(rows, common.n_distinct, common.lost, kinds, named=True, gains=common.gains)
    if not alignment.n:
        sizes = "; ".join(f"{_spoken(site)} {keys.n} rows" for site, keys in sites.items())
        hint = (
            "names are numbers at some and text at others: write them alike everywhere"
            if kinds
            else "is it the same id column, and the same align-key-file, everywhere?"
        )
        raise FusionError(f"no entity is common to all ({sizes}): {hint}")
    return alignment


def _misfits(sites: Mapping[str, EntityKeys], first: str) -> dict[str, str]:
    """Return the sites that do not fit the first one, with the reason; none if no other site fits it."""
    reasons = {site: why for site, keys in sites.items() if (why := _misfit(keys, sites[first], first))}
    if first in reasons:
        return {}
    if sites[first].kind:
        reasons |= _strangers({site: keys for site, keys in sites.items() if site not in reasons}, first)
    return reasons if len(reasons) < len(sites) - 1 else {}


def _misfit(keys: EntityKeys, own: EntityKeys, first: str) -> str:
    """Return why a site's rows cannot be matched with the first site's own; empty if they can."""
    if bool(keys.kind) != bool(own.kind):
        ways = ("name", "row") if keys.kind else ("row", "name")
        return f"left out: its entities go by {ways[0]}, and those of {_spoken(first)} by {ways[1]}: set id at both"
    if not keys.kind:
        if keys.n == own.n:
            return ""
        return f"left out: it has {keys.n} rows, and {_spoken(first)} {own.n}: set id to the column that names them"
    if keys.check != own.check:
        return f"left out: its align-key-file is not that of {_spoken(first)}"
    try:
        align({"": keys.keys})
    except AlignmentError:
        return "left out: two of its rows are the same entity"
    return ""


def _strangers(sites: Mapping[str, EntityKeys], first: str) -> dict[str, str]:
    """Return the sites that share no entity with the first one, or hardly any beside what most sites share with it."""
    others = [site for site in sites if site != first]
    shared = {
        site: len(align({"first": sites[first].keys, "other": sites[site].keys}).rows["other"]) for site in others
    }
    least = _FEWEST_SHARED * float(np.median(list(shared.values()))) if shared else 0.0
    return {
        site: f"left out: {_spoken(first)} knows {n} of its {sites[site].n} entities: is it the same id column?"
        for site, n in shared.items()
        if not n or n < least
    }


def _match_by_row(sites: Mapping[str, EntityKeys]) -> Alignment:
    sizes = {site: keys.n for site, keys in sites.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{_spoken(site)} {n}" for site, n in sizes.items())
        raise FusionError(
            f"entities go by row, and the numbers of rows differ ({listed}): set id to the column that names them"
        )
    n = next(iter(sizes.values()))
    return Alignment(dict.fromkeys(sites, np.arange(n)), n, dict.fromkeys(sites, 0), {}, named=False)


def _check_secrets(sites: Mapping[str, EntityKeys]) -> None:
    by_secret: dict[bytes, set[str]] = {}
    for site, keys in sites.items():
        by_secret.setdefault(keys.check, set()).add(site)
    if len(by_secret) > 1:
        groups = "; ".join(
            f"{_listed(members)}{'' if check else ' (none)'}" for check, members in sorted(by_secret.items())
        )
        raise FusionError(f"align-key-file is not the same everywhere: {groups}")


def _spoken(site: str) -> str:
    return site or "the fusion center"


def _listed(sites: set[str]) -> str:
    return ", ".join(_spoken(site) for site in sorted(sites))
