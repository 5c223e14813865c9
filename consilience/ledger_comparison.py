"""Comparison of the fusion center's ledger of a run with a site's own."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEDGER = "ledger.jsonl"
_SITE_FIELDS = ("run", "session", "time")
_ENVELOPE, _REFUSED = "envelope", "refused"

Line = Mapping[str, Any]


class LedgerError(ValueError):
    """Error: a ledger cannot be compared. The message is one line: which, and why."""


@dataclass
class Comparison:
    """Result of a comparison of two ledgers.

    Attributes
    ----------
    site : str
        The site.
    agreed : int
        Number of messages that are the same in both ledgers.
    notes : list of str
        Explained differences: messages of the site that the fusion center did not use, or refused.
    differences : list of str
        Contradictions: a message that one ledger lacks, or has otherwise.
    """

    site: str
    agreed: int = 0
    notes: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Message:
    """One message of a site: its envelope, and the payloads in it."""

    round: int
    lines: tuple[Line, ...]

    @property
    def key(self) -> str:
        """Text that is equal for equal messages in both ledgers."""
        shared = [{name: value for name, value in line.items() if name not in _SITE_FIELDS} for line in self.lines]
        return json.dumps(shared, sort_keys=True)

    @property
    def refused(self) -> bool:
        """Whether the center could not read the message, and counted its bytes only."""
        return bool(self.lines[0]["payload"] == _REFUSED)

    @property
    def unwritten(self) -> bool:
        """Whether the message only reports that the site's ledger could not be written, and so has no line there."""
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
    """Return the session of a run, and by site the messages in the fusion center's ledger.

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
        raise LedgerError(f"{results} holds no results of this version: its report or ledger cannot be read") from None
    if any("sha256" not in line for each in by_site.values() for line in each if line["payload"] != _REFUSED):
        raise LedgerError(f"{results / LEDGER} has no sha256 of the payloads: an earlier version wrote it")
    return session, {site: _messages(each) for site, each in by_site.items()}


def read_site(path: Path, session: str) -> tuple[dict[str, list[_Message]], int]:
    """Return the messages of a session by site (usually one), and the number of unreadable lines.

    Parameters
    ----------
    path : Path
        The ledger, its directory, or the site's folder with this directory in it.
    session : str
        Session of the run.

    Raises
    ------
    LedgerError
        If there is no such file, or a folder has several.
    """
    file = _ledger_in(path) if path.is_dir() else path
    by_site: dict[str, list[Line]] = defaultdict(list)
    unreadable = 0
    try:
        with file.open("rb") as opened:
            for text in opened:
                line = _parse(text)
                if line is None:
                    unreadable += 1
                elif line["session"] == session:
                    by_site[line["site"]].append(line)
    except OSError as error:
        raise LedgerError(f"{file} cannot be read: {error.strerror}") from None
    return {site: _messages(each) for site, each in by_site.items()}, unreadable


def _ledger_in(folder: Path) -> Path:
    """Return the path of the ledger in a site's own directory, or in the only one below a folder."""
    below = sorted(folder.glob(f"*/{LEDGER}"))
    if (folder / LEDGER).exists() or not below:
        return folder / LEDGER
    if len(below) > 1:
        raise LedgerError(f"{folder} holds several ledgers: name the directories {', '.join(map(str, below))}")
    return below[0]


def _parse(text: bytes) -> dict[str, Any] | None:
    """Return a line of a site's ledger; None for an unfinished one."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    known = {"round", "site", "payload", "bytes", "sha256", "session"}
    return line if isinstance(line, dict) and known <= line.keys() else None


def _messages(lines: Iterable[Line]) -> list[_Message]:
    """Group lines by message. The lines of a message are consecutive, its envelope first."""
    groups: list[list[Line]] = []
    for line in lines:
        if line["payload"] in (_ENVELOPE, _REFUSED) or not groups:
            groups.append([])
        groups[-1].append(line)
    return [_Message(int(group[0]["round"]), tuple(group)) for group in groups]


def compare(site: str, center: Sequence[_Message], own: Sequence[_Message]) -> Comparison:
    """Compare the messages of a site; a message without a counterpart is described by its round."""
    comparison = Comparison(site)
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
    comparison.agreed = len(center) - len(rest)
    left = {id(message): message for messages in waiting.values() for message in messages}
    for message in rest:
        if message.unwritten:
            comparison.notes.append(f"{message}: the site could not write this down, and reported it")
            continue
        other = _counterpart(message, left.values())
        if other is None:
            comparison.differences.append(f"{message}: the fusion center has it, the site's ledger does not")
            continue
        del left[id(other)]
        if message.refused:
            comparison.notes.append(f"{other}: refused by the fusion center, {message.bytes} bytes as they left")
        else:
            comparison.differences += _differing(message, other)
    comparison.notes += [_reason_alone(message, again=message.key in matched) for message in own if id(message) in left]
    return comparison


def _counterpart(message: _Message, others: Iterable[_Message]) -> _Message | None:
    """Return the site's message in the round of a message that the center has otherwise, or refused."""
    for other in others:
        if other.round == message.round and (not message.refused or other.bytes == message.bytes):
            return other
    return None


def _differing(center: _Message, own: _Message) -> list[str]:
    if len(center.lines) != len(own.lines):
        return [f"{own}: at the site; the fusion center has {center}"]
    lines = []
    for received, sent in zip(center.lines, own.lines, strict=True):
        names = [name for name in received if received[name] != sent.get(name)]
        if names:
            payload = f"round {own.round}, lane {sent.get('lane') or '-'}, {sent['payload']}"
            values = "; ".join(f"{name} {sent.get(name)} at the site, {received[name]} at the center" for name in names)
            lines.append(f"{payload}: {values}")
    return lines or [f"{own}: the site's ledger has more of it than the fusion center's"]


def _reason_alone(message: _Message, *, again: bool) -> str:
    if again:
        return f"{message}: left the site more than once, the same each time; the fusion center used one"
    if "fault" in message.lines[0]:
        return f"{message}: in the site's ledger only; it came late, or the site was asked once more"
    return f"{message}: in the site's ledger only; it came late, or was lost on the way, and was not used"


def compare_all(results: Path, ledgers: Sequence[Path]) -> tuple[list[str], bool]:
    """Return the lines to print, and whether the ledgers agree; explained differences do not count.

    Parameters
    ----------
    results : Path
        Results directory of a finished run.
    ledgers : Sequence of Path
        Sites' own ledgers, or their directories.

    Raises
    ------
    LedgerError
        As `read_center` and `read_site`; or if a ledger has no line of the run.
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
            comparison = compare(site, center.get(site, []), messages)
            compared.add(site)
            agree = agree and not comparison.differences
            verdict = "DIFFERS in" if comparison.differences else "no contradiction," if comparison.notes else "agrees,"
            count = f"{len(comparison.differences)}, " if comparison.differences else ""
            lines.append(f"{site}: {verdict} {count}{_same(comparison.agreed)} in both")
            lines += [f"  differs: {each}" for each in comparison.differences]
            lines += [f"  {each}" for each in comparison.notes]
        if unreadable:
            lines.append(f"  {unreadable} lines of {path} cannot be read: a process ended while it wrote them")
    others = sorted(set(center) - compared)
    return lines + ([f"not compared: {', '.join(others)}"] if others else []), agree


def _same(n: int) -> str:
    return f"{n} message{' is' if n == 1 else 's are'} the same"
