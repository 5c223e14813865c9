"""Short names of finished runs: ``wine-3`` is the third run of ``wine`` in an output directory, ``wine`` its newest.

Directories are named by Flower's number of the run (``OUTPUT-DIR/NAME/RUN-ID``), since the sites know their run by it.
When a run is finished, it takes the next number of its name. ``OUTPUT-DIR/NAME/.numbers/3`` holds the run's id: a
number is taken once, by one run, and keeps its meaning when other runs are deleted.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from server.report.data import ResultsError

RESULTS = Path("results")
"""Folder of short names without a folder; the default of the key `output-dir`."""

_NUMBERS = ".numbers"


def take_number(run: Path) -> None:
    """Give a finished run the next number of its name; it gets none if the disk refuses.

    Parameters
    ----------
    run : Path
        Results directory of the run.
    """
    with contextlib.suppress(OSError):
        (run.parent / _NUMBERS).mkdir(exist_ok=True)
        number = max(_numbers(run.parent), default=0) + 1
        while not _take(run.parent / _NUMBERS / str(number), run.name):
            number += 1


def _take(path: Path, run_id: str) -> bool:
    """Write a run's id under a number; False if another run has taken the number."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(run_id)
    except FileExistsError:
        return False
    return True


def _numbers(folder: Path) -> dict[int, str]:
    """Return the ids of the runs in a folder by number."""
    ids = {}
    for path in (folder / _NUMBERS).glob("*"):
        if path.name.isdecimal():
            with contextlib.suppress(OSError, UnicodeDecodeError):
                ids[int(path.name)] = path.read_text(encoding="utf-8")
    return ids


def short_names(folder: Path) -> dict[str, str]:
    """Return the short names of the runs in ``OUTPUT-DIR/NAME``, by run id; a run without a number has none.

    Examples
    --------
    >>> import tempfile
    >>> run = Path(tempfile.mkdtemp()) / "wine" / "7203"
    >>> run.mkdir(parents=True)
    >>> take_number(run)
    >>> short_names(run.parent)
    {'7203': 'wine-1'}
    """
    return {run_id: f"{folder.name}-{number}" for number, run_id in _numbers(folder).items()}


def finished_runs(folder: Path) -> list[Path]:
    """Return the results directories in ``OUTPUT-DIR/NAME``, the newest last, by their numbers.

    The clock may have been set back between two runs. Runs without a number come first, by their time.
    """
    if not folder.is_dir():
        return []
    runs = [path for path in folder.iterdir() if path.name[0] != "." and (path / "report.json").is_file()]
    numbers = {run_id: number for number, run_id in _numbers(folder).items()}
    return sorted(runs, key=lambda run: (numbers.get(run.name, 0), (run / "report.json").stat().st_mtime_ns))


def find_run(name: str | Path) -> Path:
    """Return the results directory of a path or a short name; any other name is returned unchanged.

    Parameters
    ----------
    name : str or Path
        ``OUTPUT-DIR/NAME/RUN-ID``; ``NAME-NUMBER`` or ``NAME``, in the folder ``results`` or in this one; or
        ``OUTPUT-DIR/NAME-NUMBER`` or ``OUTPUT-DIR/NAME``.

    Raises
    ------
    ResultsError
        If several runs have the name.

    Examples
    --------
    >>> find_run("elsewhere/wine-3").as_posix()
    'elsewhere/wine-3'
    """
    path = Path(name).expanduser()
    if (path / "report.json").is_file():
        return path
    places = [path.parent] if len(path.parts) > 1 else [RESULTS, Path()]
    runs = {run.resolve(): run for place in places for run in _find_named(place, path.name)}
    if len(runs) > 1:
        raise ResultsError(f"{name} may be {' or '.join(map(str, runs.values()))}: give the path")
    return next(iter(runs.values()), path)


def _find_named(output_dir: Path, name: str) -> list[Path]:
    """Return the runs of a name in an output directory: perhaps two, of `NAME` and of `NAME-NUMBER`."""
    runs = finished_runs(output_dir / name)[-1:]
    stem, _, number = name.rpartition("-")
    if stem and number.isdecimal() and str(int(number)) == number:
        run_id = _numbers(output_dir / stem).get(int(number))
        run = output_dir / stem / (run_id or "")
        runs += [run] if run_id and (run / "report.json").is_file() else []
    return runs


def find_newest(output_dir: Path) -> Path:
    """Return the results directory of the run that was finished last in an output directory.

    Raises
    ------
    ResultsError
        If there is none.
    """
    folders = sorted(output_dir.expanduser().glob("*")) if output_dir.is_dir() else []
    runs = [run for folder in folders for run in finished_runs(folder)[-1:]]
    if not runs:
        raise ResultsError(f"there is no finished run in {output_dir}: name one, or another --output-dir")
    return max(runs, key=lambda run: (run / "report.json").stat().st_mtime_ns)
