"""Comparison of several runs, on one page and as one table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocols.settings import run_keys
from server.report.data import Report, ResultsError
from server.report.formatting import counted, folded, human_bytes, human_seconds, listed, number, printable
from server.report.glossary import direction, meaning
from server.report.headline import answer
from server.report.html import figure_texts, value_texts
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
from server.report.protocol import Meaning
from server.report.summary import align, metric_names
from server.results import load

__all__ = ["Run", "compare_html", "notes", "open_runs", "render_comparison"]

_PATHS = {"output-dir", "resume-from"}
"""Keys of places, which do not affect results."""
_BEST, _UNCLEAR = "best", "best, not significantly"
_SIGNS = {"": "", _BEST: " *", _UNCLEAR: " (*)"}
"""Signs of the best value of a row in the terminal."""
_ERRORS = 2.0
"""Standard errors of the difference from which on two numbers differ significantly."""


@dataclass(frozen=True)
class Run:
    """One of the runs that are compared.

    Attributes
    ----------
    label : str
        Name of the run on the page and in the table: ``run 1``.
    path : Path
        Results directory as the user typed it, so that a shared page does not reveal more paths of this machine.
    report : Report
        Report of the run.
    images : Mapping[str, bytes]
        PNG images by the name of their figure.
    """

    label: str
    path: Path
    report: Report
    images: Mapping[str, bytes]


def open_runs(paths: Sequence[Path]) -> list[Run]:
    """Return the runs of these results directories, in this order.

    Raises
    ------
    ResultsError
        If there are fewer than two, one occurs twice, or one cannot be read or was interrupted.
    """
    if len(paths) < 2:
        raise ResultsError("comparing takes two results directories or more")
    runs: dict[Path, Run] = {}
    for place, path in enumerate(paths, 1):
        report, _ = load(path)
        real = path.expanduser().resolve()
        if real in runs:
            raise ResultsError(f"{path} is {runs[real].label} already: name every run once")
        try:
            images = {each.stem: each.read_bytes() for each in sorted((real / "figures").glob("*.png"))}
        except OSError as error:
            raise ResultsError(f"the figures of {path} cannot be read: {error.strerror}") from error
        runs[real] = Run(f"run {place}", path, report, images)
    return list(runs.values())


# -- what keeps runs from being comparable ----------------------------------------------------------------------------


def _other_data(runs: Sequence[Run]) -> list[str]:
    """Return the reasons why the runs' numbers are about different data or questions; empty if they are not."""
    reports = [run.report for run in runs]
    if len(protocols := _values(reports, lambda each: each.protocol)) > 1:
        return [f"the runs have different protocols ({listed(protocols)}), which answer different questions"]
    if len(scenarios := _values(reports, lambda each: each.scenario)) > 1:
        return [f"the runs have different scenarios ({listed(scenarios)}), so different data"]
    keys = [key for key, each in run_keys().items() if each.data]
    unequal = [key for key in keys if len(_values(reports, lambda each, key=key: each.config.get(key, ""))) > 1]  # type: ignore[misc]
    if unequal:
        return [f"the data of the runs differ ({listed(unequal)}): see the settings that differ"]
    return []


def _other_draws(runs: Sequence[Run]) -> list[str]:
    """Return other reasons than settings why numbers differ."""
    reports = [run.report for run in runs]
    reasons = []
    if len(seeds := _values(reports, lambda each: each.seed)) > 1:
        reasons.append(f"the seeds differ ({listed(seeds)}): part of every difference is chance")
    if len(_values(reports, lambda each: tuple(each.sites))) > 1:
        sizes = _values(reports, lambda each: len(each.sites))
        sites = f"{listed(sizes)} sites" if len(sizes) > 1 else "sites with other names"
        reasons.append(f"different sites took part ({sites})")
    if len(times := _values(reports, lambda each: each.config.get("repetitions", 1))) > 1:
        reasons.append(f"the numbers of repetitions differ ({listed(times)})")
    short = [run.label for run in runs if run.report.missing]
    if short:
        reasons.append(f"sites were missing, or left out, in {listed(short)}")
    if len(versions := _values(reports, lambda each: each.versions.get("consilience", "unknown"))) > 1:
        reasons.append(f"the runs have different versions of consilience ({listed(versions)})")
    return reasons


def _values(reports: Sequence[Report], of: Callable[[Report], object]) -> list[str]:
    """Return the distinct values as text, in the order of their first appearance."""
    return list(dict.fromkeys(number(value) for value in map(of, reports)))


def notes(runs: Sequence[Run]) -> list[str]:
    """Return sentences on what limits the comparison of the runs."""
    reasons = [f"{each}; nothing is marked best" for each in _other_data(runs)] + _other_draws(runs)
    return [f"{each[:1].upper()}{each[1:]}." for each in reasons]


# -- the tables -------------------------------------------------------------------------------------------------------


def _best(values: Sequence[float | None], errors: Sequence[float], known: Meaning | None) -> dict[int, str]:
    """Return the marks of the best values by index; none if all are equal, or neither way is better.

    Values equal to the best one up to rounding are best, too.
    """
    present = {place: value for place, value in enumerate(values) if value is not None}
    if known is None or not direction(known) or len(present) < 2:
        return {}

    def badness(value: float) -> float:
        if known.target is not None:
            return abs(value - known.target)
        return value if known.better == "lower" else -value

    order = sorted(present, key=lambda place: badness(present[place]))
    first = present[order[0]]
    equal = [place for place in order if math.isclose(present[place], first, rel_tol=1e-9, abs_tol=1e-15)]
    if len(equal) == len(present):
        return {}
    # All others, not the second alone: a third with a larger error may be as good.
    unclear = any(
        abs(badness(present[place]) - badness(first)) < _ERRORS * math.hypot(errors[order[0]], errors[place])
        for place in order[len(equal) :]
    )
    return dict.fromkeys(equal, _UNCLEAR if unclear else _BEST)


def _meaning(runs: Sequence[Run], name: str) -> Meaning | None:
    """Return the meaning of a metric for the first protocol that has it."""
    protocols = dict.fromkeys(run.report.protocol for run in runs)
    return next((known for protocol in protocols if (known := meaning(protocol, name))), None)


def _metric_rows(
    runs: Sequence[Run], marked: bool, texts_of: Callable[[str, Mapping[str, Any]], dict[str, str]]
) -> list[tuple[str, list[str], list[str], str]]:
    """Return for every metric its name, the value and the mark of every run, and the published figure."""
    texts = [texts_of(run.report.protocol, run.report.metrics) for run in runs]
    published: dict[str, str] = {}
    for run in runs:
        published = {**texts_of(run.report.protocol, run.report.published), **published}
    names = dict.fromkeys(name for run in runs for name in metric_names(run.report))
    rows = []
    for name in names:
        values = [run.report.metrics.get(name) for run in runs]
        errors = [run.report.metrics.get(f"{name}_se", 0.0) for run in runs]
        best = _best(values, errors, _meaning(runs, name)) if marked else {}
        marks = [best.get(place, "") for place in range(len(runs))]
        rows.append((name, [each.get(name, "") for each in texts], marks, published.get(name, "")))
    return rows


def _cost_rows(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    reports = [run.report for run in runs]
    return [
        ("sites", [f"{len(each.sites):,}" for each in reports]),
        ("rounds", [f"{each.rounds:,}" for each in reports]),
        ("to the sites", [human_bytes(each.ledger.get("bytes_to_sites", 0)) for each in reports]),
        ("from the sites", [human_bytes(each.ledger.get("bytes_from_sites", 0)) for each in reports]),
        ("time", [human_seconds(each.seconds) for each in reports]),
    ]


def _setting_rows(runs: Sequence[Run]) -> list[list[Any]]:
    """Return the settings and versions that differ between the runs."""
    rows = []
    groups = {"": [run.report.config for run in runs], " (version)": [run.report.versions for run in runs]}
    for group, every in groups.items():
        for name in sorted({name for each in every for name in each} - _PATHS):
            values = [number(each.get(name)) if each.get(name) != "" else "empty" for each in every]
            if len(set(values)) > 1:
                rows.append([f"{name}{group}", *values])
    return rows


def render_comparison(runs: Sequence[Run]) -> str:
    """Return metrics and costs as text for the terminal, one column a run, the best values with an asterisk."""
    marked = not _other_data(runs)
    header = ["", *(run.label for run in runs), "published"]
    rows = [
        [name, *(f"{value}{_SIGNS[mark]}" for value, mark in zip(values, marks, strict=True)), paper]
        for name, values, marks, paper in _metric_rows(runs, marked, lambda _protocol, values: folded(values))
    ]
    rows += [[name, *values, ""] for name, values in _cost_rows(runs)]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    legend = [
        f"{run.label}: {printable(run.report.scenario)} (protocol {printable(run.report.protocol)}), {run.path}"
        for run in runs
    ]
    remarks = [printable(each) for each in notes(runs)]
    signs = {sign for row in rows for cell in row[1:] for sign in (" (*)", " *") if cell.endswith(sign)}
    if signs:
        remarks.append(f"* best of the row{'; (*) best, but within the standard errors' if ' (*)' in signs else ''}")
    return "\n".join([*legend, "", align([header, *rows]), *([""] if remarks else []), *remarks]) + "\n"


# -- the page ---------------------------------------------------------------------------------------------------------


def compare_html(runs: Sequence[Run]) -> str:
    """Return one self-contained page of two or more runs as HTML text."""
    sections = [
        section("The runs and their answers", _answers(runs)),
        section("Before you compare", bullets(notes(runs))),
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
        title = f"{run.label}: {run.report.scenario}, protocol {run.report.protocol}"
        parts.append(Html(f"<h3>{text(title)}</h3>\n"))
        parts.append(paragraph(unbroken(answer(run.report)), "answer"))
        parts.append(paragraph(str(run.path), "small"))
    return joined(parts)


def _metrics(runs: Sequence[Run]) -> Html:
    marked = not _other_data(runs)
    rows = _metric_rows(runs, marked, value_texts)
    paper = any(row[-1] for row in rows)
    header = ["metric", *(run.label for run in runs), *(["published"] if paper else []), "direction"]
    cells = []
    for name, values, marks, published in rows:
        known = _meaning(runs, name)
        words = named(known.words if known else "", name)
        marked_values = [_mark(value, mark) for value, mark in zip(values, marks, strict=True)]
        cells.append([words, *marked_values, *([published] if paper else []), direction(known)])
    return table("Metrics (± standard error)", header, cells) if cells else Html()


def _mark(value: str, mark: str) -> Html:
    return Html(f'<span class="best">{text(value)}</span><br><span class="good">{mark}</span>') if mark else text(value)


def _costs(runs: Sequence[Run]) -> Html:
    return table("Cost", ["", *(run.label for run in runs)], [[name, *values] for name, values in _cost_rows(runs)])


def _settings(runs: Sequence[Run]) -> Html:
    rows = _setting_rows(runs)
    if not rows:
        return paragraph("None: the runs have the same configuration and versions.")
    return table("Keys and versions", ["key", *(run.label for run in runs)], rows)


def _figures(runs: Sequence[Run]) -> Html:
    """Return the figures; those with the same name are side by side."""
    parts = []
    for name in sorted({name for run in runs for name in run.images}):
        blocks = []
        for run in runs:
            if name in run.images:
                alt, caption, shades = figure_texts(run.report, name)
                blocks.append(figure(run.images[name], f"{run.label}: {alt}", f"{run.label}. {caption}", shades))
        title = text(name.replace("_", " ").capitalize())
        parts.append(Html(f'<h3>{title}</h3>\n<div class="pair">\n{joined(blocks)}</div>\n'))
    return joined(parts)
