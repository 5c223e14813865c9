"""``consilience runs``: the runs in an output directory."""

from datetime import datetime
from pathlib import Path

from consilience.commands import terminal

_Row = tuple[float, tuple[str, ...]]
"""Time of a run's last change, and its row of the table."""


def list_runs(output_dir: terminal.OutputDir = terminal.RESULTS) -> None:
    """List the runs in an output directory, finished or not, the newest last: name, end, protocol, sites, result."""
    folder = output_dir.expanduser()
    rows = sorted(_find_finished(folder) + _others(folder))
    if not rows:
        terminal.fail(f"there is no run in {output_dir}: name another --output-dir")
    terminal.print_table(("run", "when", "protocol", "sites", "result", "path"), [texts for _, texts in rows])


def _find_finished(output_dir: Path) -> list[_Row]:
    from server.run_names import finished_runs, short_names

    return [
        _row(run, run / "report.json", short_names(folder).get(run.name, folder.name), *_about(run))
        for folder in sorted(output_dir.glob("*"))
        for run in finished_runs(folder)
    ]


def _about(run: Path) -> tuple[str, str, str]:
    """Return protocol, number of sites and first metric of a finished run."""
    from server.report.data import Report
    from server.report.formatting import short
    from server.report.headline import first_metrics

    try:
        report = Report.from_json((run / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "?", "?", "its report.json cannot be read"
    name = next(iter(first_metrics(report)), "")
    return report.protocol, str(len(report.sites)), f"{name} {short(report.metrics[name])}" if name else ""


def _others(output_dir: Path) -> list[_Row]:
    """Return the running and the interrupted runs."""
    from server.progress import FINISHED, status_of
    from server.results import final_of

    rows = []
    for partial in output_dir.glob("*/.*.partial"):
        status = status_of(final_of(partial) or partial)
        if status.state != FINISHED:
            rounds = f"{status.state} after round {len(status.rounds)}"
            rows.append(_row(status.path, partial, partial.parent.name, "", "", rounds))
    return rows


def _row(run: Path, written: Path, *texts: str) -> _Row:
    name, *about = texts
    when = written.stat().st_mtime
    return when, (name, f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M}", *about, str(run))
