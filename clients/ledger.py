"""A site's own ledger: a line for everything that leaves the site, written to its disk before it leaves.

The fusion center keeps a ledger, too, written by the same function from the same records (protocols/wire/message.py).
``consilience ledger`` compares the two. A site's ledger also has the run, its session and the time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from flwr.app import RecordDict

from common.files import encode_text, lock
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Parcel, ledger_lines

NAME = "ledger.jsonl"
"""Name of the file in the site's own directory."""


@dataclass(frozen=True)
class Ledger:
    """The record of all that has left a site, run after run. Lines are added, and never changed.

    Attributes
    ----------
    directory : Path or None
        The site's own; None: the site has set none, and keeps no ledger.
    site : str
        Name of the site.
    run : int
        Flower's number of the run.
    synced : bool
        Whether to wait until lines are on the disk and survive a power failure.

    Examples
    --------
    >>> import tempfile
    >>> from protocols.wire.message import Answer, write_answer
    >>> ledger = Ledger(Path(tempfile.mkdtemp()), "north", run=7)
    >>> ledger.record(write_answer(Answer("north", 1, 13, ())), (), round_number=1, session="7")
    >>> json.loads((ledger.directory / NAME).read_text())["fault"]
    'not-numeric'
    """

    directory: Path | None
    site: str
    run: int
    synced: bool = True

    def record(self, content: RecordDict, parcels: Sequence[Parcel], *, round_number: int, session: str) -> None:
        """Add the lines of a message that is about to leave.

        Parameters
        ----------
        content : RecordDict
            The message, encoded.
        parcels : Sequence[Parcel]
            Parcels of the message; none in a refusal, whose code is in the envelope.
        round_number : int
            Round of the ask.
        session : str
            The center's name of the run, which a resumed run keeps.

        Raises
        ------
        SiteFault
            If they cannot be written. Then the message must not leave.
        """
        if self.directory is None:
            return
        about = {"run": self.run, "session": session, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        lines = ledger_lines(content, parcels, round_number=round_number, direction="from_site", site=self.site)
        text = "".join(json.dumps({**line, **about}, ensure_ascii=False) + "\n" for line in lines)
        path = self.directory / NAME
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                lock(file)  # a SuperNode may answer for two runs at once
                # A process may have died within a line: the line stays as it is, and ends here.
                file.write((b"" if _ends_well(path) else b"\n") + encode_text(text))
                file.flush()
                if self.synced:
                    os.fsync(file.fileno())
        except OSError as error:
            raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be written: {error}") from error


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
