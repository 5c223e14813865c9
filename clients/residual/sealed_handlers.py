"""Handlers of sealed asks, and of asks to the site that holds the outcome.

The center relays bytes that it cannot read. Every site makes a key pair for the run. A sealed payload is bound to run,
lane, round, sender and receiver: it can be delivered neither to another site nor twice. The secret that sites share
(``align-key-file``) enters the keys, so that a center gains nothing by distributing keys of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.dispatch import answers
from clients.memory import CONCLUDED
from clients.residual.agent import Agent, agreed_rows, forget
from clients.residual.answers import ANSWERS
from clients.residual.model_store import load_file, save_file
from clients.residual.plan_state import freeze, thaw
from clients.residual.prediction import predictions, present_rows
from clients.residual.sealing import Seals
from clients.site import Site
from common.csv_text import csv_text
from common.files import encode_text
from numerics.residual.agent_combination import AgentCombination, ClassScores
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import FEWEST_ROWS, LARGEST_OUTCOME, Rules
from numerics.residual.split import Split
from numerics.shared.classification import prediction_columns
from protocols.residual.payloads import (
    EntityBins,
    FittedValues,
    Fuse,
    FusionStep,
    KeepEnsemble,
    Lead,
    Part,
    PredictionCount,
    PredictionsAlone,
    Present,
    Receipt,
    SealedAnswer,
    SealedAsk,
    Sum,
    TrialFit,
    rounded,
)
from protocols.residual.plan import Plan
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.packing import pack, unpack
from protocols.wire.payload import Payload, PayloadError

logger = logging.getLogger("flwr")

SPLIT, PRECISION = "split", "precision"
"""Names in the memory: split of a ring's rows, precision of the holder's plan. A run has one of the two."""

_PLAN, _OWN = "plan/", "own-answer"
_ANSWERS: tuple[type[Payload], ...] = (EntityBins, FittedValues, TrialFit, PredictionsAlone, Receipt)

# -- sealed asks -------------------------------------------------------------------------------------------------------


@answers(SealedAsk)
def open_and_answer(ask: SealedAsk, site: Site) -> SealedAnswer:
    """Answer a sealed ask of another site; only that site can read the answer."""
    seals = Seals.of(site)
    inner = seals.open(ask.body, ask.sender, *ANSWERS)
    site.policy.admit_ask(type(inner))
    site.charge(inner)
    agent = Agent.of(site)
    if ask.sender != agent.holder:
        raise SiteFault(Fault.MALFORMED_ASK, f"{ask.sender} asks, and {agent.holder or 'no site'} holds the outcome")
    plain = ANSWERS[type(inner)](inner, agent)
    answer = SealedAnswer(seals.close(plain, ask.sender))
    if isinstance(plain, Receipt):
        forget(site, with_model=plain.stored)
    return answer


def check_kinds(split: Split, site: Site) -> None:
    """Refuse a split with few rows of a kind: their mean square would reveal single rows."""
    least = site.rows_that_hold(FEWEST_ROWS)
    if any(0 < n < least for n in (split.n_fit, split.n_validation, split.n_test)):
        raise SiteFault(Fault.TOO_FEW_ROWS, f"{split}: a mean over fewer than {least} rows would tell of single ones")


def keeps_course(site: Site, name: str) -> bool:
    """Return whether the run may have this course, ``ring`` or ``holder``; a run keeps its course to the end."""
    return site.commitments.keeps(f"course {site.lane}", name)


# -- arithmetic of the fusion center at the site that holds the outcome -----------------------------------------------


@answers(Lead)
def lead(ask: Lead, site: Site) -> FusionStep:
    """Begin a plan, and return its first asks."""
    if PRECISION in site.memory or SPLIT in site.memory:
        raise SiteFault(Fault.MALFORMED_ASK, "this run is under way: errors of another plan would tell of single rows")
    y = outcome_of(site)
    if not 2 <= ask.n_learn <= len(y) or len(set(ask.agents)) < len(ask.agents):
        raise SiteFault(Fault.MALFORMED_ASK, f"{ask.n_learn} of {len(y)} rows to learn from")
    try:
        rules = Rules.from_json(ask.rules)
        columns: Columns = site.shard
        if rules.n_classes != len(columns.classes):
            raise ValueError(f"the outcome has {len(columns.classes)} classes")
        plan = Plan(ask.agents, y, ask.n_learn, rules)
    except ValueError as error:
        raise SiteFault(Fault.MALFORMED_ASK, f"rules {ask.rules!r}: {error}") from error
    check_kinds(plan.split, site)
    keeps = site.commitments.keeps
    if not (keeps_course(site, "holder") and keeps(f"plan {site.lane}", ask.n_learn, ask.rules, ask.precision)):
        raise SiteFault(Fault.MALFORMED_ASK, "this run goes by another plan: errors of two would tell of single rows")
    site.memory[PRECISION] = np.array(ask.precision == "float32")
    return _go_on(plan, site)


@answers(Fuse)
def fuse(ask: Fuse, site: Site) -> FusionStep:
    """Take the agents' answers, and return the next asks of the plan."""
    stored = {name.removeprefix(_PLAN): site.memory[name] for name in site.memory if name.startswith(_PLAN)}
    if not stored:
        raise SiteFault(Fault.STALE_MEMORY, "the plan of the run is not in the memory")
    if len(ask.agents) != len(ask.bodies):
        raise SiteFault(Fault.MALFORMED_ASK, "there is not one answer for each agent")
    plan, seals = thaw(stored), Seals.of(site)
    asks, usable, refused = plan.asks(), {}, []
    for name, body in zip(ask.agents, ask.bodies, strict=True):
        if name not in asks:
            raise SiteFault(Fault.MALFORMED_ASK, f"{name} answers, and was not asked")
        try:
            answer = seals.open(body, name, *_ANSWERS)
            plan.check(name, asks[name], answer)
            usable[name] = answer
        except (SiteFault, PayloadError) as error:  # one agent's bad answer must not end the run
            logger.warning("site %s: the answer of %s is refused: %s", site.name, name, error)
            refused.append(name)
    if _OWN in site.memory:
        usable[site.name] = unpack(site.memory[_OWN].tobytes(), *_ANSWERS)
        del site.memory[_OWN]
    plan.take(dict(sorted(usable.items())))
    return _go_on(plan, site, tuple(refused))


def _go_on(plan: Plan, site: Site, refused: tuple[str, ...] = ()) -> FusionStep:
    """Continue until another site has to answer; this site's own agent answers at once."""
    dtype = np.dtype(np.float32 if site.memory[PRECISION] else np.float64)
    asks = plan.asks()
    while set(asks) == {site.name}:
        plan.take({site.name: _answer_oneself(asks[site.name], site, dtype)})
        asks = plan.asks()
    if site.name in asks:
        own = _answer_oneself(asks[site.name], site, dtype)
        asks = {name: ask for name, ask in asks.items() if name != site.name}
        site.memory[_OWN] = np.frombuffer(pack(own), np.uint8)
    for name in [name for name in site.memory if name.startswith(_PLAN)]:
        del site.memory[name]
    if asks:
        site.memory.update({f"{_PLAN}{name}": array for name, array in freeze(plan).items()})
        return _fused(plan, asks, site, dtype, refused)
    fused = _fused(plan, asks, site, dtype, refused)
    _keep_ensemble(plan, site)
    forget(site, with_model=site.directory is not None)
    return fused


def _answer_oneself(ask: Payload, site: Site, dtype: np.dtype[Any]) -> Payload:
    """Answer as an agent, with numbers in the precision of the wire."""
    return ANSWERS[type(ask)](rounded(ask, dtype), Agent.of(site))


def _fused(
    plan: Plan, asks: Mapping[str, Payload], site: Site, dtype: np.dtype[Any], refused: tuple[str, ...]
) -> FusionStep:
    seals = Seals.of(site)
    bodies = {name: seals.close(rounded(ask, dtype), name) for name, ask in asks.items()}
    train, validation, test = np.nan_to_num(plan.newest).tolist()
    last = bool(asks) and plan.result is not None
    step = FusionStep(tuple(bodies), tuple(bodies.values()), refused, train, validation, test, last)
    return step if asks else replace(step, **_results(plan))


def _results(plan: Plan) -> dict[str, Any]:
    """Return the fields of a `FusionStep` that a run has at its end."""
    result = plan.result
    assert result is not None  # noqa: S101 - asked once the plan is carried out
    names = ("beta", "iteration", "seen", "left_out", "own_site", "own_share", "scores", "threshold")
    content: dict[str, Any] = {name: getattr(result, name) for name in names}
    content |= {"power": result.p, "parts": result.power, "curve": np.nan_to_num(result.curve)}
    if result.alone is not None:
        content |= {"alone": result.alone.names, "alone_errors": result.alone.values}
    return {**content, "without_receipt": plan.without_receipt}


def outcome_of(site: Site) -> Float64[np.ndarray, "n"]:
    """Return the outcomes of the common rows, in their order."""
    rows, agent = agreed_rows(site), Agent.of(site)  # raises a fault if the rows have changed
    columns: Columns = site.shard
    if columns.y is None:
        raise SiteFault(Fault.NO_OUTCOME)
    if agent.holder != site.name:
        raise SiteFault(Fault.MALFORMED_ASK, f"{agent.holder or 'the center'} is said to hold the outcome")
    y: Float64[np.ndarray, "n"] = columns.y[rows]
    if np.abs(y).max(initial=0.0) > LARGEST_OUTCOME:
        raise SiteFault(Fault.NOT_FINITE, f"outcomes of more than {LARGEST_OUTCOME:g}: give them in another unit")
    return y


# -- predictions that only the holder of the outcome sees -------------------------------------------------------------


def _keep_ensemble(plan: Plan, site: Site) -> None:
    """Store what later predictions need: the agents' coefficients and the mean outcome."""
    result = plan.result
    assert result is not None  # noqa: S101 - asked once the plan is carried out
    if plan.rules.keep:
        columns: Columns = site.shard
        _write_ensemble(site, result.combination, columns.classes)


@answers(KeepEnsemble)
def keep_ensemble(ask: KeepEnsemble, site: Site) -> Receipt:
    """Store agents and mean outcome of a ring, where all coefficients are 1; asked again, give the same answer."""
    if CONCLUDED in site.memory:
        return Receipt(bool(site.memory[CONCLUDED]))
    y = outcome_of(site)
    mean = float(y[: ask.n_learn].mean()) if ask.intercept else 0.0
    _write_ensemble(site, AgentCombination(ask.agents, np.ones(len(ask.agents)), mean))
    columns: Columns = site.shard
    if not columns.x.shape[1]:  # else the site is an agent, and its `Conclude` follows
        forget(site, with_model=site.directory is not None)
    return Receipt(site.directory is not None)


def _write_ensemble(site: Site, combination: AgentCombination, classes: Sequence[str] = ()) -> None:
    about = {**vars(combination), "names": list(combination.names), "beta": combination.beta.tolist()}
    about |= {"widths": list(combination.widths), "levels": list(combination.levels), "labels": list(classes)}
    scores = combination.classes
    about["classes"] = [list(scores.start), list(scores.places), scores.n_rows] if scores else []
    save_file(site, f"{site.session}-ensemble", about)


def _ensemble_in(about: Mapping[str, Any]) -> AgentCombination:
    """Return a combination as `_write_ensemble` has stored it."""
    classes = None
    if about["classes"]:
        start, places, n_rows = about["classes"]
        classes = ClassScores(tuple(start), tuple(places), n_rows)
    known = {each.name: about[each.name] for each in fields(AgentCombination)}
    known |= {name: tuple(about[name]) for name in ("names", "widths", "levels")}
    return AgentCombination(**{**known, "beta": np.array(about["beta"], float), "classes": classes})


@answers(Present)
def present(ask: Present, site: Site) -> SealedAnswer:
    """Predict the common rows by this agent's stored model, sealed for the holder of the outcome."""
    rows, seals = agreed_rows(site), Seals.of(site)
    part = predictions(site, ask.run, reader=ask.receiver)[1]
    answer = SealedAnswer(seals.close(Part(_select_rows(part, rows)), ask.receiver))
    forget(site)
    return answer


@answers(Sum)
def sum_up(ask: Sum, site: Site) -> PredictionCount:
    """Write the predictions of the common rows to this site's own ``predictions.csv``."""
    about = load_file(site, f"{ask.run}-ensemble")
    combination = _ensemble_in(about)
    rows, seals = agreed_rows(site), Seals.of(site)
    parts = {}
    for name, body in zip(ask.agents, ask.bodies, strict=True):
        part = seals.open(body, name, Part)
        known = name in combination.names
        if not isinstance(part, Part) or not known or not combination.fits(name, part.part, len(rows)):
            raise SiteFault(Fault.MALFORMED_ASK, f"the part of {name} does not fit")
        parts[name] = part.part
    if site.name in combination.names and combination.uses(site.name):
        parts[site.name] = _select_rows(predictions(site, ask.run, reader=site.name)[1], rows)
    predicted = prediction_columns(combination.predict(parts, len(rows)), about["labels"])
    _write_predictions(site, present_rows(site), rows, predicted)
    forget(site)
    return PredictionCount(len(rows), combination.missing(parts))


def _select_rows(values: Shaped[np.ndarray, "n c"], rows: Int64[np.ndarray, "m"]) -> Shaped[np.ndarray, "m c"]:
    if rows.max(initial=-1) >= len(values):
        raise SiteFault(Fault.DATA_CHANGED, f"there are {len(values)} rows now")
    selected: Shaped[np.ndarray, "m c"] = values[rows]
    return selected


def _write_predictions(site: Site, columns: Columns, rows: np.ndarray, predicted: Mapping[str, np.ndarray]) -> None:
    text = csv_text({"entity": rows if columns.entity is None else columns.entity[rows], **predicted})
    site.write("predictions.csv", partial(Path.write_bytes, data=encode_text(text)))
