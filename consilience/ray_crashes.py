"""A filter that moves Ray's output about a dead process into a file, with one line for the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from consilience.run_log import has_level, message, without_color

_OF_ACTOR = re.compile(r"\(ClientAppActor pid=(\d+)\) ?(.*)")
_DUMP = re.compile(r"\*\*\* (SIG\w+) received|Fatal Python error: (.*)")
_RAISED = "An exception was raised when processing a message by RayBackend"
_DIED = "The actor died"


class CrashFilter:
    """Passes the lines of a run's log on, except those that Ray prints when a process dies.

    Parameters
    ----------
    show : Callable
        Takes a line.
    file : Path
        File to which the other lines are appended.

    Examples
    --------
    >>> shown = []
    >>> read = CrashFilter(shown.append, Path("/dev/null"))
    >>> read("(ClientAppActor pid=7) *** SIGSEGV received at time=1 on cpu 0 ***")
    >>> read("(ClientAppActor pid=7) PC: @ 0x7fb6  (unknown)  kill")
    >>> read("INFO :      round   1  sites 2/3")
    >>> shown
    ['WARNING : a process of Ray ended (SIGSEGV); what it printed is in /dev/null', 'INFO :      round   1  sites 2/3']
    """

    def __init__(self, show: Callable[[str], None], file: Path) -> None:
        self._show, self._file = show, file
        self._dead: set[str] = set()
        self._ended = 0  # processes of which Ray itself has said that they ended
        self._held = ""  # a line of which the next one says whether it belongs to a crash
        self._within = False

    def __call__(self, line: str) -> None:
        """Read a line."""
        held, self._held = self._held, ""
        text = message(line)
        if held:
            self._within = text.startswith(_DIED)
            (self._hide if self._within else self._show)(held)
        if has_level(line):
            if text == _RAISED:
                self._held, self._within = line, False
                return
            self._within = self._within and text.startswith((_DIED, "Traceback"))
        if self._belongs(without_color(line)):
            self._hide(line)
        else:
            self._show(line)

    def _belongs(self, line: str) -> bool:
        """Whether a line belongs to a crash; announce the crash at its first line."""
        if line.startswith("(raylet) A worker died or was killed"):
            self._ended += 1
            if self._ended > len(self._dead):
                self._announce("killed", f"{self._ended} by raylet")
            return True
        of_actor = _OF_ACTOR.match(line)
        if not of_actor:
            return self._within
        pid, text = of_actor.groups()
        dump = _DUMP.match(text)
        if dump and pid not in self._dead:
            self._announce(dump[1] or dump[2], pid)
        return pid in self._dead

    def _announce(self, what: str, pid: str) -> None:
        self._dead.add(pid)
        self._show(f"WARNING : a process of Ray ended ({what}); what it printed is in {self._file}")

    def _hide(self, line: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(without_color(line) + "\n")
