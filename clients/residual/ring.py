"""An agent's turn in the ring, between two other sites (section VI-B); the center relays sealed residuals."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from clients.dispatch import answers
from clients.residual.agent import Agent
from clients.residual.sealed_handlers import PRECISION, SPLIT, check_kinds, keeps_course, outcome_of
from clients.residual.sealing import Seals
from clients.site import Site
from numerics.residual.sequential import project
from numerics.residual.split import Split
from protocols.residual.payloads import NextResidual, Pass, Residual
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.packing import unpack
from protocols.wire.payload import PayloadError

_CAME, _LEFT = "came", "left"
_NUMBER, _SUM, _BEFORE = "own-number", "own-sum", "own-sum-before"


@answers(Pass)
def pass_on(ask: Pass, site: Site) -> NextResidual:
    """Fit the residual, and pass on what is left of it."""
    seals, agent = Seals.of(site), Agent.of(site)
    split = Split(ask.n_fit, ask.n_validation, len(agent.x) - ask.n_fit - ask.n_validation)
    _check_split(ask, site, split)
    residual = site.memory[_CAME] = _received(ask, agent, seals, split)
    step_power = sum_power = 0.0
    if ask.steps:
        step = agent.step(residual[: split.n_fit, None], ask.add, ask.steps, ask.number, keep=ask.keep)[:, 0]
        residual, own_sum, step_power, sum_power = project(residual, _earlier_sum(ask, site, split.n_fit), step)
        site.memory[_NUMBER], site.memory[_SUM] = np.array(ask.number), own_sum
    site.memory[_LEFT] = residual
    train, validation, test = np.nan_to_num(split.errors(residual)).tolist()
    return NextResidual(seals.close(Residual(residual), ask.receiver), train, validation, test, step_power, sum_power)


def _check_split(ask: Pass, site: Site, split: Split) -> None:
    """Allow one split in a run, with and without its validation rows: errors of others would tell of single rows."""
    if min(split.n_fit - 1, split.n_validation, split.n_test) < 0:
        raise SiteFault(Fault.MALFORMED_ASK, "the kinds of rows do not add up to the rows agreed on")
    check_kinds(split, site)
    if PRECISION in site.memory:
        raise SiteFault(Fault.MALFORMED_ASK, "this run goes by the site's own plan: others' errors would tell of rows")
    of_ask = np.array([split.n_fit + split.n_validation, split.n_validation, ask.intercept])
    of_run = site.memory.get(SPLIT, of_ask)
    if not np.array_equal(of_ask, of_run) and not np.array_equal(of_ask, of_run * [1, 0, 1]):
        raise SiteFault(Fault.MALFORMED_ASK, "the rows of this run are split otherwise")
    learn = split.n_fit + split.n_validation
    same = keeps_course(site, "ring") and site.commitments.keeps(f"split {site.lane}", learn, ask.intercept)
    if split.n_validation:
        same = site.commitments.keeps(f"validation {site.lane}", split.n_validation) and same
    if not same:
        raise SiteFault(Fault.MALFORMED_ASK, "the rows of this run are split otherwise")
    site.memory[SPLIT] = of_run


def _earlier_sum(ask: Pass, site: Site, n_fit: int) -> Float64[np.ndarray, "n"]:
    """Return the agent's sum of the steps that count, without the last one if its answer was lost."""
    earlier = np.zeros(n_fit)
    if ask.accepted >= 0:
        earlier = site.memory.get(_SUM if _counts(ask, site) else _BEFORE, earlier)
    if len(earlier) != n_fit:
        raise SiteFault(Fault.MALFORMED_ASK, "the agent has no such step of these rows")
    site.memory[_BEFORE] = earlier
    return earlier


def _counts(ask: Pass, site: Site) -> bool:
    """Return whether the answer with the site's last step has arrived."""
    return _NUMBER in site.memory and int(site.memory[_NUMBER]) == ask.accepted


def _received(ask: Pass, agent: Agent, seals: Seals, split: Split) -> Float64[np.ndarray, "n"]:
    """Return the residual that this site is to fit."""
    site = agent.site
    if ask.sender == site.name and not len(ask.body):
        if _LEFT not in site.memory:
            raise SiteFault(Fault.STALE_MEMORY, "the residual that was passed on last is not in the memory")
        return site.memory[_LEFT if _counts(ask, site) else _CAME]
    if not ask.sender and not len(ask.body):
        y = outcome_of(site)
        return y - y[: split.n_fit].mean() if ask.intercept else y
    if not ask.sender:
        if agent.holder:
            raise SiteFault(Fault.SEALED_ONLY, f"{agent.holder} holds the outcome, and this residual is not sealed")
        try:
            payload = unpack(ask.body.tobytes(), Residual)
        except PayloadError as error:
            raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    else:
        payload = seals.open(ask.body, ask.sender, Residual)
    if not isinstance(payload, Residual) or len(payload.residual) != split.n:
        raise SiteFault(Fault.MALFORMED_ASK, "the residual has another number of rows than were agreed on")
    return payload.residual
