"""``progress.jsonl`` in a results directory: the rounds of a run so far, and the state of the run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.files import encode_text, is_locked, locked_directory
from server.report.data import ResultsError, json_value
from server.results import final_of, partial_of
from strategies.interrupted_run import writing_to

NAME = "progress.jsonl"

RUNNING, FINISHED, INTERRUPTED = "running", "finished", "interrupted"


class ProgressFile:
    r"""File with a line of JSON for every round.

    Parameters
    ----------
    folder : Path
        The directory to which the run writes.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> ProgressFile(folder).write({"round": 1, "sites": 3})
    >>> (folder / "progress.jsonl").read_text()
    '{"round": 1, "sites": 3}\n'
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a round's row to the file; a callback for `strategies.fusion.FusionStrategy`.

        Raises
        ------
        CheckpointError
            If it cannot be written.
        """
        with writing_to(self._path.parent), self._path.open("ab") as file:
            file.write(encode_text(json.dumps(json_value(row), ensure_ascii=False, allow_nan=False) + "\n"))


@contextlib.contextmanager
def progress_file(folder: Path) -> Iterator[ProgressFile]:
    """Yield the progress file of a run. Until the block ends, or the process dies, the run counts as running."""
    with locked_directory(folder):
        yield ProgressFile(folder)


@dataclass(frozen=True)
class RunStatus:
    """State and rounds of a run.

    Attributes
    ----------
    path : Path
        Results directory, ``OUTPUT-DIR/NAME/RUN-ID``, which exists once the run is finished.
    state : str
        ``running``, ``finished`` or ``interrupted``.
    rounds : tuple of Mapping
        A row for every round, as `strategies.result.FusionResult.convergence` has them.
    """

    path: Path
    state: str
    rounds: tuple[Mapping[str, Any], ...]


def status_of(run: str | Path) -> RunStatus:
    """Return state and rounds of a run.

    Parameters
    ----------
    run : str or Path
        Results directory of the run, or the hidden directory to which it writes.

    Raises
    ------
    ResultsError
        If there is no such run.
    """
    path = Path(run).expanduser().absolute()
    final = final_of(path) or path
    partial = partial_of(final)
    if (final / "report.json").is_file():
        return RunStatus(final, FINISHED, _rows(final))
    if not partial.is_dir():
        raise ResultsError(f"there is no run {final}: give OUTPUT-DIR/NAME/RUN-ID, or no run for the newest one")
    state = RUNNING if is_locked(partial) else INTERRUPTED
    rows = _rows(partial)
    return RunStatus(final, state, rows) if partial.is_dir() else status_of(final)  # it may have ended just now


def newest_run(output_dir: str | Path) -> Path:
    """Return the results directory of the run under `output_dir` that has written last, whether it is finished or not.

    Raises
    ------
    ResultsError
        If there is none.
    """
    folder = Path(output_dir).expanduser().absolute()
    runs = [path for path in folder.glob("*/*") if (path / "report.json").is_file() or final_of(path)]
    if not runs:
        raise ResultsError(f"there is no run in {folder}: name one, OUTPUT-DIR/NAME/RUN-ID, or another --output-dir")
    newest = max(runs, key=_last_written)
    return final_of(newest) or newest


def _last_written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return max(each.stat().st_mtime for each in (path, path / NAME) if each.exists())
    return 0.0


def _rows(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the complete lines; the last one may be half written."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8").splitlines(keepends=True)
        return tuple(json.loads(line) for line in lines if line.endswith("\n"))
    except FileNotFoundError:
        return ()  # no round has ended
    except (OSError, ValueError) as error:
        raise ResultsError(f"{folder / NAME} cannot be read: {error}") from None
