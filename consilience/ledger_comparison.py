"""Whether the fusion center's ledger of a run and a site's own say the same of what left the site."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEDGER = "ledger.jsonl"
_OF_THE_SITE = ("run", "session", "time")
_ENVELOPE, _REFUSED = "envelope", "refused"

Line = Mapping[str, Any]


class LedgerError(ValueError):
    """A ledger that cannot be compared; one line that says which, and why."""


@dataclass
class Comparison:
    """What a comparison of two ledgers came to.

    Attributes
    ----------
    site : str
        Whose messages were compared.
    agreed : int
        Messages that both have, the same.
    notes : list of str
        What explains itself: messages that left the site and that the fusion center did not use, or refused.
    differences : list of str
        What does not: one of the two has left something out, or says something else.
    """

    site: str
    agreed: int = 0
    notes: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Message:
    """What left a site at once: an envelope and what was in it."""

    round: int
    lines: tuple[Line, ...]

    @property
    def key(self) -> str:
        """Equal for messages of which both ledgers say the same."""
        shared = [{name: value for name, value in line.items() if name not in _OF_THE_SITE} for line in self.lines]
        return json.dumps(shared, sort_keys=True)

    @property
    def refused(self) -> bool:
        """Whether the center could make nothing of it, and counted its bytes only."""
        return bool(self.lines[0]["payload"] == _REFUSED)

    @property
    def unwritten(self) -> bool:
        """Whether all that it says is that the site's ledger could not be written: then it has no line there."""
        return [line.get("fault") for line in self.lines] == ["output-not-written"]

    @property
    def bytes(self) -> int:
        return sum(line["bytes"] for line in self.lines)

    def __str__(self) -> str:
        what = Counter(line["payload"] for line in self.lines if line["payload"] != _ENVELOPE)
        named = ", ".join(f"{n} x {title}" if n > 1 else title for title, n in what.items())
        fault = f"refusal [{self.lines[0]['fault']}]" if "fault" in self.lines[0] else "name only"
        return f"round {self.round}: {named or fault}, {self.bytes} bytes"


def read_center(results: Path) -> tuple[str, dict[str, list[_Message]]]:
    """Session of a run, and by site what the fusion center wrote down of its messages.

    Raises
    ------
    LedgerError
        If the directory holds no report and ledger of a finished run.
    """
    try:
        session = str(json.loads((results / "report.json").read_text(encoding="utf-8"))["session"])
        lines = [json.loads(line) for line in (results / LEDGER).read_text(encoding="utf-8").splitlines()]
        by_site: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            if line["direction"] == "from_site":
                by_site[line["site"]].append(line)
    except OSError as error:
        raise LedgerError(f"{results} holds no results of a finished run: {error.filename} cannot be read") from None
    except (ValueError, KeyError, TypeError):
        raise LedgerError(
            f"{results} holds no results of this version's: its report or ledger cannot be read"
        ) from None
    if any("sha256" not in line for each in by_site.values() for line in each if line["payload"] != _REFUSED):
        raise LedgerError(f"{results / LEDGER} has no sha256 of what came: it is of an earlier version")
    return session, {site: _messages(each) for site, each in by_site.items()}


def read_site(path: Path, session: str) -> tuple[dict[str, list[_Message]], int]:
    """By site (there is one, as a rule) the messages of a session, and the number of lines that cannot be read.

    Parameters
    ----------
    path : Path
        The file, or the directory that it is in.
    session : str
        Of the run.

    Raises
    ------
    LedgerError
        If there is no such file.
    """
    file = path / LEDGER if path.is_dir() else path
    by_site: dict[str, list[Line]] = defaultdict(list)
    unreadable = 0
    try:
        with file.open("rb") as opened:
            for text in opened:
                line = _parsed(text)
                if line is None:
                    unreadable += 1
                elif line["session"] == session:
                    by_site[line["site"]].append(line)
    except OSError as error:
        raise LedgerError(f"{file} cannot be read: {error.strerror}") from None
    return {site: _messages(each) for site, each in by_site.items()}, unreadable


def _parsed(text: bytes) -> dict[str, Any] | None:
    """A line of a site's ledger; None for one that a process did not get to the end of."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    known = {"round", "site", "payload", "bytes", "sha256", "session"}
    return line if isinstance(line, dict) and known <= line.keys() else None


def _messages(lines: Iterable[Line]) -> list[_Message]:
    """Lines stand as they were written: those of a message one behind the other, its envelope first."""
    groups: list[list[Line]] = []
    for line in lines:
        if line["payload"] in (_ENVELOPE, _REFUSED) or not groups:
            groups.append([])
        groups[-1].append(line)
    return [_Message(int(group[0]["round"]), tuple(group)) for group in groups]


def compare(site: str, center: Sequence[_Message], own: Sequence[_Message]) -> Comparison:
    """Message by message; what has no counterpart is told by its round."""
    found = Comparison(site)
    waiting: dict[str, list[_Message]] = defaultdict(list)
    for message in own:
        waiting[message.key].append(message)
    matched: set[str] = set()
    rest = []
    for message in center:
        if waiting.get(message.key):
            waiting[message.key].pop()
            matched.add(message.key)
        else:
            rest.append(message)
    found.agreed = len(center) - len(rest)
    left = {id(message): message for messages in waiting.values() for message in messages}
    for message in rest:
        if message.unwritten:
            found.notes.append(f"{message}: the site could not write this down, and said so")
            continue
        other = _counterpart(message, left.values())
        if other is None:
            found.differences.append(f"{message}: the fusion center has it, the site's ledger does not")
            continue
        del left[id(other)]
        if message.refused:
            found.notes.append(f"{other}: refused by the fusion center, {message.bytes} bytes as they left")
        else:
            found.differences += _differing(message, other)
    found.notes += [_why_alone(message, again=message.key in matched) for message in own if id(message) in left]
    return found


def _counterpart(message: _Message, others: Iterable[_Message]) -> _Message | None:
    """What left the site in the round that the center has otherwise, or refused."""
    for other in others:
        if other.round == message.round and (not message.refused or other.bytes == message.bytes):
            return other
    return None


def _differing(center: _Message, own: _Message) -> list[str]:
    if len(center.lines) != len(own.lines):
        return [f"{own}: left the site so; the fusion center has {center}"]
    lines = []
    for there, here in zip(center.lines, own.lines, strict=True):
        names = [name for name in there if there[name] != here.get(name)]
        if names:
            what = f"round {own.round}, lane {here.get('lane') or '-'}, {here['payload']}"
            said = "; ".join(f"{name} {here.get(name)} at the site, {there[name]} at the center" for name in names)
            lines.append(f"{what}: {said}")
    return lines or [f"{own}: the site's ledger says more of it than the fusion center's"]


def _why_alone(message: _Message, *, again: bool) -> str:
    if again:
        return f"{message}: left the site more than once, the same each time; the fusion center used one"
    if "fault" in message.lines[0]:
        return f"{message}: in the site's ledger only; it came late, or the site was asked once more"
    return f"{message}: in the site's ledger only; it came late, or was lost on the way, and was not used"


def compare_all(results: Path, ledgers: Sequence[Path]) -> tuple[list[str], bool]:
    """The lines to print, and whether nothing contradicts: what explains itself is said, and is no contradiction.

    Parameters
    ----------
    results : Path
        Results directory of a finished run.
    ledgers : Sequence of Path
        Sites' own ledgers, or the directories they are in.

    Raises
    ------
    LedgerError
        As `read_center` and `read_site`; or if a ledger knows nothing of the run.
    """
    session, center = read_center(results)
    lines: list[str] = []
    compared: set[str] = set()
    agree = True
    for path in ledgers:
        own, unreadable = read_site(path, session)
        if not own:
            raise LedgerError(f"{path} has no line of this run (session {session!r})")
        for site, messages in sorted(own.items()):
            found = compare(site, center.get(site, []), messages)
            compared.add(site)
            agree = agree and not found.differences
            verdict = "DIFFERS in" if found.differences else "no contradiction," if found.notes else "agrees,"
            count = f"{len(found.differences)}, " if found.differences else ""
            lines.append(f"{site}: {verdict} {count}{found.agreed} messages are the same in both")
            lines += [f"  differs: {each}" for each in found.differences]
            lines += [f"  {each}" for each in found.notes]
        if unreadable:
            lines.append(f"  {unreadable} lines of {path} cannot be read: a process ended in the midst of them")
    others = sorted(set(center) - compared)
    return lines + ([f"not compared: {', '.join(others)}"] if others else []), agree
