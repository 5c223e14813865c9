"""Several runs on one page, and in one table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocols.settings import run_keys
from server.figures import alt_text, caption
from server.figures.wording import Arrays
from server.report.formatting import counted, folded, grouped, human_bytes, human_seconds, listed, number, printable
from server.report.glossary import Meaning, direction, meaning
from server.report.headline import answer
from server.report.markup import (
    Html,
    bullets,
    document,
    figure,
    joined,
    named,
    paragraph,
    section,
    table,
    text,
    unbroken,
)
from server.report.summary import aligned, metric_names
from server.results import Report, ResultsError, load

__all__ = ["Run", "compare_html", "notes", "open_runs", "render_comparison"]

_PLACES = {"output-dir", "resume-from"}
"""Keys that say where results are, not what they are."""
_SIGNS = {"": "", "best": " *", "best, within the errors": " (*)"}
"""How a terminal shows which value of a row is best."""
_ERRORS = 2.0
"""How many standard errors of the difference tell two numbers apart."""


@dataclass(frozen=True)
class Run:
    """A finished run among others.

    Attributes
    ----------
    label : str
        What it is called on the page and in the table: ``run 1``.
    path : Path
        Its results directory as it was named: a page that is sent on says no more of this machine than that.
    report : Report
    arrays : Mapping[str, ndarray]
        Of its results, from which the images' alternative texts tell numbers.
    figures : Mapping[str, bytes]
        PNG images by name.
    """

    label: str
    path: Path
    report: Report
    arrays: Arrays
    figures: Mapping[str, bytes]


def open_runs(paths: Sequence[Path]) -> list[Run]:
    """The runs whose results directories are named, in this order.

    Raises
    ------
    ResultsError
        If fewer than two are named, one is named twice, or one cannot be read or was interrupted.
    """
    if len(paths) < 2:
        raise ResultsError("comparing takes two results directories or more")
    found: dict[Path, Run] = {}
    for place, path in enumerate(paths, 1):
        report, arrays = load(path)
        real = path.expanduser().resolve()
        if real in found:
            raise ResultsError(f"{path} is {found[real].label} already: name every run once")
        try:
            images = {each.stem: each.read_bytes() for each in sorted((real / "figures").glob("*.png"))}
        except OSError as error:
            raise ResultsError(f"the figures of {path} cannot be read: {error.strerror}") from error
        found[real] = Run(f"run {place}", path, report, arrays, images)
    return list(found.values())


# -- what may be compared ---------------------------------------------------------------------------------------------


def _of_other_data(runs: Sequence[Run]) -> list[str]:
    """Why the runs' numbers are not of the same data, or not of the same question; empty where they seem to be."""
    reports = [run.report for run in runs]
    if len(protocols := _values(reports, lambda each: each.protocol)) > 1:
        return [f"the runs are of other protocols ({listed(protocols)}), which answer other questions"]
    if len(scenarios := _values(reports, lambda each: each.scenario)) > 1:
        return [f"the runs are of other scenarios ({listed(scenarios)}), so of other data"]
    worlds = [key for key, each in run_keys().items() if each.data]
    unlike = [key for key in worlds if len(_values(reports, lambda each, key=key: each.config.get(key, ""))) > 1]  # type: ignore[misc]
    if unlike:
        return [f"the data of the runs differ ({listed(unlike)}): see the settings that differ"]
    return []


def _of_other_draws(runs: Sequence[Run]) -> list[str]:
    """What makes numbers differ that is not in the settings under comparison."""
    reports = [run.report for run in runs]
    found = []
    if len(seeds := _values(reports, lambda each: each.seed)) > 1:
        found.append(f"the seeds differ ({listed(seeds)}): part of every difference is chance")
    if len(_values(reports, lambda each: tuple(each.sites))) > 1:
        sizes = _values(reports, lambda each: len(each.sites))
        told = f"{listed(sizes)} sites" if len(sizes) > 1 else "sites of other names"
        found.append(f"other sites took part ({told})")
    if len(times := _values(reports, lambda each: each.config.get("repetitions", 1))) > 1:
        found.append(f"the numbers of repetitions differ ({listed(times)})")
    short = [run.label for run in runs if run.report.missing]
    if short:
        found.append(f"sites were missing, or left out, in {listed(short)}")
    if len(made := _values(reports, lambda each: each.versions.get("consilience", "unknown"))) > 1:
        found.append(f"other versions of consilience made them ({listed(made)})")
    return found


def _values(reports: Sequence[Report], of: Callable[[Report], object]) -> list[str]:
    """Different values, as text, in the order in which they come."""
    return list(dict.fromkeys(number(value) for value in map(of, reports)))


def notes(runs: Sequence[Run]) -> list[str]:
    """Sentences on what keeps the runs from being comparable; the first says so, if nothing can be called best."""
    other = _of_other_data(runs)
    told = [f"{each}; nothing is marked best" for each in other] + _of_other_draws(runs)
    return [f"{each[:1].upper()}{each[1:]}." for each in told]


# -- the tables -------------------------------------------------------------------------------------------------------


def _best(values: Sequence[float | None], errors: Sequence[float], known: Meaning | None) -> dict[int, str]:
    """Which of the values is best: by its place ``best``, or ``best, within the errors``; nothing where all are equal.

    Values that are as good as the best one to the last digits are best, too.
    """
    there = {place: value for place, value in enumerate(values) if value is not None}
    if known is None or not direction(known) or len(there) < 2:
        return {}

    def badness(value: float) -> float:
        if known.target is not None:
            return abs(value - known.target)
        return value if known.better == "lower" else -value

    order = sorted(there, key=lambda place: badness(there[place]))
    first = there[order[0]]
    equal = [place for place in order if math.isclose(there[place], first, rel_tol=1e-9, abs_tol=1e-15)]
    if len(equal) == len(there):
        return {}
    # Not the second alone: a third with a larger error may be as good.
    unclear = any(
        abs(badness(there[place]) - badness(first)) < _ERRORS * math.hypot(errors[order[0]], errors[place])
        for place in order[len(equal) :]
    )
    return dict.fromkeys(equal, "best, within the errors" if unclear else "best")


def _metric_rows(runs: Sequence[Run], marked: bool) -> list[tuple[str, list[str], list[str], str]]:
    """By metric: the name, every run's value, how each is marked, and the paper's figure."""
    shown = [folded(run.report.metrics) for run in runs]
    published: dict[str, str] = {}
    for run in runs:
        published = {**folded(run.report.published), **published}
    names = dict.fromkeys(name for run in runs for name in metric_names(run.report))
    rows = []
    for name in names:
        values = [run.report.metrics.get(name) for run in runs]
        errors = [run.report.metrics.get(f"{name}_se", 0.0) for run in runs]
        best = _best(values, errors, meaning(name)) if marked else {}
        marks = [best.get(place, "") for place in range(len(runs))]
        rows.append((name, [each.get(name, "") for each in shown], marks, published.get(name, "")))
    return rows


def _cost_rows(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    reports = [run.report for run in runs]
    return [
        ("sites", [grouped(len(each.sites)) for each in reports]),
        ("rounds", [grouped(each.rounds) for each in reports]),
        ("to the sites", [human_bytes(each.ledger.get("bytes_to_sites", 0)) for each in reports]),
        ("from the sites", [human_bytes(each.ledger.get("bytes_from_sites", 0)) for each in reports]),
        ("time", [human_seconds(each.seconds) for each in reports]),
    ]


def _unlike(runs: Sequence[Run]) -> list[list[Any]]:
    """Rows of settings and versions that are not the same in all runs."""
    rows = []
    groups = {"": [run.report.config for run in runs], " (version)": [run.report.versions for run in runs]}
    for group, every in groups.items():
        for name in sorted({name for each in every for name in each} - _PLACES):
            values = [number(each.get(name)) if each.get(name) != "" else "empty" for each in every]
            if len(set(values)) > 1:
                rows.append([f"{name}{group}", *values])
    return rows


def render_comparison(runs: Sequence[Run]) -> str:
    """A short table for the terminal: metrics and cost, a column a run, the best marked with an asterisk."""
    marked = not _of_other_data(runs)
    header = ["", *(run.label for run in runs), "published"]
    rows = [
        [name, *(f"{value}{_SIGNS[mark]}" for value, mark in zip(values, marks, strict=True)), paper]
        for name, values, marks, paper in _metric_rows(runs, marked)
    ]
    rows += [[name, *values, ""] for name, values in _cost_rows(runs)]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    legend = [
        f"{run.label}: {printable(run.report.scenario)} (protocol {printable(run.report.protocol)}), {run.path}"
        for run in runs
    ]
    said = [printable(each) for each in notes(runs)]
    signs = {sign for row in rows for cell in row[1:] for sign in (" (*)", " *") if cell.endswith(sign)}
    if signs:
        said.append(f"* best of the row{'; (*) best, but within the standard errors' if ' (*)' in signs else ''}")
    return "\n".join([*legend, "", aligned([header, *rows]), *([""] if said else []), *said]) + "\n"


# -- the page ---------------------------------------------------------------------------------------------------------


def compare_html(runs: Sequence[Run]) -> str:
    """One self-contained page of several runs, made as a run's own page is.

    Parameters
    ----------
    runs : Sequence of Run
        Two or more.

    Returns
    -------
    str
        The page as HTML text.
    """
    sections = [
        section("The runs and their answers", _answers(runs)),
        section("What to mind", bullets(notes(runs))),
        section("Metrics side by side", _metrics(runs)),
        section("Cost side by side", _costs(runs)),
        section("Settings that differ", _settings(runs)),
        section("Figures side by side", _figures(runs)),
    ]
    title = f"{counted(len(runs), 'run')} compared"
    names = listed(dict.fromkeys(run.report.scenario for run in runs))
    header = joined(
        [paragraph("Comparison of runs", "kind"), Html(f"<h1>{text(title)}</h1>\n"), paragraph(names, "question")]
    )
    return document(f"{title}: {names}", header, sections, "Written by consilience from the report.json of every run.")


def _answers(runs: Sequence[Run]) -> Html:
    parts = []
    for run in runs:
        what = f"{run.label}: {run.report.scenario}, protocol {run.report.protocol}"
        parts.append(Html(f"<h3>{text(what)}</h3>\n"))
        parts.append(paragraph(unbroken(answer(run.report)), "answer"))
        parts.append(paragraph(str(run.path), "small"))
    return joined(parts)


def _metrics(runs: Sequence[Run]) -> Html:
    marked = not _of_other_data(runs)
    rows = _metric_rows(runs, marked)
    paper = any(row[-1] for row in rows)
    header = ["metric", *(run.label for run in runs), *(["published"] if paper else []), "which way"]
    cells = []
    for name, values, marks, published in rows:
        known = meaning(name)
        words = named(known.words if known else "", name)
        told = [_marked(value, mark) for value, mark in zip(values, marks, strict=True)]
        cells.append([words, *told, *([published] if paper else []), direction(known)])
    return table("Metrics (± standard error)", header, cells) if cells else Html()


def _marked(value: str, mark: str) -> Html:
    return Html(f'<span class="best">{text(value)}</span><br><span class="good">{mark}</span>') if mark else text(value)


def _costs(runs: Sequence[Run]) -> Html:
    return table("Cost", ["", *(run.label for run in runs)], [[name, *values] for name, values in _cost_rows(runs)])


def _settings(runs: Sequence[Run]) -> Html:
    rows = _unlike(runs)
    if not rows:
        return paragraph("None: the runs have the same configuration and versions.")
    return table("Keys and versions", ["key", *(run.label for run in runs)], rows)


def _figures(runs: Sequence[Run]) -> Html:
    """Figures of one name next to each other; those of a single run by themselves."""
    parts = []
    for name in sorted({name for run in runs for name in run.figures}):
        shown = [
            figure(
                run.figures[name],
                f"{run.label}: {alt_text(run.report, name, run.arrays)}",
                f"{run.label}. {caption(run.report, name)}",
            )
            for run in runs
            if name in run.figures
        ]
        parts.append(
            Html(f'<h3>{text(name.replace("_", " ").capitalize())}</h3>\n<div class="pair">\n{joined(shown)}</div>\n')
        )
    return joined(parts)
