"""Progress of a run in Python: a bar with rounds and measures, and the errors of the sites in few lines."""

from __future__ import annotations

import contextlib
import html
import importlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Literal

from common.grouping import group_messages
from consilience.run_log import message, round_of, without_color

Progress = bool | Literal["log"] | None
"""Whether to show a bar. ``"log"`` shows the lines of the log; None shows a bar in a terminal or a notebook."""

Show = Callable[[str], object]

_ERROR = re.compile(r"(?:ERROR|CRITICAL)\s*:")
_OF_SITE = re.compile(r"(?:round \d+: )?site (?P<site>\S+): (?P<text>.*)")
_TO_GO_ON = "to go on: "
_LINE = "<code>{}</code>"
_REDRAW_SECONDS = 0.1


class SiteErrors:
    """Errors in the log, one line each; errors that differ only in the site share a line.

    Parameters
    ----------
    resumable : bool
        Whether to keep the line on resuming an interrupted run.

    Examples
    --------
    >>> errors = SiteErrors()
    >>> for site in ("north", "south"):
    ...     errors.read(f"ERROR : site {site}: round 1: a column is missing [missing-column]")
    >>> errors.lines()
    ['north, south: round 1: a column is missing [missing-column]']
    """

    def __init__(self, *, resumable: bool = True) -> None:
        self._resumable = resumable
        self._errors: dict[tuple[str, str], None] = {}

    def read(self, line: str) -> None:
        """Read a line of the log."""
        if not _ERROR.match(without_color(line).lstrip()):
            return
        text = message(line)
        if text.startswith(_TO_GO_ON):
            if not self._resumable:
                return
            text = text.replace("resume-from", "resume_from")
        of_site = _OF_SITE.fullmatch(text)
        self._errors[(of_site["site"], of_site["text"]) if of_site else ("", text)] = None

    def lines(self) -> list[str]:
        """Return the lines so far."""
        return group_messages(self._errors)


@contextlib.contextmanager
def watch(progress: Progress, *, resumable: bool = True) -> Iterator[Show]:
    """Return a function for the lines of a run's log, which moves the bar, and prints the errors last.

    Parameters
    ----------
    progress : bool, "log" or None
        As of `consilience.run`.
    resumable : bool
        As of `SiteErrors`.
    """
    if progress == "log":
        yield lambda line: print(without_color(line), file=sys.stderr, flush=True)
        return
    errors = SiteErrors(resumable=resumable)
    try:
        with _bar(progress) as move:

            def show(line: str) -> None:
                errors.read(line)
                move(line)

            yield show
    finally:
        for line in errors.lines():
            print(line, file=sys.stderr)


@contextlib.contextmanager
def _bar(progress: Progress) -> Iterator[Show]:
    """Show a moving line with round, measures and time in a terminal or a notebook; elsewhere nothing."""
    if progress is False:
        yield lambda line: None
        return
    if in_notebook():
        with _notebook_line() as move:
            yield move
        return
    from rich.console import Console

    from consilience.progress import moving_line

    console = Console(file=sys.stderr, force_jupyter=False)
    if not (progress or console.is_terminal):
        yield lambda line: None
        return
    with moving_line(console, "starting", transient=True) as move:
        yield move


@contextlib.contextmanager
def _notebook_line() -> Iterator[Show]:
    """Show the line below a notebook's cell, in one output that is overwritten, and cleared at the end."""
    display = importlib.import_module("IPython.display")  # which is there in a notebook, and nowhere else needed
    begin, last = time.monotonic(), 0.0
    line = display.display(display.HTML(_LINE.format("starting")), display_id=True)

    def move(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if (current := round_of(text)) and now - last > _REDRAW_SECONDS:
            last = now
            words = f"round {current[0]} {current[1]} ({now - begin:.0f} s)"
            line.update(display.HTML(_LINE.format(html.escape(words))))

    try:
        yield move
    finally:
        line.update(display.HTML(""))


def in_notebook() -> bool:
    """Whether this process prints to a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
