"""docs/deploy.md as a script: its fenced blocks in order, each with the machine that it is typed at."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from consilience.flower_programs import environment
from tests.process.processes import APP

PAGE = APP / "docs" / "deploy.md"
SITES = ("hospital-a", "hospital-b", "hospital-c")
CENTER, USER = "fusion center", "who starts runs"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FIRST = SITES[0]


@dataclass(frozen=True)
class Block:
    """A fenced block: a script (`sh`), or a file whose path is the first line's comment.

    Attributes
    ----------
    language, label, text : str
        The label is what the first line's comment says: where it is typed, or the file's name.
    """

    language: str
    label: str
    text: str

    @property
    def serves(self) -> bool:
        """Whether it stays in the foreground."""
        return self.text.startswith("flower-")

    @property
    def who(self) -> tuple[str, ...]:
        """At which machines it is typed."""
        label = self.label.partition(",")[0]
        return {"everywhere": (CENTER, *SITES, USER), "every site": SITES}.get(label, (label,))

    def of(self, site: str) -> str:
        """The text as it is at a site: the page writes of the first one."""
        return self.text.replace(_FIRST, site) if site in SITES else self.text


def blocks() -> list[Block]:
    """All of the page's blocks, in order."""
    found = []
    for language, body in _FENCE.findall(PAGE.read_text(encoding="utf-8")):
        first, _, text = body.partition("\n")
        assert first.startswith("# "), f"a block of {PAGE.name} does not say where it belongs: {first!r}"
        found.append(Block(language, first.removeprefix("# "), text))
    return found


def commands_in_sentences() -> list[str]:
    """Flower's commands that the page names in its sentences with the number of a run or a node."""
    prose = _FENCE.sub("", PAGE.read_text(encoding="utf-8"))
    return sorted(set(re.findall(r"`(flwr [^`]*(?:RUN|NODE)-ID[^`]*)`", prose)))


def block(start: str) -> Block:
    """The first block whose text starts so."""
    return next(each for each in blocks() if each.text.startswith(start))


@dataclass(frozen=True)
class Machine:
    """A home directory and the environment of somebody who is logged in there, as on a machine of its own.

    `substitutions` are all that differs from the page: the center's name and port, and the user's home directory; a
    SuperLink listens at the loopback address, and SuperNodes on one machine need a port each.
    """

    name: str
    home: Path
    substitutions: Mapping[str, str]
    own_port: int
    first: str = field(default="", repr=False)
    """What every shell begins with: the page's own lines."""

    @property
    def folder(self) -> Path:
        return self.home / "federation"

    def text(self, block: Block) -> str:
        """The block as it is typed here."""
        text = block.of(self.name)
        for written, meant in self.substitutions.items():
            text = text.replace(written, meant)
        return text.rstrip() + (f" --port {self.own_port}" if text.startswith("flower-supernode") else "")

    def write(self, block: Block) -> None:
        """Have the file of a block."""
        path = self.folder / block.label.replace("~", str(self.home))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(block) + "\n", encoding="utf-8")

    def run(self, block: Block, timeout: float = 60.0) -> str:
        """Type the block; returns what it printed. It must end well."""
        text = self.text(block)
        done = self.run_text(
            f"cd {shlex.quote(str(APP))}\n{text}" if "in the directory" in block.label else text, timeout
        )
        assert done.returncode == 0, f"{self.name}$ {text}\n{done.stdout}"
        return done.stdout

    def run_text(self, text: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Type it, whatever comes of it; `stdout` has both streams."""
        return subprocess.run(
            self._bash(text),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, block: Block) -> tuple[subprocess.Popen[bytes], Path]:
        """Type a command that stays in the foreground; returns its process and its output."""
        return self.start_text(self.text(block))

    def start_text(self, text: str, log: str = "log") -> tuple[subprocess.Popen[bytes], Path]:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / log
        with path.open("ab") as output:
            process = subprocess.Popen(
                self._bash(f"exec {text}"),
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return process, path

    def _bash(self, text: str) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", f"{self.first}\n{text}"]

    @property
    def env(self) -> dict[str, str]:
        """Nothing of Flower's that the page does not set, but that it looks for no updates."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
        own = {"PATH": environment()["PATH"], "HOME": str(self.home), "FLWR_DISABLE_UPDATE_CHECK": "1"}
        return {**kept, **own}
