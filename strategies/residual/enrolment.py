"""Enrolment: who takes part, who holds the outcome, and what they learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.limits import RANGES
from protocols.classes import check_classes
from protocols.residual.payloads import AgentPredictions, Enrol, Holdings, Order
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Check
from strategies.errors import FusionError
from strategies.residual.alignment import CENTER, Alignment, EntityKeys, match

MOST_ROWS = 10**9

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
        Sites without anything to contribute, or whose rows cannot be matched, with the reason.
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
        alignment = match(keys, holder)
        agents = tuple(site for site in agents if site in alignment.rows)
        return cls(dict(answers), agents, holder, alignment, {**excluded, **alignment.left_out}, of_outcome)

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
    check_classes(answer, answer.classes)
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
