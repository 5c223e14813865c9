"""Figures of a table of several settings: SMSE and MSLL of every part, as curves over K or M, or as dots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from server.figures.drawing import BLUE, GREEN, INK, ORANGE, QUIET, VERMILION, explain, plain, png_panels, scale
from server.figures.figure import Figure
from server.figures.wording import BARS, CROSSES, finite, measured, sentences
from server.report.data import Report, Row
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = {
    "smse": "SMSE (1: always the mean\nof the test outputs)",
    "msll": "MSLL (nats a point; 0: mean and\nvariance of the training outputs)",
}
"""Metrics that are compared, and the labels of their axes."""
_LABELS = ("M", "K", "gate", "rule")
_NAMES = {
    "all": "all experts", "knn": "KNN", "dnn": "DNN", "gaussian": "Gaussian", "ggm": "GGM", "npae": "NPAE",
    "poe": "PoE", "gpoe": "GPoE", "bcm": "BCM", "rbcm": "RBCM", "grbcm": "GRBCM",
}  # fmt: skip
_AXES = {"K": "experts of a point, K (count)", "M": "experts, M (count)"}
_COLORS = {
    "all": INK, "knn": BLUE, "dnn": ORANGE, "gaussian": GREEN, "ggm": VERMILION,
    "npae": BLUE, "grbcm": GREEN, "rbcm": ORANGE, "gpoe": VERMILION, "bcm": "#CC79A7", "poe": "#56B4E9",
}  # fmt: skip
_MARKERS = {
    "all": "P", "knn": "o", "dnn": "s", "gaussian": "^", "ggm": "D",
    "npae": "o", "grbcm": "^", "rbcm": "s", "gpoe": "D", "bcm": "v", "poe": "X",
}  # fmt: skip
_LINES = ("-", "--", ":", "-.")
_APART, _SPREAD = 0.06, 0.4
"""Distance of the points of two curves, and of all, as shares of a step along x: many would coincide."""
_OTHER = (INK, "o")
"""Color and marker of other gates and rules."""
_CURVE = 3
"""Fewest different numbers that are drawn as a curve, not as dots."""
_FAR = 10.0
"""An MSLL beyond this, of intervals far too narrow, makes the axis logarithmic beyond 1."""
_MOST_IN_WORDS = 12
"""Points or curves that an alternative text names."""


@dataclass(frozen=True)
class _Part:
    """Rows of the table in one figure.

    Attributes
    ----------
    rows : tuple of Row
        Rows with a number for one of `METRICS`.
    """

    rows: tuple[Row, ...]

    @property
    def metrics(self) -> list[str]:
        """Metrics that some row has."""
        return [name for name in METRICS if _known(self.rows, name)]

    @property
    def varied(self) -> list[str]:
        """Labels in which the rows differ."""
        return [name for name in _LABELS if len({row.get(name) for row in self.rows}) > 1]

    @property
    def x(self) -> str | None:
        """Label along x: K or M, whichever has more values; None if both have too few."""
        values = {name: {row[name] for row in self.rows if isinstance(row.get(name), int)} for name in ("K", "M")}
        longest = max(values, key=lambda name: len(values[name]))
        return longest if len(values[longest]) >= _CURVE else None

    def grouped(self, names: Iterable[str]) -> dict[str, list[Row]]:
        """Return the rows by these labels, in words."""
        names, groups = list(names), dict[str, list[Row]]()
        for row in self.rows:
            groups.setdefault(_words(row, names), []).append(row)
        return groups

    @property
    def numbers(self) -> list[int]:
        """Numbers along x."""
        return sorted({number for row in self.rows if (number := self.place(row)) is not None})

    def place(self, row: Row) -> int | None:
        """Return the number of a row along x; None if it has none (all experts, over K)."""
        number = row.get(self.x) if self.x is not None else None
        return number if isinstance(number, int) else None

    @property
    def curves(self) -> dict[str, list[Row]]:
        """Rows along x, by the other labels."""
        curves = {
            name: sorted((row for row in rows if self.place(row) is not None), key=lambda row: self.place(row) or 0)
            for name, rows in self._lines.items()
        }
        return {name: rows for name, rows in curves.items() if rows}

    @property
    def levels(self) -> dict[str, list[Row]]:
        """Rows without a place along x, by the other labels: lines across."""
        levels = {name: [row for row in rows if self.place(row) is None] for name, rows in self._lines.items()}
        return {name: rows for name, rows in levels.items() if rows}

    @property
    def _lines(self) -> dict[str, list[Row]]:
        return self.grouped(name for name in self.varied if name != self.x)

    def full(self, metric: str) -> float:
        """Return the metric of one process of all rows; NaN if unknown."""
        return next((value for row in self.rows if math.isfinite(value := finite(row.get(f"{metric}_full")))), math.nan)

    def has_published(self) -> bool:
        """Return whether there is a published figure."""
        return any(math.isfinite(_published(row, metric)) for row in self.rows for metric in self.metrics)


def _known(rows: Iterable[Row], metric: str) -> list[Row]:
    """Return the rows that have the metric."""
    return [row for row in rows if math.isfinite(finite(row.get(metric)))]


def _error(row: Row, metric: str) -> float:
    """Return the standard error; 0 if unknown."""
    error = finite(row.get(f"{metric}_se"))
    return error if math.isfinite(error) else 0.0


def _published(row: Row, metric: str) -> float:
    return finite(row.get(f"{metric} published"))


def _words(row: Row, names: Sequence[str]) -> str:
    """Return labels of a row with the paper's names; K is left out for all experts, which the gate names."""
    words = []
    for name in ("rule", "gate", "M", "K"):
        value = row.get(name)
        if name not in names or value is None or (name == "K" and value == "all"):
            continue
        words.append(_NAMES.get(str(value), str(value)) if name in ("rule", "gate") else f"{name} {value}")
    return ", ".join(words)


def _parts(report: Report) -> dict[str, _Part]:
    """Return the parts of the table by the name of their figure."""
    by_part: dict[str, list[Row]] = {}
    for row in report.table:
        if any(math.isfinite(finite(row.get(metric))) for metric in METRICS):
            by_part.setdefault(str(row.get("part") or "comparison"), []).append(row)
    return {name: _Part(tuple(rows)) for name, rows in by_part.items()}


def table_figures(report: Report) -> list[Figure]:
    """Draw both scores for every part of the table: curves over K or M, or dots."""
    figures = []
    for name, part in _parts(report).items():
        n = len(part.metrics)
        if part.x is None:
            height = 1.8 + 0.3 * len(part.grouped(part.varied))
            image = png_panels(partial(_draw_dots, part=part), n, height, same_x=False)
        else:
            image = png_panels(partial(_draw_curves, part=part), n, 3.2, same_y=False, abreast=1)
        figures.append(Figure(name, image, _caption(report, part), _alt(part)))
    return figures


def _styles(part: _Part) -> dict[str, tuple[str, str, str]]:
    """Return color and marker of every curve by its gate, or its rule if that differs; lines differ otherwise."""
    by_rule = "rule" in part.varied
    alike: dict[tuple[str, str], int] = {}
    styles = {}
    for name, rows in part.curves.items():
        rule, gate = str(rows[0].get("rule")), str(rows[0].get("gate"))
        key = rule if by_rule and (rule != "npae" or "gate" not in part.varied) else gate
        style = _COLORS.get(key, _OTHER[0]), _MARKERS.get(key, _OTHER[1])
        styles[name] = (*style, _LINES[alike.setdefault(style, 0) % len(_LINES)])
        alike[style] += 1
    return styles


# -- curves -----------------------------------------------------------------------------------------------------------


def _draw_curves(panels: Sequence[Axes], part: _Part) -> None:
    assert part.x is not None  # noqa: S101 - curves are drawn over x only
    styles, places, handles = _styles(part), _places(part), dict[str, Any]()
    for axes, metric in zip(panels, part.metrics, strict=True):
        for name, rows in part.curves.items():
            color, marker, line = styles[name]
            if rows := _known(rows, metric):
                handles[plain(name, 40) or "this run"] = axes.errorbar(
                    [places[id(row)] for row in rows], [row[metric] for row in rows],
                    yerr=[_error(row, metric) for row in rows], color=color, marker=marker, linestyle=line,
                    markersize=4.5, linewidth=1.2, capsize=2,
                )[0]  # fmt: skip
        for number, (name, rows) in enumerate(part.levels.items()):
            for row in _known(rows, metric):
                line = ("--", "-.")[number % 2]
                across = axes.axhline(row[metric], color=INK, linestyle=line, linewidth=1.2)
                handles[plain(name, 40) or "all experts"] = across
        handles |= _marks(axes, part, metric, places, upright=True)
        axes.set_xlabel(_AXES[part.x])
        axes.set_xticks(part.numbers)
        axes.set_ylabel(METRICS[metric])
        _fit_scale(axes, "y", part, metric)
    explain(panels[0], list(handles.values()), list(handles), abreast=4)


def _places(part: _Part) -> dict[int, float]:
    """Return the place of each row along x, by the row's identity."""
    curves, numbers = list(part.curves.values()), part.numbers
    nearest = min(after - before for before, after in pairwise(numbers))
    step = nearest * min(_APART, _SPREAD / len(curves))
    return {
        id(row): (part.place(row) or 0) + (place - (len(curves) - 1) / 2) * step
        for place, rows in enumerate(curves)
        for row in rows
    }


def _marks(axes: Axes, part: _Part, metric: str, places: Mapping[int, float], *, upright: bool) -> dict[str, Any]:
    """Draw published figures as crosses at the places of their rows, and one process of all rows as a line."""
    handles: dict[str, Any] = {}
    reported = [(places[id(row)], _published(row, metric)) for row in part.rows if id(row) in places]
    if reported := [each for each in reported if math.isfinite(each[1])]:
        x, y = zip(*(each if upright else each[::-1] for each in reported), strict=True)
        handles["published"] = axes.plot(x, y, color="black", marker="x", markersize=7, linestyle="none", zorder=4)[0]
    if math.isfinite(full := part.full(metric)):
        across = axes.axhline if upright else axes.axvline
        handles["one process of all rows"] = across(full, color=QUIET, linestyle=":", linewidth=1.4, zorder=1)
    return handles


def _fit_scale(axes: Axes, which: str, part: _Part, metric: str) -> None:
    """Make an axis logarithmic if its values span powers of ten, also of MSLL, which may be negative."""
    values = [finite(value) for row in part.rows for value in (row.get(metric), _published(row, metric))]
    values = [value for value in values if math.isfinite(value)]
    axes.margins(0.1)
    if metric == "msll" and max(values, default=0.0) > _FAR:
        axes.set(**{f"{which}scale": "symlog"})
        (axes.xaxis if which == "x" else axes.yaxis).set_major_formatter(lambda value, _: f"{value:g}")
    else:
        scale(axes, which, values)


# -- dots -------------------------------------------------------------------------------------------------------------


def _draw_dots(panels: Sequence[Axes], part: _Part) -> None:
    lines = part.grouped(part.varied)
    places = {id(row): float(place) for place, rows in enumerate(lines.values()) for row in rows}
    handles: dict[str, Any] = {}
    for axes, metric in zip(panels, part.metrics, strict=True):
        rows = _known(part.rows, metric)
        handles["this run"] = axes.errorbar(
            [row[metric] for row in rows], [places[id(row)] for row in rows],
            xerr=[_error(row, metric) for row in rows], color=BLUE, marker="o", linestyle="none", markersize=6,
            capsize=3, zorder=3,
        )[0]  # fmt: skip
        handles |= _marks(axes, part, metric, places, upright=False)
        axes.set_xlabel(METRICS[metric])
        _fit_scale(axes, "x", part, metric)
    panels[0].set_yticks(range(len(lines)), [plain(name, 40) or "this run" for name in lines], fontsize=9)
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    explain(panels[0], list(handles.values()), list(handles))


# -- in words ---------------------------------------------------------------------------------------------------------


def _alt(part: _Part) -> str:
    points = _points(part) if part.x is None else _ends(part)
    cut = f"; and {len(points) - _MOST_IN_WORDS} more" if len(points) > _MOST_IN_WORDS else ""
    full = [f"{metric.upper()} {part.full(metric):.3g}" for metric in part.metrics if math.isfinite(part.full(metric))]
    return sentences(
        f"{_content(part)}: {'; '.join(points[:_MOST_IN_WORDS])}{cut}",
        f"One process of all rows: {', '.join(full)}" if full else "",
    )


def _caption(report: Report, part: _Part) -> str:
    full = any(math.isfinite(part.full(metric)) for metric in part.metrics)
    repeated = counted(int(report.config.get("repetitions", 1)), "repetition")
    return sentences(
        f"{_content(part)}, less is better: {counted(len(part.rows), 'row')} of the table, {repeated},"
        f" {measured(report, n_queries='query point')}",
        [METRICS[metric].replace("\n", " ") for metric in part.metrics],
        "The dotted line is one process of all rows" if full else "",
        f"Points with the same {part.x} are set apart" if part.x is not None and len(part.curves) > 1 else "",
        BARS if any(_error(row, metric) for row in part.rows for metric in part.metrics) else "",
        CROSSES if part.has_published() else "",
    )


def _content(part: _Part) -> str:
    """Return what is compared, over what, and the labels that all rows share."""
    same = _words(part.rows[0], [label for label in _LABELS if label not in part.varied])
    what = " and ".join(metric.upper() for metric in part.metrics)
    over = f" over {part.x}" if part.x is not None else ""
    return f"{what}{over}{f' ({same})' if same else ''}"


def _scores(row: Row, metrics: Sequence[str]) -> str:
    scores = [finite(row.get(metric)) for metric in metrics]
    return " / ".join(f"{score:.3g}" if math.isfinite(score) else "unknown" for score in scores)


def _points(part: _Part) -> list[str]:
    """Return every row's labels and scores."""
    points = [(_words(row, part.varied), _scores(row, part.metrics)) for row in part.rows]
    return [f"{name}: {value}" if name else value for name, value in points]


def _ends(part: _Part) -> list[str]:
    """Return the ends of every curve, and the lines across."""
    parts = []
    for name, rows in part.curves.items():
        ends = [rows[0], rows[-1]] if len(rows) > 1 else rows
        points = " to ".join(f"{_scores(row, part.metrics)} ({part.x} {part.place(row)})" for row in ends)
        parts.append(f"{name}: {points}" if name else points)
    for name, rows in part.levels.items():
        parts += [f"{name or 'all experts'}: {_scores(row, part.metrics)}" for row in rows]
    return parts
