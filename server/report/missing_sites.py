"""Sites that did not answer every ask: what happened, in words, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from server.report.formatting import listed

_EVENT = re.compile(r"round (\d+): (.*)", re.DOTALL)
_CODE = re.compile(r" \[[a-z-]+\]$")
_MOST_REASONS = 3
"""Most reasons that a sentence has."""
_MOST_NAMES = 10
"""Most sites that a sentence names."""
_RESTART = "start its SuperNode again, with the same site and site-output-dir"
_OF_SITE = "the site's own log has the details, and what to do"
_REMEDIES = {
    "no answer within": "look at its SuperNode's log; if it is only slow, set a longer round-timeout",
    "its node is not connected": _RESTART,
    "its node failed (Flower error code 5)": _RESTART,
    "its node failed": "look at its SuperNode's log: too little memory, or another version of consilience?",
    "its SuperNode refuses": "start the run with the signed app",
    "calls itself": "restart it under its own name",
    "refused: its answer has": "if the size is right, set a larger max-payload-mb",
    "refused:": "ask the site whether it runs the same version, and what it changed",
    "payload": "ask the site whether it runs the same version, and what it changed",
    "left out:": "",
}
"""What to do, by the begin of a reason; the first that fits counts. A reason that says it itself has none."""


def reasons(events: Sequence[str]) -> list[str]:
    """Return what happened to a site, equal reasons once.

    Examples
    --------
    >>> reasons(["round 2: no answer within 5 s", "round 3: no answer within 5 s", "round 7: no answer within 5 s"])
    ['rounds 2, 3 and 7: no answer within 5 s']
    """
    rounds: dict[str, list[int]] = {}
    for event in events:
        match = _EVENT.fullmatch(event)
        numbers = rounds.setdefault(match[2] if match else event, [])
        numbers += [int(match[1])] if match else []
    return [f"{_in_words(numbers)}: {reason}" if numbers else reason for reason, numbers in rounds.items()]


def remedy(events: Sequence[str]) -> str:
    """Return what to do about the last failure of a site; empty if the reason says it.

    Examples
    --------
    >>> remedy(["round 2: its node is not connected"])
    'start its SuperNode again, with the same site and site-output-dir'
    """
    reason = _last(events)
    known = next((text for begin, text in _REMEDIES.items() if reason.startswith(begin)), None)
    return known if known is not None else _OF_SITE if _CODE.search(reason) else ""


def caution(missing: Mapping[str, Sequence[str]], n_sites: int) -> str:
    """Return the sentence about the sites that did not answer every ask, of so many.

    Examples
    --------
    >>> caution({"b": ["round 3: no answer within 600 s"]}, 2)
    '1 of 2 sites did not answer every ask; b: no answer within 600 s.'
    """
    text = f"{len(missing)} of {n_sites:,} sites did not answer every ask"
    sites: dict[str, list[str]] = {}
    for name in sorted(missing):
        sites.setdefault(_CODE.sub("", _last(missing[name])), []).append(name)
    if len(sites) > _MOST_REASONS:
        return f"{text}: {_named(sorted(missing))}."
    return "; ".join([text, *(f"{_named(names)}: {reason}" for reason, names in sites.items())]) + "."


def _named(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return listed([*names[:_MOST_NAMES], *more])


def _last(events: Sequence[str]) -> str:
    """Return the reason of the last failure."""
    match = _EVENT.fullmatch(events[-1])
    return match[2] if match else events[-1]


def _in_words(numbers: Sequence[int]) -> str:
    """Return numbers of rounds, three or more in a row as a range.

    Examples
    --------
    >>> _in_words([2, 3, 4, 8, 9]), _in_words([1])
    ('rounds 2 to 4, 8 and 9', 'round 1')
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    return f"round{'s' if len(set(numbers)) > 1 else ''} {listed(parts)}"
