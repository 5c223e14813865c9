"""What a run leaves: its report, its arrays, its ledger, in a directory that is complete or not there at all.

While a run is under way its files are in ``OUTPUT-DIR/NAME/.RUN-ID.partial``; the last step of a run is the rename of
that directory to ``OUTPUT-DIR/NAME/RUN-ID``. So an interruption leaves a complete results directory or none, and the
hidden one holds what is needed to go on (`ResultsDirectory.adopt`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from common.files import encoded, sync_directory, write_arrays, write_file
from server.report.html import report_html
from server.report.summary import render_table

__all__ = ["Report", "ResultsDirectory", "ResultsError", "load", "render_table"]

logger = logging.getLogger("flwr")

SCHEMA = 1
_PARTIAL = ".partial"


class ResultsError(ValueError):
    """Results that cannot be written, found or read; the message says what to do."""


@dataclass(kw_only=True)
class Report:
    """What one run learned and what it cost: the content of ``report.json``.

    Attributes
    ----------
    schema : int
        Version of this layout.
    scenario, protocol : str
        What was run.
    seed : int
        The run's seed.
    sites : list of str
        Names of the sites, in the order of their names.
    rounds : int
        Number of rounds.
    seconds : float
        Wall time of the run.
    metrics : dict
        Finite numbers by name; the standard error of ``x`` is named ``x_se``.
    published : dict
        The paper's figures, by the name of the metric they belong to.
    table : list of dict
        Rows of the result table, where a scenario has one.
    ledger : dict
        What crossed the wire, as `server.report.summary.ledger_summary` sums it up.
    versions : dict
        Version by package.
    missing : dict
        What went wrong with a site, in the order it happened, by the site's name.
    notes : list of str
        What a reader should know before using the result.
    config : dict
        The run configuration that was used.
    command : str
        The command of Flower that repeats the run.
    convergence : list of dict
        A row a round: ``round`` and the strategy's own measures, bytes and seconds.
    session : str
        Name under which the sites keep what they remember of the run: its id, or that of the run it went on from.
    asked : dict
        What was asked, in words: ``question``, ``data``, ``holds`` (who holds what), ``left`` (what left the sites) and
        ``earlier`` (the run it goes on from); what does not apply is absent.
    differences : dict
        By metric that the answer's number is held against, ``difference``, ``relative`` and their standard errors
        (`server.report.headline.differences`); empty with one repetition.
    shorthand : str
        The same command as `command` as ``consilience`` takes it; empty where real sites took part.
    """

    schema: int = SCHEMA
    scenario: str
    protocol: str
    seed: int
    sites: list[str]
    rounds: int
    seconds: float
    metrics: dict[str, float]
    published: dict[str, float] = field(default_factory=dict)
    table: list[dict[str, Any]] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    convergence: list[dict[str, Any]] = field(default_factory=list)
    session: str = ""
    asked: dict[str, str] = field(default_factory=dict)
    differences: dict[str, dict[str, float]] = field(default_factory=dict)
    shorthand: str = ""

    def to_json(self) -> str:
        """The report as JSON text; equal reports give equal text, and every float is read back exactly.

        A value that is not finite is written as null in `table`, `convergence` and `config`, where it means that
        there is none (the change of the bound in the first round, say).

        Raises
        ------
        ResultsError
            If a metric, a published figure or `seconds` is not a finite number; the message names it.
        """
        content = {each.name: _json_value(getattr(self, each.name)) for each in fields(self)}
        content["seconds"] = _finite("seconds", self.seconds)
        content["metrics"] = {name: _finite(f"metric {name!r}", value) for name, value in self.metrics.items()}
        content["published"] = {
            name: _finite(f"published figure {name!r}", value) for name, value in self.published.items()
        }
        # Metrics are gathered as replies come in: sorted, their order tells nothing about it.
        for name in ("metrics", "published", "versions", "missing", "config", "differences"):
            content[name] = dict(sorted(content[name].items()))
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `to_json` wrote; keys that this version does not know are passed over.

        Raises
        ------
        ResultsError
            If the text is not such a report.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ResultsError(f"not JSON: {error}") from None
        if not isinstance(content, dict) or "schema" not in content:
            raise ResultsError("not a report: it has no 'schema'")
        if content["schema"] != SCHEMA:
            raise ResultsError(
                f"schema {content['schema']!r} is not the schema {SCHEMA} that this version of consilience reads"
            )
        known = {each.name: each for each in fields(cls)}
        for name, each in known.items():
            if name not in content:
                if each.default is MISSING and each.default_factory is MISSING:
                    raise ResultsError(f"not a report: it has no {name!r}")
            elif not isinstance(content[name], _JSON_TYPES[name]) or isinstance(content[name], bool):
                raise ResultsError(f"not a report: {name!r} is {type(content[name]).__name__}")
        report = cls(**{name: content[name] for name in known if name in content})
        for what, numbers in (("metric", report.metrics), ("published figure", report.published)):
            numbers.update({name: _finite(f"{what} {name!r}", value) for name, value in numbers.items()})
        return report


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("schema", "seed", "rounds"), (int,)),
    **dict.fromkeys(("scenario", "protocol", "command", "session", "shorthand"), (str,)),
    **dict.fromkeys(("sites", "table", "convergence", "notes"), (list,)),
    **dict.fromkeys(
        ("metrics", "published", "ledger", "versions", "missing", "config", "asked", "differences"), (dict,)
    ),
    "seconds": (float, int),
}


def _finite(what: str, value: Any) -> float:
    """`value` as a float, or an error that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ResultsError(f"{what} is not a number: {value!r}") from None
    if not math.isfinite(number):
        raise ResultsError(f"{what} is {number}: a report holds finite numbers only")
    return number


def _json_value(value: Any) -> Any:
    """`value` in JSON's own types: NumPy's unpacked, tuples as lists, no number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True)
class ResultsDirectory:
    """The directory of one run.

    Attributes
    ----------
    partial : Path
        Where the run writes while it is under way, absolute.
    final : Path
        Where its results are once it is complete, absolute.
    """

    partial: Path
    final: Path

    @classmethod
    def open(cls, output_dir: str | Path, name: str, run_id: str | int) -> ResultsDirectory:
        """Create ``OUTPUT-DIR/NAME/.RUN-ID.partial``.

        Raises
        ------
        ResultsError
            If the final directory exists already, the name or the run id is no plain file name, or the directory
            cannot be made.
        """
        for part in (name, str(run_id)):
            if not _is_file_name(part):
                raise ResultsError(f"{part!r} cannot name a results directory: take letters, digits, '-', '_' and '.'")
        final = _absolute(output_dir) / name / str(run_id)
        _refuse_existing(final)
        directory = cls(partial=_partial_of(final), final=final)
        try:
            directory.partial.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(
                f"the results directory {directory.partial} cannot be made: {error.strerror}; set another output-dir"
            ) from error
        return directory

    @property
    def checkpoint(self) -> Path:
        """Where the conversation so far is kept; gone once the run is complete."""
        return self.partial / "checkpoint"

    def finish(
        self,
        report: Report,
        arrays: Mapping[str, Shaped[np.ndarray, "..."]],
        ledger_lines: Iterable[Mapping[str, Any]],
        figures: Mapping[str, bytes | Callable[[], bytes]],
        files: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write everything, then rename the directory to its final name.

        Parameters
        ----------
        report : Report
        arrays : Mapping[str, ndarray]
            The outcome's arrays by documented name; any shape, no Python objects.
        ledger_lines : Iterable of Mapping
            A line for every payload that crossed.
        figures : Mapping[str, bytes or Callable]
            PNG images, or functions that draw them, by file name without ``.png``.
        files : Mapping[str, bytes], optional
            The content of further files, by name.

        Returns
        -------
        Path
            The final directory, absolute.

        Raises
        ------
        ResultsError
            If the report or an array cannot be written as it is, the final directory exists, or the disk refuses;
            the partial directory and its checkpoint are then still there.
        """
        text = report.to_json()
        _refuse_existing(self.final)
        try:
            for name, content in (files or {}).items():
                write_file(self.partial / name, [content])
            self._write(report, text, arrays, ledger_lines, figures)
            os.rename(self.partial, self.final)
        except OSError as error:
            raise ResultsError(
                f"the results could not be written to {self.partial}: {error.strerror or error}; "
                f"when that is mended, go on with resume-from={self.final}"
            ) from error
        # Only now, for a run stopped before the rename goes on from its checkpoint; a rest of it does no harm here.
        shutil.rmtree(self.final / "checkpoint", ignore_errors=True)
        for memory in self.final.glob("sites/*/memory-*"):  # what simulated sites remembered of the run
            shutil.rmtree(memory, ignore_errors=True)
        for folder in (*self.final.glob("sites/*"), self.final / "sites"):  # of sites that have left nothing else
            with contextlib.suppress(OSError):
                folder.rmdir()
        sync_directory(self.final.parent)
        return self.final

    def _write(
        self,
        report: Report,
        text: str,
        arrays: Mapping[str, Shaped[np.ndarray, "..."]],
        ledger_lines: Iterable[Mapping[str, Any]],
        figures: Mapping[str, bytes | Callable[[], bytes]],
    ) -> None:
        for name, array in arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise ResultsError(f"array {name!r} holds Python objects; only numbers and text are written")
        write_arrays(self.partial / "arrays.npz", arrays)
        lines = (json.dumps(_json_value(line), ensure_ascii=False, allow_nan=False) + "\n" for line in ledger_lines)
        write_file(self.partial / "ledger.jsonl", (encoded(line) for line in lines))
        images = {name: image if isinstance(image, bytes) else image() for name, image in figures.items()}
        folder = self.partial / "figures"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier attempt to finish
        folder.mkdir()
        for name, image in images.items():
            if not _is_file_name(name):
                raise ResultsError(f"{name!r} cannot name a figure: take letters, digits, '-', '_' and '.'")
            write_file(folder / f"{name}.png", [image])
        sync_directory(folder)
        write_file(self.partial / "report.json", [encoded(text)])
        if page := _page(report, images, arrays):
            write_file(self.partial / "report.html", [encoded(page)])
        sync_directory(self.partial)

    def adopt(self, previous: str | Path) -> Path:
        """Copy the checkpoint and the sites' directories of an interrupted run into this one.

        Parameters
        ----------
        previous : str or Path
            The interrupted run's results directory as it would have been, ``.../RUN-ID``, or its hidden one. It stays
            as it is.

        Returns
        -------
        Path
            The interrupted run's hidden directory, absolute.

        Raises
        ------
        ResultsError
            If nothing is there, the run is complete, or it was stopped before its first checkpoint.
        """
        source = _interrupted(previous)
        if source == self.partial:
            raise ResultsError(f"resume-from={self.final} names the run itself; name the one that was interrupted")
        staged = self.partial / "checkpoint.copy"
        try:
            if (source / "sites").is_dir():
                shutil.copytree(source / "sites", self.partial / "sites", symlinks=True, dirs_exist_ok=True)
            # Renamed when it is whole: a checkpoint half copied must never be mistaken for one.
            shutil.copytree(source / "checkpoint", staged, symlinks=True)
            os.rename(staged, self.checkpoint)
        except OSError as error:
            raise ResultsError(f"{source} cannot be copied to {self.partial}: {error.strerror or error}") from error
        return source


def _page(report: Report, images: Mapping[str, bytes], arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> str:
    """The page; empty where it cannot be made, for what was learnt is in the other files."""
    try:
        return report_html(report, images, arrays)
    except Exception:
        logger.exception("report.html cannot be made; the other results are written")
        return ""


def load(results_dir: str | Path) -> tuple[Report, dict[str, Shaped[np.ndarray, "..."]]]:
    """The report and the arrays of a complete run.

    Raises
    ------
    ResultsError
        If the path is no results directory, its run was interrupted, or a file in it cannot be read.
    """
    path = _absolute(results_dir)
    final = _final_of(path)
    if final is not None or (not path.exists() and _partial_of(path).is_dir()):
        shown = final or path
        raise ResultsError(f"the run of {shown} was interrupted and has no results; go on with resume-from={shown}")
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


def _partial_of(final: Path) -> Path:
    return final.parent / f".{final.name}{_PARTIAL}"


def _final_of(partial: Path) -> Path | None:
    """Where the results of that hidden directory would go; None if the path does not name a hidden one."""
    name = partial.name
    if name.startswith(".") and name.endswith(_PARTIAL) and len(name) > len(_PARTIAL) + 1:
        return partial.parent / name[1 : -len(_PARTIAL)]
    return None


def _refuse_existing(final: Path) -> None:
    if os.path.lexists(final):
        raise ResultsError(f"{final} exists already and is left as it is; set another output-dir, or move it away")


def _interrupted(previous: str | Path) -> Path:
    """The hidden directory of the interrupted run that the user means, with a checkpoint in it."""
    path = _absolute(previous)
    final = _final_of(path) or path
    partial = _partial_of(final)
    if final.is_dir():
        if (final / "report.json").is_file():
            raise ResultsError(f"the run of {final} is complete: look at it with `consilience show {final}`")
        raise ResultsError(f"{final} is not a results directory; give the path OUTPUT-DIR/NAME/RUN-ID of a run")
    if not partial.is_dir():
        raise ResultsError(f"there is no interrupted run of {final}: neither it nor {partial} exists")
    checkpoint = partial / "checkpoint"
    if not checkpoint.is_dir() or not any(checkpoint.iterdir()):
        raise ResultsError(f"the run of {final} stopped before its first checkpoint; start it anew, no resume-from")
    return partial
