"""The report of a run as data: the content of ``report.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]
"""A run's arrays by documented name."""
Row = Mapping[str, Any]
"""A row of a result table."""

SCHEMA = 1


class ResultsError(ValueError):
    """Error: results cannot be written, found or read. The message says what to do."""


@dataclass(kw_only=True)
class Report:
    """Result and cost of one run.

    Attributes
    ----------
    schema : int
        Version of this layout.
    scenario, protocol : str
        Names of scenario and protocol.
    seed : int
        Seed of the run.
    sites : list of str
        Names of the sites in alphabetical order.
    rounds : int
        Number of rounds.
    seconds : float
        Wall time of the run.
    metrics : dict
        Finite numbers by name; the standard error of ``x`` is named ``x_se``.
    published : dict
        Figures of the paper, by metric.
    table : list of dict
        Rows of the result table; may be empty.
    ledger : dict
        Summary of the ledger (`server.report.summary.ledger_summary`).
    versions : dict
        Version by package.
    missing : dict
        By site, its failures in order.
    lost : list of str
        Sites that did not answer their last ask.
    notes : list of str
        Warnings to read before using the result.
    config : dict
        Run configuration that was used.
    command : str
        Flower's command that repeats the run.
    convergence : list of dict
        One row a round: ``round``, the strategy's own measures, bytes and seconds.
    session : str
        Name under which the sites keep their memory of the run: its id, or the id of the run it resumed.
    overview : dict
        The run in words: ``question``, ``data``, ``holdings`` (who holds what), ``disclosure`` (what left the sites)
        and ``earlier`` (the run it goes on from); what does not apply is absent.
    differences : dict
        By rival metric: ``difference``, ``relative`` and their standard errors
        (`server.report.headline.differences`); empty with one repetition, unless test rows are pairs.
    shorthand : str
        The same command for ``consilience``; empty if real sites took part.
    influence : dict
        The result without each site (`server.report.influence.as_data`): ``measure``, ``with_all``, ``without`` by
        site, ``most``, the site whose absence changes the measure most, and ``change``; or ``unknown``, the reason why
        it is unknown. Empty if the protocol does not define it.
    verdict : dict
        The verdict (`server.report.verdict.Verdict`): ``decision``, ``words``, ``reason``, the compared ``ways``, and
        ``warnings``.
    figures : list of dict
        ``name``, ``caption`` and ``alt`` of every figure, and ``shades`` if light and dark have a meaning; its image is
        ``figures/NAME.png``.

    Examples
    --------
    >>> report = Report(scenario="s", protocol="p", seed=0, sites=["a"], rounds=1, seconds=0.5, metrics={"x": 1.0})
    >>> Report.from_json(report.to_json()) == report
    True
    """

    schema: int = SCHEMA
    scenario: str
    protocol: str
    seed: int
    sites: list[str]
    rounds: int
    seconds: float
    metrics: dict[str, float]
    published: dict[str, float] = field(default_factory=dict)
    table: list[dict[str, Any]] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    convergence: list[dict[str, Any]] = field(default_factory=list)
    session: str = ""
    overview: dict[str, str] = field(default_factory=dict)
    differences: dict[str, dict[str, float]] = field(default_factory=dict)
    shorthand: str = ""
    influence: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the report as JSON text; equal reports give equal text, and every float is read back exactly.

        A value that is not finite is written as null in `table`, `convergence` and `config`, where null means "no
        value" (the change of a bound in the first round, say).

        Raises
        ------
        ResultsError
            If a metric, a published figure or `seconds` is not a finite number; the message names it.
        """
        content = {each.name: json_value(getattr(self, each.name)) for each in fields(self)}
        content["seconds"] = _finite("seconds", self.seconds)
        content["metrics"] = {name: _finite(f"metric {name!r}", value) for name, value in self.metrics.items()}
        content["published"] = {
            name: _finite(f"published figure {name!r}", value) for name, value in self.published.items()
        }
        # Replies arrive in any order, and with them the metrics: sorted, equal results are equal text.
        for name in ("metrics", "published", "versions", "missing", "config", "differences"):
            content[name] = dict(sorted(content[name].items()))
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that `to_json` wrote; unknown keys are ignored.

        Raises
        ------
        ResultsError
            If the text is not such a report.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ResultsError(f"not JSON: {error}") from None
        if not isinstance(content, dict) or "schema" not in content:
            raise ResultsError("not a report: it has no 'schema'")
        if content["schema"] != SCHEMA:
            raise ResultsError(
                f"schema {content['schema']!r} is not the schema {SCHEMA} that this version of consilience reads"
            )
        known = {each.name: each for each in fields(cls)}
        for name, each in known.items():
            if name not in content:
                if each.default is MISSING and each.default_factory is MISSING:
                    raise ResultsError(f"not a report: it has no {name!r}")
            elif not isinstance(content[name], _JSON_TYPES[name]) or isinstance(content[name], bool):
                raise ResultsError(f"not a report: {name!r} is {type(content[name]).__name__}")
        report = cls(**{name: content[name] for name in known if name in content})
        for what, numbers in (("metric", report.metrics), ("published figure", report.published)):
            numbers.update({name: _finite(f"{what} {name!r}", value) for name, value in numbers.items()})
        return report


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("schema", "seed", "rounds"), (int,)),
    **dict.fromkeys(("scenario", "protocol", "command", "session", "shorthand"), (str,)),
    **dict.fromkeys(("sites", "lost", "table", "convergence", "notes", "figures"), (list,)),
    **dict.fromkeys(
        (
            "metrics",
            "published",
            "ledger",
            "versions",
            "missing",
            "config",
            "overview",
            "differences",
            "influence",
            "verdict",
        ),
        (dict,),
    ),
    "seconds": (float, int),
}


def _finite(what: str, value: Any) -> float:
    """Return `value` as a float, or raise an error that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ResultsError(f"{what} is not a number: {value!r}") from None
    if not math.isfinite(number):
        raise ResultsError(f"{what} is {number}: a report holds finite numbers only")
    return number


def json_value(value: Any) -> Any:
    """Return `value` in JSON's types: NumPy values unpacked, tuples as lists, numbers that are not finite as None.

    Examples
    --------
    >>> json_value({"cost": np.float64(1.5), "sizes": (2, math.inf)})
    {'cost': 1.5, 'sizes': [2, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
