"""Enrolment: who takes part, who holds the outcome, and which rows are the same entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.columns_and_outcomes import Outcomes
from numerics.residual.limits import RANGES
from numerics.shared.alignment import AlignmentError, align
from protocols.classes import check_classes
from protocols.residual.payloads import AgentPredictions, Enrol, Holdings, Order
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Check
from strategies.errors import FusionError

CENTER = ""
"""Name of the fusion center among the names of sites, none of which is empty."""

MOST_ROWS = 10**9

Keys = UInt64[np.ndarray, "rows 2"]


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

    @property
    def n_lost(self) -> int:
        """Number of entities that are not common to all."""
        return self.n_distinct - self.n


def match(sites: Mapping[str, EntityKeys], first: str) -> Alignment:
    """Find the rows of all sites that are the same entity.

    Parameters
    ----------
    sites : Mapping[str, EntityKeys]
        By name; `CENTER` for the fusion center.
    first : str
        The site whose rows give the order. The order of the keys would differ from run to run.

    Raises
    ------
    FusionError
        If some sites name their rows and others do not, rows without names differ in number, names were hashed with
        different secrets, a site has two rows of the same name, or nothing is common to all.

    Examples
    --------
    >>> def keys(*numbers):
    ...     return EntityKeys(len(numbers), np.array([(n, n) for n in numbers], np.uint64), b"", "number")
    >>> alignment = match({"bank": keys(7, 8, 9), "shop": keys(9, 7, 5)}, first="bank")
    >>> alignment.rows["bank"], alignment.rows["shop"], alignment.lost
    (array([0, 2]), array([1, 0]), {'bank': 1, 'shop': 1})
    """
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
    alignment = Alignment(rows, common.n_distinct, common.lost, kinds, named=True)
    if not alignment.n:
        sizes = "; ".join(f"{_spoken(site)} {keys.n} rows" for site, keys in sites.items())
        hint = (
            "names are numbers at some and text at others: write them alike everywhere"
            if kinds
            else "is it the same id column, and the same align-key-file, everywhere?"
        )
        raise FusionError(f"no entity is common to all ({sizes}): {hint}")
    return alignment


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


# -- who takes part ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enrolment:
    """The sites of a run.

    Attributes
    ----------
    answers : dict[str, Holdings]
        Answer of each site, in order of name.
    agents : tuple of str
        Sites with columns to learn from.
    holder : str
        The site that holds the outcome, or `CENTER`.
    alignment : Alignment
        Their common entities.
    excluded : dict[str, str]
        Sites without anything to contribute, and the reason.
    classes : tuple of str
        Names of the outcome's classes; empty for amounts.
    """

    answers: dict[str, Holdings]
    agents: tuple[str, ...]
    holder: str
    alignment: Alignment
    excluded: dict[str, str]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, answers: Mapping[str, Holdings], center: EntityKeys | None, classes: tuple[str, ...] = ()) -> Enrolment:
        """Enrol the sites that answered.

        Parameters
        ----------
        answers : Mapping[str, Holdings]
            By site.
        center : EntityKeys or None
            Keys of the fusion center's outcomes; None if it has no outcomes.
        classes : tuple of str
            Names of the classes of these outcomes.

        Raises
        ------
        FusionError
            If nobody holds the outcome, if several sites and not the center hold it, if no site has a column, or if the
            entities cannot be matched.
        """
        holders = [site for site, answer in answers.items() if answer.outcome]
        if center is None and not holders:
            raise FusionError(
                "nobody holds the outcome: set labels to the fusion center's file of it, or target at one site"
            )
        if center is None and len(holders) > 1:
            raise FusionError(
                f"{len(holders)} sites hold the outcome ({', '.join(holders)}): one may; take target away at the others"
            )
        holder = CENTER if center is not None else holders[0]
        agents = tuple(site for site, answer in answers.items() if answer.n_columns)
        idle = [site for site, answer in answers.items() if not answer.n_columns and site != holder]
        excluded = dict.fromkeys(idle, "has no column to learn from")
        if not agents:
            raise FusionError("no site has a column to learn from")
        keys = {site: EntityKeys.of(answer) for site, answer in answers.items() if site not in excluded}
        if center is not None:
            keys = {CENTER: center, **keys}
        of_outcome = classes if holder == CENTER else answers[holder].classes
        return cls(dict(answers), agents, holder, match(keys, holder), excluded, of_outcome)

    @property
    def sites(self) -> tuple[str, ...]:
        """Sites that take part: the agents, and the site that holds the outcome."""
        return tuple(site for site in self.answers if site in self.alignment.rows)

    def orders(self, order: Int64[np.ndarray, "n"], *, sealed: bool, **fields: object) -> dict[str, Payload]:
        """Return the payload with the common rows for each site.

        Parameters
        ----------
        order : ndarray
            ``(n,)`` the common entities in the order of the run.
        sealed : bool
            Whether sites encrypt for each other, and need each other's public keys.
        **fields
            Other fields of `Order`.
        """
        names = self.sites if sealed else ()
        keys = tuple(self.answers[name].public_key for name in names)
        return {
            site: Order(
                self.alignment.rows[site][order],
                holder=self.holder,
                names=names,
                public_keys=keys,
                **fields,  # type: ignore[arg-type]
            )
            for site in self.sites
        }


# -- checks of answers ------------------------------------------------------------------------------------------------


def check_enrolled(ask: Enrol, site: str, answer: Holdings) -> None:
    """Refuse an answer whose fields do not fit together.

    Raises
    ------
    PayloadError
        If they do not.
    """

    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    if not 0 < answer.n <= MOST_ROWS:
        refuse("n", f"expected a number of rows from 1 to {MOST_ROWS}")
    if not 0 <= answer.n_columns <= MOST_ROWS:
        refuse("n_columns", "is no number of columns")
    if len(answer.agent) > 200 or not answer.agent.isprintable():
        refuse("agent", "is longer than 200 characters, or has an unprintable character")
    _check_keys(answer, answer.n)
    check_classes(answer, "classes", answer.classes)
    if len(answer.classes) == 1 or (answer.classes and not answer.outcome):
        refuse("classes", "is a single class, or there is no outcome")
    if len(answer.split) not in ((0, answer.n) if answer.outcome else (0,)) or answer.split.max(initial=0) > 2:
        refuse("split", f"expected nothing, or of the site with the outcome {answer.n} numbers from 0 to 2")
    if len(answer.public_key) != (32 if ask.seal else 0):
        refuse("public_key", f"expected {32 if ask.seal else 0} bytes, got {len(answer.public_key)}")


def check_predicted(limits: Sequence[float] | Float64[np.ndarray, "2"], combination: AgentCombination) -> Check:
    """Return a check that refuses predictions beyond these limits, and fields that do not fit together.

    Parameters
    ----------
    limits : sequence of float
        Least and greatest prediction of an agent; empty: unknown.
    combination : AgentCombination
        What the predictions are for.
    """

    def check(site: str, answer: AgentPredictions) -> None:
        # A site that is no agent of that run is not used.
        _check_part(answer, combination.width(site) if site in combination.names else answer.part.shape[1])
        if site in combination.names and not combination.fits(site, answer.part, len(answer.part)):
            raise PayloadError(
                answer.title(), "part", "is not of the kind that the run learned from, or beyond the bins"
            )
        if (
            len(limits)
            and answer.part.dtype != np.uint8
            and (answer.part.min(initial=0.0) < limits[0] or answer.part.max(initial=0.0) > limits[1])
        ):
            problem = f"goes beyond {RANGES:g} ranges of the outcome that the run learned from, in each of its steps"
            raise PayloadError(answer.title(), "part", problem)

    return check


def _check_part(answer: AgentPredictions, width: int) -> None:
    if not 0 < len(answer.part) <= MOST_ROWS:
        raise PayloadError(answer.title(), "part", f"expected 1 to {MOST_ROWS} numbers, got {len(answer.part)}")
    if answer.part.shape[1] != width:
        raise PayloadError(answer.title(), "part", f"expected {width} columns, got {answer.part.shape[1]}")
    _check_keys(answer, len(answer.part))


def _check_keys(answer: Holdings | AgentPredictions, n: int) -> None:
    if answer.kind not in ("", "number", "text"):
        raise PayloadError(answer.title(), "kind", "is neither number, text nor empty")
    expected = n if answer.kind else 0
    if len(answer.keys) != expected:
        raise PayloadError(answer.title(), "keys", f"expected {expected} keys, got {len(answer.keys)}")
    if len(answer.check) not in (0, 16):
        raise PayloadError(answer.title(), "check", f"expected 0 or 16 bytes, got {len(answer.check)}")
