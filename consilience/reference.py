"""The lists of keys and payloads in the pages' reference, written from the declarations: ``make keys``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from common.settings import Setting
from consilience.signatures import STUB, stub
from protocols import registry
from protocols.settings import SiteSettings, run_keys, site_keys

_REGION = re.compile(r"(<!-- begin: (keys|payloads) of (\w+), written by make keys -->\n).*?(<!-- end -->)", re.S)
_OF_SCENARIOS, _SCENARIOS_OWN = "scenario: ", "the scenario's own"
_OTHER_SOURCE = re.compile(r", or what the (scenario sets|scenario or the earlier run has|earlier run has)$")
_DEFAULTS = "In brackets the defaults of own data; scenarios may have others. `consilience keys {protocol}` has ranges."
_NUMERIC = re.compile(r"(?:(?:a|an|and|at|below|from|greater|most|number|or|share|than|to|whole|[\d.e-]+)(?:, | |$))*")
"""A range that is of numbers only."""


def write(page: str) -> str:
    r"""Return a page with its lists written anew.

    Examples
    --------
    >>> name = registry.names()[0]
    >>> page = f"<!-- begin: keys of {name}, written by make keys -->\n<!-- end -->"
    >>> f"- `{name}." in write(page)
    True
    """
    lists = {"keys": key_lists, "payloads": payload_list}
    return _REGION.sub(lambda match: f"{match[1]}\n{lists[match[2]](match[3])}\n\n{match[4]}", page)


def key_lists(protocol: str) -> str:
    """Return the lists of a protocol's keys, of a run, of scenarios, and those that only a site sets, as Markdown."""
    of_run = [each for key, each in run_keys().items() if key.startswith(f"{protocol}.")]
    of_scenarios = [each for each in of_run if each.meaning.startswith(_OF_SCENARIOS)]
    common = set(SiteSettings.keys())
    own = [each for key, each in site_keys(protocol).items() if key not in common]
    parts = [_DEFAULTS.format(protocol=protocol), _list(each for each in of_run if each not in of_scenarios)]
    if of_scenarios:
        parts += ["Of scenarios:", _list(of_scenarios)]
    if own:
        parts += ["Of a site's own configuration only:", _list(own)]
    return "\n\n".join(parts)


def payload_list(protocol: str) -> str:
    """Return the list of a protocol's asks, each with its answer as the page of a run explains it, as Markdown."""
    room, meanings = registry.room(protocol, "payloads"), dict(registry.room(protocol, "report").REPORT.payloads)
    items = []
    for name in [name for name in meanings if getattr(room, name).answer]:
        answer = getattr(room, name).answer.__name__
        meaning = f": {meanings.pop(answer)}" if answer in meanings else ""
        items.append(f"- `{name}`, `{answer}`{meaning}")
    return "\n".join(items)


def _list(settings: Iterable[Setting]) -> str:
    return "\n".join(map(_item, settings))


def _item(each: Setting) -> str:
    default = str(each.default).lower() if isinstance(each.default, bool) else str(each.default)
    stated = _OTHER_SOURCE.sub("", each.words or default)
    meaning = re.sub(rf"; (empty|0): {re.escape(each.words)}$", "", each.meaning) if each.words else each.meaning
    meaning = (meaning + _values(each, f"{meaning} {stated}")).removeprefix(_OF_SCENARIOS)
    default = "" if stated in ("", _SCENARIOS_OWN) else f" ({stated})"
    return f"- `{each.key}`{default}: {' '.join(meaning.split())}"


def _values(each: Setting, stated: str) -> str:
    """Return the values that a setting may have, as far as they are no numbers and its words do not name them."""
    values = each.range.removeprefix("empty (not set), or ").removeprefix("0 (not set), or ").removeprefix("one of ")
    choices = [choice for choice in re.findall(r"'([^']*)'", values) if choice]
    others = [choice for choice in choices if not re.search(rf"(?<![\w-]){re.escape(choice)}(?![\w-])", stated)]
    if choices:
        return f"; also {', '.join(others)}" if others else ""
    listed = bool(re.search(r"\d, \d", values))
    return "" if not values or (_NUMERIC.fullmatch(values) and not listed) else f" ({values})"


def main() -> None:
    """Write the lists of all pages in ``docs/`` anew, and the stub of the settings."""
    STUB.write_text(stub(), encoding="utf-8")
    for path in sorted((Path(__file__).resolve().parents[1] / "docs").glob("*-reference.md")):
        path.write_text(write(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
