"""Influence of each site: the result without it, as data and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from server.report.data import Report, json_value
from server.report.formatting import number, percent, short
from server.report.glossary import meaning
from server.report.protocol import Meaning
from strategies.influence import Influence

_NOTABLE = 0.05
"""Smallest improvement without a site that the report mentions, as a share of the result."""
_SLIGHT = 0.0005
"""Smallest share of a result that changes without a site and is told from none."""


def as_data(influence: Influence | None) -> dict[str, Any]:
    """Return an influence in the form of `Report.influence`; empty for None.

    Examples
    --------
    >>> as_data(Influence("test_mse", 0.5, {"bank": 0.75}))["most"]
    'bank'
    >>> as_data(Influence.unknown_since("the answers were masked"))
    {'unknown': 'the answers were masked'}
    """
    if influence is None:
        return {}
    if not influence.without:
        return {"unknown": influence.unknown or "only one site took part"}
    data: dict[str, Any] = {
        "measure": influence.measure,
        "with_all": influence.with_all,
        "without": dict(sorted(influence.without.items())),
        "most": influence.most,
        "change": influence.changes[influence.most],
    }
    return dict(json_value(data))


def sentence(report: Report) -> str:
    """Return a sentence on the site that influences the result most, or that none does; empty if it is not defined."""
    first = "In the first row of the table, " if "n_cells" in report.metrics else ""
    first = first or ("In the first repetition, " if int(report.config.get("repetitions", 1)) > 1 else "")
    known = report.influence
    if "most" not in known:
        return f"The influence of each site is unknown: {known['unknown']}." if known.get("unknown") else ""
    site, whole, what = known["most"], known["with_all"], meaning(report.protocol, known["measure"])
    words = what.words if what else known["measure"]
    if whole is None:
        changed = known["without"][site]
        if changed is not None and changed < _SLIGHT:
            text = f"{first}no site alone influences the result ({words}: below {percent(_SLIGHT)} for each)."
            return text[0].upper() + text[1:]
        return f"{first}{site} influences the result most ({words}: {_text(changed, share=True)})."
    share = bool(what and what.share)
    value = _text(known["without"][site], share=share)
    text = f"{first}{site} influences the result most: without it, the {words} is {value} instead of"
    text += f" {_text(whole, share=share)}."
    better = _best_left_out(known, what)
    if better == site:
        return f"{text} The result is better without it."
    return f"{text} It is better without {better}: {_text(known['without'][better], share=share)}." if better else text


def better_without(report: Report) -> str:
    """Return a sentence on the site without which the result improves most, by a notable share; empty without one."""
    known = report.influence
    if "most" not in known or known["with_all"] is None:
        return ""
    what = meaning(report.protocol, known["measure"])
    if what is None or not (site := _best_left_out(known, what)):
        return ""
    texts = [_text(value, share=what.share) for value in (known["without"][site], known["with_all"])]
    return f"Without {site}, the {what.words} would be {texts[0]} instead of {texts[1]}: look at its data."


def table_of(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for every site, the largest change first; no rows if the influence is unknown."""
    known = report.influence
    if "most" not in known:
        return [], []
    whole, what = known["with_all"], meaning(report.protocol, known["measure"])
    if whole is None:
        every = sorted(known["without"].items(), key=lambda each: -_size(each[1]))
        return ["site", "influence"], [[site, _text(value, share=True)] for site, value in every]
    share = bool(what and what.share)
    every = sorted(known["without"].items(), key=lambda each: -_size(each[1], whole))
    content = [
        [site, _text(whole, share=share), _text(value, share=share), _change(value, whole)] for site, value in every
    ]
    return ["site", "with all sites", "without it", "change"], content


def _size(value: float | None, whole: float = 0.0) -> float:
    return math.inf if value is None else abs(value - whole)


def _change(value: float | None, whole: float) -> str:
    """Return the relative change of a measure, or the absolute one if it is 0."""
    if value is None:
        return ""
    sign = "+" if value > whole else "−" if value < whole else ""
    return f"{sign}{percent(abs(value / whole - 1)) if whole else number(abs(value))}"


def _best_left_out(known: Mapping[str, Any], what: Meaning | None) -> str:
    """Return the site without which the result improves most, if by a notable share; empty if there is none.

    It may be another site than the most influential one, which the result may need; the report names both.
    """
    if what is None or not what.better:
        return ""
    whole, sign = known["with_all"], -1 if what.better == "lower" else 1
    gains = {site: sign * (value - whole) for site, value in known["without"].items() if value is not None}
    best = max(sorted(gains), key=gains.__getitem__, default="")
    return best if best and gains[best] > _NOTABLE * abs(whole) else ""


def _text(value: float | None, *, share: bool) -> str:
    if value is None:
        return "not a number"
    return percent(value) if share else short(value)
