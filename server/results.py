"""The results directory of a run: report, page, figures, arrays and ledger, complete or absent.

A run writes to the hidden directory ``OUTPUT-DIR/NAME/.RUN-ID.partial``. Its last step renames that directory to
``OUTPUT-DIR/NAME/RUN-ID``. An interrupted run therefore leaves no results directory; the hidden one holds its
checkpoint, from which another run can resume (`ResultsDirectory.adopt`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from common.files import encode_text, sync_directory, write_arrays, write_file
from server.report.data import Arrays, Report, ResultsError, json_value
from server.report.html import report_html
from server.report.image import Image
from server.run_names import take_number

__all__ = ["FIGURES", "ResultsDirectory", "final_of", "find_interrupted", "load", "partial_of", "write_page"]

logger = logging.getLogger("flwr")

FIGURES = "figures"
"""Folder of the figures, which is there also if a run has none."""
_PARTIAL = ".partial"


@dataclass(frozen=True)
class ResultsDirectory:
    """The directory of one run.

    Attributes
    ----------
    partial : Path
        Absolute path to which the run writes.
    final : Path
        Absolute path of the complete results.
    """

    partial: Path
    final: Path

    @classmethod
    def open(cls, output_dir: str | Path, name: str, run_id: str | int) -> ResultsDirectory:
        """Create ``OUTPUT-DIR/NAME/.RUN-ID.partial``.

        Raises
        ------
        ResultsError
            If the final directory exists, the name or the run id is not a plain file name, or the directory cannot be
            made.
        """
        for part in (name, str(run_id)):
            if not _is_file_name(part):
                raise ResultsError(f"{part!r} cannot name a results directory: take letters, digits, '-', '_' and '.'")
        final = _absolute(output_dir) / name / str(run_id)
        _refuse_existing(final)
        directory = cls(partial=partial_of(final), final=final)
        try:
            directory.partial.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(
                f"the results directory {directory.partial} cannot be made: {error.strerror}; set another output-dir"
            ) from error
        return directory

    @property
    def checkpoint(self) -> Path:
        """Directory of the saved rounds; removed when the run is complete."""
        return self.partial / "checkpoint"

    def finish(
        self,
        report: Report,
        arrays: Arrays,
        ledger_lines: Iterable[Mapping[str, Any]],
        images: Mapping[str, bytes] | None,
        files: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write all files, then rename the directory to its final name.

        Parameters
        ----------
        report : Report
            Report, whose `figures` describe the `images`.
        arrays : Mapping[str, ndarray]
            Arrays by documented name; any shape, no Python objects.
        ledger_lines : Iterable of Mapping
            One line for every payload that crossed the wire.
        images : Mapping[str, bytes] or None
            PNG images by the name of their figure; None: figures and page are drawn later (`server.app.add_page`).
        files : Mapping[str, bytes], optional
            Content of further files by name.

        Returns
        -------
        Path
            Absolute path of the final directory.

        Raises
        ------
        ResultsError
            If the report or an array cannot be written, the final directory exists, or the disk refuses. The hidden
            directory and its checkpoint are kept.
        """
        report.to_json()  # an error here comes before anything is written
        _refuse_existing(self.final)
        try:
            for name, content in (files or {}).items():
                write_file(self.partial / name, [content])
            self._write(report, arrays, ledger_lines, images)
            os.rename(self.partial, self.final)
        except OSError as error:
            for name in ("report.json", "report.html"):  # half of it is no report
                with contextlib.suppress(OSError):
                    (self.partial / name).unlink(missing_ok=True)
            raise ResultsError(
                f"the results could not be written to {self.partial}: {error.strerror or error}; "
                f"repair that, then go on with resume-from={self.final}"
            ) from error
        # After the rename, since a run stopped before it resumes from the checkpoint; leftovers do no harm.
        shutil.rmtree(self.final / "checkpoint", ignore_errors=True)
        for memory in self.final.glob("sites/*/memory-*"):  # simulated sites' memory of the run
            shutil.rmtree(memory, ignore_errors=True)
        for folder in (*self.final.glob("sites/*"), self.final / "sites"):  # empty ones
            with contextlib.suppress(OSError):
                folder.rmdir()
        take_number(self.final)
        sync_directory(self.final.parent)
        return self.final

    def _write(
        self,
        report: Report,
        arrays: Arrays,
        ledger_lines: Iterable[Mapping[str, Any]],
        images: Mapping[str, bytes] | None,
    ) -> None:
        for name, array in arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise ResultsError(f"array {name!r} holds Python objects; only numbers and text are written")
        write_arrays(self.partial / "arrays.npz", arrays)
        lines = (json.dumps(json_value(line), ensure_ascii=False, allow_nan=False) + "\n" for line in ledger_lines)
        write_file(self.partial / "ledger.jsonl", (encode_text(line) for line in lines))
        if images is None:
            write_file(self.partial / "report.json", [encode_text(report.to_json())])
        else:
            write_page(self.partial, report, images)
        sync_directory(self.partial)

    def fail(self, *, started: bool) -> None:
        """Remove the hidden directory after a failure, unless a later run can resume from it.

        Parameters
        ----------
        started : bool
            Whether the run has asked any site. Before that, an adopted checkpoint is still where it came from.
        """
        if started and any(self.checkpoint.glob("round-*.zip")):
            logger.error('to go on: resume-from="%s"', self.final)
            return
        shutil.rmtree(self.partial, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.partial.parent.rmdir()  # if it is empty

    def adopt(self, previous: str | Path) -> Path:
        """Copy the checkpoint and the sites' directories of an interrupted run into this one.

        Parameters
        ----------
        previous : str or Path
            Results directory that the interrupted run would have had, ``.../RUN-ID``, or its hidden one. It is not
            changed.

        Returns
        -------
        Path
            Absolute path of the interrupted run's hidden directory.

        Raises
        ------
        ResultsError
            If there is no such run, it is complete, or it stopped before its first checkpoint.
        """
        source = find_interrupted(previous)
        if source == self.partial:
            raise ResultsError(f"resume-from={self.final} names the run itself; name the one that was interrupted")
        staged = self.partial / "checkpoint.copy"
        try:
            if (source / "sites").is_dir():
                shutil.copytree(source / "sites", self.partial / "sites", symlinks=True, dirs_exist_ok=True)
            # Renamed when complete: half a copy must not be taken for a checkpoint.
            shutil.copytree(source / "checkpoint", staged, symlinks=True)
            os.rename(staged, self.checkpoint)
        except OSError as error:
            raise ResultsError(f"{source} cannot be copied to {self.partial}: {error.strerror or error}") from error
        return source


def write_page(directory: Path, report: Report, images: Mapping[str, bytes]) -> None:
    """Write the figures, the report that describes them, and the page, into a run's directory."""
    folder = directory / FIGURES
    shutil.rmtree(folder, ignore_errors=True)  # from an earlier attempt to finish
    folder.mkdir()
    for name, image in images.items():
        if not _is_file_name(name):
            raise ResultsError(f"{name!r} cannot name a figure: take letters, digits, '-', '_' and '.'")
        write_file(folder / f"{name}.png", [image])
        if isinstance(image, Image):
            write_file(folder / f"{name}.svg", [image.svg])
            write_file(folder / f"{name}.csv", [encode_text(image.data)])
    sync_directory(folder)
    write_file(directory / "report.json", [encode_text(report.to_json())])
    if page := _page(report, images):
        write_file(directory / "report.html", [encode_text(page)])


def _page(report: Report, images: Mapping[str, bytes]) -> str:
    """Return the page; empty if it cannot be made, since the other files hold all results."""
    try:
        return report_html(report, images)
    except Exception:
        logger.exception("report.html cannot be made; the other results are written")
        return ""


def load(results_dir: str | Path) -> tuple[Report, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return the report and the arrays of a complete run.

    Raises
    ------
    ResultsError
        If the path is not a results directory, its run was interrupted, or a file in it cannot be read.
    """
    path = _absolute(results_dir)
    final = final_of(path)
    if final is not None or (not path.exists() and partial_of(path).is_dir()):
        path = final or path
        raise ResultsError(f"the run of {path} was interrupted and has no results; go on with resume-from={path}")
    if not path.exists():
        raise ResultsError(f"there is no results directory {path}")
    absent = [name for name in ("report.json", "arrays.npz") if not (path / name).is_file()]
    if absent:
        raise ResultsError(
            f"{path} is not a results directory: it has no {' and no '.join(absent)}; "
            "give the path that the run printed last (OUTPUT-DIR/NAME/RUN-ID)"
        )
    try:
        report = Report.from_json((path / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path / 'report.json'} cannot be read: {error}") from None
    try:
        with np.load(path / "arrays.npz", allow_pickle=False) as archive:
            return report, {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ResultsError(f"{path / 'arrays.npz'} cannot be read: {error}") from None


def _is_file_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and all(each.isalnum() or each in "-_." for each in name)


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def partial_of(final: Path) -> Path:
    """Return the hidden directory to which a run with these results writes.

    Examples
    --------
    >>> partial_of(Path("results/wine/7203")).as_posix()
    'results/wine/.7203.partial'
    """
    return final.parent / f".{final.name}{_PARTIAL}"


def final_of(partial: Path) -> Path | None:
    """Return the final directory of a hidden one; None if the path does not name a hidden directory.

    Examples
    --------
    >>> final_of(Path("results/wine/.7203.partial")).as_posix()
    'results/wine/7203'
    """
    name = partial.name
    if name.startswith(".") and name.endswith(_PARTIAL) and len(name) > len(_PARTIAL) + 1:
        return partial.parent / name[1 : -len(_PARTIAL)]
    return None


def _refuse_existing(final: Path) -> None:
    if os.path.lexists(final):
        raise ResultsError(f"{final} exists already and is not overwritten; set another output-dir, or move it away")


def find_interrupted(previous: str | Path) -> Path:
    """Return the hidden directory of the interrupted run that `previous` names.

    Raises
    ------
    ResultsError
        As `ResultsDirectory.adopt`.
    """
    path = _absolute(previous)
    final = final_of(path) or path
    partial = partial_of(final)
    if final.is_dir():
        if (final / "report.json").is_file():
            raise ResultsError(f"the run of {final} is complete: look at it with `consilience show {final}`")
        raise ResultsError(f"{final} is not a results directory; give the path OUTPUT-DIR/NAME/RUN-ID of a run")
    if not partial.is_dir():
        raise ResultsError(f"there is no interrupted run of {final}: neither it nor {partial} exists")
    checkpoint = partial / "checkpoint"
    if not checkpoint.is_dir() or not any(checkpoint.iterdir()):
        raise ResultsError(
            f"the run of {final} stopped before its first checkpoint; start it again without resume-from"
        )
    return partial
