"""The log of a run as printed by Flower: run number, rounds, results directory, refusal."""

import re
from dataclasses import dataclass
from pathlib import Path

_ANSI_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s*:\s+")
_STARTED = re.compile(r"^Successfully started run (\d+)")
_ROUND = re.compile(r"^round +(\d+)\s+(.*)")
_MEASURE = re.compile(r"[\w.-]+=\S+(?: [kMGT]?B\b)?")


@dataclass
class Transcript:
    """Content of a run's log so far.

    Attributes
    ----------
    run_id : str
        Flower's number of the run; empty until it is known.
    results : Path or None
        Results directory, once the run has printed it.
    refused : str
        Reason for which the app refused to run; empty if it did not.

    Examples
    --------
    >>> transcript = Transcript()
    >>> transcript.read("Successfully started run 1676")
    >>> transcript.run_id
    '1676'
    """

    run_id: str = ""
    results: Path | None = None
    refused: str = ""

    def read(self, line: str) -> None:
        """Read one line."""
        text = message(line)
        if started := _STARTED.match(text):
            self.run_id = started[1]
        elif text.startswith("results: "):
            self.results = Path(text.removeprefix("results: "))
        elif text.startswith("refused: "):
            self.refused = text.removeprefix("refused: ")


def message(line: str) -> str:
    """Return a log line without colors and without the level of Flower's logger.

    Examples
    --------
    >>> message("INFO :      results: /tmp/7")
    'results: /tmp/7'
    """
    return _LEVEL.sub("", without_color(line)).strip()


def has_level(line: str) -> bool:
    """Whether a line begins with a level of Flower's logger: it is the first of a record."""
    return bool(_LEVEL.match(without_color(line)))


def without_color(line: str) -> str:
    """Return a line without a terminal's colors."""
    return _ANSI_COLOR.sub("", line)


def round_of(line: str) -> tuple[int, str] | None:
    """Return round number and measures (``bound=-434.6 change=1e-04``) of a progress line; None for another line."""
    progress = _ROUND.match(message(line))
    return (int(progress[1]), " ".join(_MEASURE.findall(progress[2]))) if progress else None
