"""Who takes part, who holds the outcome, and which rows are the same entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, UInt64

from numerics.residual.columns_and_outcomes import Outcomes
from numerics.shared.alignment import AlignmentError, align
from protocols.residual.payloads import Enrol, Enrolled, Order, Predicted
from protocols.wire.payload import Payload, PayloadError
from strategies.errors import FusionError

CENTER = ""
"""Stands for the fusion center among the parties: no site has an empty name."""

MOST_ROWS = 10**9

Keys = UInt64[np.ndarray, "rows 2"]


@dataclass(frozen=True)
class Names:
    """What a party says of the names of its rows.

    Attributes
    ----------
    n : int
        Rows.
    keys : ndarray
        ``(n, 2)`` keyed hashes; no rows where it has no names.
    check : bytes
        Of the secret that went into them.
    kind : str
        ``number``, ``text``, or empty: no names.
    """

    n: int
    keys: Keys
    check: bytes
    kind: str


@dataclass(frozen=True)
class Matched:
    """The common entities.

    Attributes
    ----------
    rows : dict[str, ndarray]
        By party, places of the n common entities among its rows, in one order.
    n_distinct : int
        Entities that anybody has.
    lost : dict[str, int]
        By party, rows of entities that somebody else lacks.
    kinds : dict[str, str]
        By party, the kind of its names, where there are two kinds.
    named : bool
        Whether entities go by name, and not by row.
    """

    rows: dict[str, Int64[np.ndarray, "n"]]
    n_distinct: int
    lost: dict[str, int]
    kinds: dict[str, str]
    named: bool

    @property
    def n(self) -> int:
        """Number of common entities."""
        return len(next(iter(self.rows.values())))


def match(parties: Mapping[str, Names], first: str) -> Matched:
    """Which rows of the parties are the same entity.

    Parameters
    ----------
    parties : Mapping[str, Names]
        By name; `CENTER` for the fusion center.
    first : str
        The party whose rows give the order. That of the keys would be another in every run.

    Raises
    ------
    FusionError
        If some go by name and others by row, rows without names differ in number, names were hashed with different
        secrets, a party names two rows alike, or nothing is common to all.
    """
    named = {party for party, names in parties.items() if names.kind}
    if named and len(named) < len(parties):
        raise FusionError(
            f"entities go by name at {_listed(named)} and by row at {_listed(set(parties) - named)}: set id at all of"
            " them, or residual.align=row-order"
        )
    if not named:
        return _by_row(parties)
    _check_secrets(parties)
    try:
        alignment = align({party: names.keys for party, names in parties.items()})
    except AlignmentError as error:
        raise FusionError(f"the entities cannot be matched: {error}") from error
    kinds = {party: names.kind for party, names in parties.items()}
    if len(set(kinds.values())) == 1:
        kinds = {}
    order = np.argsort(alignment.rows[first])
    rows = {party: rows[order] for party, rows in alignment.rows.items()}
    matched = Matched(rows, alignment.n_distinct, alignment.lost, kinds, named=True)
    if not matched.n:
        told = "; ".join(f"{_spoken(party)} {names.n} rows" for party, names in parties.items())
        hint = (
            "names are numbers at some and text at others: write them alike everywhere"
            if kinds
            else "is it the same id column, and the same align-key-file, everywhere?"
        )
        raise FusionError(f"no entity is common to all parties ({told}): {hint}")
    return matched


def _by_row(parties: Mapping[str, Names]) -> Matched:
    sizes = {party: names.n for party, names in parties.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{_spoken(party)} {n}" for party, n in sizes.items())
        raise FusionError(
            f"entities go by row, and the parties have different numbers of them ({told}): set id to the column that"
            " names them"
        )
    n = next(iter(sizes.values()))
    return Matched(dict.fromkeys(parties, np.arange(n)), n, dict.fromkeys(parties, 0), {}, named=False)


def _check_secrets(parties: Mapping[str, Names]) -> None:
    by_secret: dict[bytes, list[str]] = {}
    for party, names in parties.items():
        by_secret.setdefault(names.check, []).append(party)
    if len(by_secret) > 1:
        groups = "; ".join(
            f"{_listed(set(members))}{'' if check else ' (none)'}" for check, members in sorted(by_secret.items())
        )
        raise FusionError(f"the parties do not have the same align-key-file: {groups}")


def _spoken(party: str) -> str:
    return party or "the fusion center"


def _listed(parties: set[str]) -> str:
    return ", ".join(_spoken(party) for party in sorted(parties))


# -- who takes part ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roll:
    """The parties of a run.

    Attributes
    ----------
    shown : dict[str, Enrolled]
        What each site showed, by name, in order.
    agents : tuple of str
        The sites that have columns to learn from.
    holder : str
        Who holds the outcome; `CENTER`: the fusion center.
    matched : Matched
        Their common entities.
    excluded : dict[str, str]
        Sites that have nothing to contribute, and why.
    """

    shown: dict[str, Enrolled]
    agents: tuple[str, ...]
    holder: str
    matched: Matched
    excluded: dict[str, str]

    @classmethod
    def of(cls, answers: Mapping[str, Enrolled], center: Names | None) -> Roll:
        """Those who answered.

        Parameters
        ----------
        answers : Mapping[str, Enrolled]
            By site.
        center : Names or None
            Of the outcomes that the fusion center holds; None: it holds none.

        Raises
        ------
        FusionError
            If nobody holds the outcome, or several sites and not the center; if no site has a column, or their entities
            cannot be matched.
        """
        holders = [site for site, each in answers.items() if each.outcome]
        if center is None and not holders:
            raise FusionError(
                "nobody holds the outcome: set labels to the fusion center's file of it, or target at one site"
            )
        if center is None and len(holders) > 1:
            raise FusionError(
                f"{len(holders)} sites hold the outcome ({', '.join(holders)}): one may; take target away at the others"
            )
        holder = CENTER if center is not None else holders[0]
        agents = tuple(site for site, each in answers.items() if each.n_columns)
        idle = [site for site, each in answers.items() if not each.n_columns and site != holder]
        excluded = dict.fromkeys(idle, "has no column to learn from")
        if not agents:
            raise FusionError("no site has a column to learn from")
        parties = {site: names_of(each) for site, each in answers.items() if site not in excluded}
        if center is not None:
            parties = {CENTER: center, **parties}
        return cls(dict(answers), agents, holder, match(parties, holder), excluded)

    @property
    def present(self) -> tuple[str, ...]:
        """The sites that are told the order: the agents, and the site that holds the outcome."""
        return tuple(site for site in self.shown if site in self.matched.rows)

    def orders(self, order: Int64[np.ndarray, "n"], *, sealed: bool, **about: object) -> dict[str, Payload]:
        """What tells every site which rows are meant.

        Parameters
        ----------
        order : ndarray
            ``(n,)`` the common entities in the order of the run.
        sealed : bool
            Whether sites seal for each other: they are told the others' public keys.
        **about
            Other fields of `Order`.
        """
        names = self.present if sealed else ()
        keys = tuple(self.shown[name].public_key for name in names)
        return {
            site: Order(
                self.matched.rows[site][order],
                holder=self.holder,
                names=names,
                public_keys=keys,
                **about,  # type: ignore[arg-type]
            )
            for site in self.present
        }


def names_of(shown: Enrolled | Predicted) -> Names:
    """What a site said of the names of its rows."""
    n = shown.n if isinstance(shown, Enrolled) else len(shown.part)
    return Names(n, shown.keys, shown.check.tobytes(), shown.kind)


def center_names(outcomes: Outcomes, hashed: tuple[Keys, bytes] | None) -> Names:
    """The names of the center's own rows; `hashed`: their keyed hashes and the secret's check, if they have names."""
    keys, check = hashed or (np.zeros((0, 2), np.uint64), b"")
    return Names(len(outcomes.y), keys, check, outcomes.entity_kind if hashed else "")


# -- checks -----------------------------------------------------------------------------------------------------------


def check_enrolled(ask: Enrol, site: str, answer: Enrolled) -> None:
    """Refuse an answer that does not fit together."""

    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    if not 0 < answer.n <= MOST_ROWS:
        refuse("n", f"expected a number of rows from 1 to {MOST_ROWS}")
    if not 0 <= answer.n_columns <= MOST_ROWS:
        refuse("n_columns", "is no number of columns")
    if len(answer.agent) > 200 or not answer.agent.isprintable():
        refuse("agent", "is longer than 200 characters, or holds others than printable ones")
    _check_names(answer, answer.n)
    if len(answer.public_key) != (32 if ask.seal else 0):
        refuse("public_key", f"expected {32 if ask.seal else 0} bytes, got {len(answer.public_key)}")


def check_predicted(site: str, answer: Predicted) -> None:
    """As `check_enrolled`, of predictions."""
    if not 0 < len(answer.part) <= MOST_ROWS:
        raise PayloadError(answer.title(), "part", f"expected 1 to {MOST_ROWS} numbers, got {len(answer.part)}")
    _check_names(answer, len(answer.part))


def _check_names(answer: Enrolled | Predicted, n: int) -> None:
    if answer.kind not in ("", "number", "text"):
        raise PayloadError(answer.title(), "kind", "is neither number, text nor empty")
    expected = n if answer.kind else 0
    if len(answer.keys) != expected:
        raise PayloadError(answer.title(), "keys", f"expected {expected} keys, got {len(answer.keys)}")
    if len(answer.check) not in (0, 16):
        raise PayloadError(answer.title(), "check", f"expected 0 or 16 bytes, got {len(answer.check)}")
