"""Figures of a table of several settings: one for every part of it, as curves over a number or as dots."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from server.figures.coreset.metrics import METRICS, PARTS, Metric
from server.figures.drawing import INK, PALETTE, QUIET, SHAPES, explain, leftmost, plain, png, png_panels, scale
from server.figures.figure import Figure
from server.figures.wording import BARS, CROSSES, finite, measured, sentences
from server.report.data import Report, Row
from server.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AXES = {"rows": "rows (count)", "k": "clusters k (count)", "min_weight": "fewest rows that a point stands for (count)"}
"""Labels of axes."""
_BARE = ("algorithm", "sensitive", "split")
"""Columns whose values need no heading."""
_STYLES = tuple(
    (color, marker, line) for line in ("-", "--", ":") for color, marker in zip(PALETTE, SHAPES, strict=True)
)
_MOST_IN_WORDS = 12
"""Points or curves that an alternative text names."""
_CURVE = 3
"""Fewest different numbers that are drawn as a curve, not as dots."""


@dataclass(frozen=True)
class _Series:
    """Rows of one figure.

    Attributes
    ----------
    metric : Metric
        Metric that is compared.
    rows : tuple of Row
        Rows that have it.
    varied : tuple of str
        Labels in which they differ.
    same : str
        The other labels, in words.
    """

    metric: Metric
    rows: tuple[Row, ...]
    varied: tuple[str, ...]
    same: str

    @property
    def x(self) -> str | None:
        """Label along x: the number with the most values; None if there are too few for a curve."""
        values = {name: {row.get(name) for row in self.rows} for name in self.varied}
        numbers = {name: len(each) for name, each in values.items() if all(isinstance(v, int | float) for v in each)}
        longest = max(numbers, key=lambda name: numbers[name], default=None)
        return longest if longest is not None and numbers[longest] >= _CURVE else None

    def grouped(self, names: Iterable[str]) -> dict[str, list[Row]]:
        """Return the rows by these labels in words: text as it is, a number with its heading."""
        groups: dict[str, list[Row]] = {}
        names = list(names)
        for row in self.rows:
            groups.setdefault(_words(row, names), []).append(row)
        return groups

    def value(self, row: Row) -> float:
        """Return the metric in the unit of the axis."""
        return self.metric.scaled(row[self.metric.name])

    def error(self, row: Row) -> float:
        """Return the standard error; 0 if unknown."""
        return self.metric.scaled(finite(row.get(f"{self.metric.name}_se"), 0.0))

    def published(self, row: Row) -> float:
        """Return the published figure; NaN if there is none, or if it is the line across."""
        figure = finite(row.get(f"{self.metric.name} published"))
        reference = self.metric.reference
        return math.nan if reference is not None and figure == reference[0] else self.metric.scaled(figure)


def _words(row: Row, names: Sequence[str], bare: Collection[str] = _BARE) -> str:
    """Return labels of a row in words, each with its heading unless it is one of `bare`."""
    labels = [(name, row[name]) for name in names if row.get(name) is not None]
    texts = [
        (name.replace("_", " "), name in bare, f"{v:g}" if isinstance(v, int | float) else v) for name, v in labels
    ]
    return ", ".join(str(value) if alone else f"{name} {value}" for name, alone, value in texts)


def _labels(report: Report, row: Row) -> list[str]:
    """Return the leading columns of a row, up to the first metric; ``balance`` may be a setting, too."""

    def label(name: str) -> bool:
        measured = name in METRICS or (name in report.metrics and name != "balance")
        return not (measured or name.endswith(("_se", " published")))

    return [name for name in takewhile(label, row) if name != "part"]


def _parts(report: Report) -> dict[str, _Series]:
    """Return the series by the name of the figure: that of the part, or of the metric if a part has several."""
    parts: dict[str, list[Row]] = {}
    for row in report.table:
        parts.setdefault(str(row.get("part", "")), []).append(row)
    series = {}
    for part, rows in parts.items():
        metrics = [
            each for each in PARTS.get(part, METRICS) if any(math.isfinite(finite(row.get(each))) for row in rows)
        ]
        for place, metric in enumerate(metrics if part in PARTS else metrics[:1]):
            series[metric if place or not part else part] = _series(report, rows, METRICS[metric])
    return series


def _series(report: Report, rows: Sequence[Row], metric: Metric) -> _Series:
    known = tuple(row for row in rows if math.isfinite(finite(row.get(metric.name))))
    labels = list(dict.fromkeys(name for row in known for name in _labels(report, row)))
    if metric.name == "fairlet_share":  # fairlets do not depend on the algorithm
        labels = [name for name in labels if name != "algorithm"]
        known = tuple({tuple(row.get(name) for name in labels): row for row in known}.values())
    varied = tuple(name for name in labels if len({row.get(name) for row in known}) > 1)
    return _Series(
        metric, known, varied, _words(known[0], [name for name in labels if name not in varied], ("algorithm",))
    )


def table_figures(report: Report) -> list[Figure]:
    """Draw a figure for every part of the table: curves over a number, or dots."""
    figures = []
    for name, series in _parts(report).items():
        if series.x is None:
            lines = len(series.grouped(_split(series)[0]))
            image = png(partial(_draw_dots, series=series), height=1.6 + 0.34 * lines)
        else:
            image = png_panels(partial(_draw_curves, series=series), len(series.grouped(_panel(series))), 3.8)
        figures.append(Figure(name, image, _caption(report, series), _alt(series)))
    return figures


# -- curves -----------------------------------------------------------------------------------------------------------


def _panel(series: _Series) -> list[str]:
    """Return the labels whose values have their own panels: costs in different units are not comparable."""
    return [name for name in series.varied if name == "scale" and name != series.x]


def _draw_curves(panels: Sequence[Axes], series: _Series) -> None:
    x = series.x
    assert x is not None  # noqa: S101 - curves are drawn over x only
    groups = [name for name in series.varied if name not in (x, *_panel(series))]
    styles = {name: _STYLES[number % len(_STYLES)] for number, name in enumerate(series.grouped(groups))}
    handles: dict[str, Any] = {}
    for axes, (title, rows) in zip(panels, series.grouped(_panel(series)).items(), strict=True):
        for name in dict.fromkeys(_words(row, groups) for row in rows):
            curve = sorted((row for row in rows if _words(row, groups) == name), key=lambda row: float(row[x]))
            handles[plain(name) or "this run"] = _curve(axes, series, x, curve, styles[name])
        handles |= _marks(axes, series, rows, lambda row: float(row[x]), upright=True)
        axes.set_title(plain(title))
        axes.set_xlabel(_AXES.get(x, plain(x)))
        axes.margins(y=0.12)
        scale(axes, "x", sorted({float(row[x]) for row in series.rows}))
    leftmost(panels, series.metric.axis)
    if len(handles) > 1:
        explain(panels[0], list(handles.values()), list(handles), abreast=2)


def _curve(axes: Axes, series: _Series, x: str, rows: Sequence[Row], style: tuple[str, str, str]) -> Any:
    color, marker, line = style
    return axes.errorbar(
        [row[x] for row in rows], [series.value(row) for row in rows], yerr=[series.error(row) for row in rows],
        color=color, marker=marker, linestyle=line, markersize=4, linewidth=1.2, capsize=2,
    )[0]  # fmt: skip


def _marks(
    axes: Axes, series: _Series, rows: Sequence[Row], place: Callable[[Row], float], *, upright: bool
) -> dict[str, Any]:
    """Draw the published figures as crosses at the places of their rows, and the reference as a line across."""
    handles: dict[str, Any] = {}
    if published := [(place(row), series.published(row)) for row in rows if math.isfinite(series.published(row))]:
        x, y = zip(*(each if upright else each[::-1] for each in published), strict=True)
        handles["published"] = axes.plot(x, y, color=INK, marker="x", markersize=7, linestyle="none", zorder=4)[0]
    if series.metric.reference is not None:
        value, what = series.metric.reference
        across = axes.axhline if upright else axes.axvline
        handles[f"{what}: {series.metric.text(value)}"] = across(
            series.metric.scaled(value), color=QUIET, linestyle=":", linewidth=1.3, zorder=1
        )
    return handles


# -- dots -------------------------------------------------------------------------------------------------------------


def _split(series: _Series) -> tuple[list[str], list[str]]:
    """Return the labels whose values have their own lines, and those whose values have their own markers."""
    texts = [name for name in series.varied if any(isinstance(row.get(name), str) for row in series.rows)]
    return (texts, [name for name in series.varied if name not in texts]) if texts else (list(series.varied), [])


def _draw_dots(axes: Axes, series: _Series) -> None:
    lines, markers = _split(series)
    places = {name: place for place, name in enumerate(series.grouped(lines))}
    styles = {name: _STYLES[number % len(_STYLES)] for number, name in enumerate(series.grouped(markers))}
    handles: dict[str, Any] = {}
    for name, (color, marker, _) in styles.items():
        rows = [row for row in series.rows if _words(row, markers) == name]
        handles[plain(name) or "this run"] = axes.errorbar(
            [series.value(row) for row in rows], [places[_words(row, lines)] for row in rows],
            xerr=[series.error(row) for row in rows], color=color, marker=marker, linestyle="none", markersize=6,
            capsize=3, zorder=3,
        )[0]  # fmt: skip
    handles |= _marks(axes, series, series.rows, lambda row: places[_words(row, lines)], upright=False)
    axes.set_yticks(range(len(places)), [plain(name) or "this run" for name in places])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_xlabel(series.metric.axis)
    if len(handles) > 1:
        explain(axes, list(handles.values()), list(handles), abreast=2)


# -- in words ----------------------------------------------------------------------------------------------------------


def _alt(series: _Series) -> str:
    """Return the points of the figure, or the ends of its curves."""
    points = _points(series) if series.x is None else _ends(series)
    cut = f"; and {len(points) - _MOST_IN_WORDS} more" if len(points) > _MOST_IN_WORDS else ""
    same = f" ({series.same})" if series.same else ""
    return sentences(f"{series.metric.words}{same}: {'; '.join(points[:_MOST_IN_WORDS])}{cut}", _largest_gain(series))


def _caption(report: Report, series: _Series) -> str:
    over = f" over {_AXES.get(series.x, series.x)}" if series.x is not None else ""
    repeated = counted(int(report.config.get("repetitions", 1)), "repetition")
    reference = ""
    if series.metric.reference is not None:
        value, what = series.metric.reference
        reference = f"the dotted line is {what}, {series.metric.text(value)}"
    return sentences(
        f"{series.metric.axis.replace(chr(10), ' ')}{over}{f'; {series.same}' if series.same else ''}:"
        f" {counted(len(series.rows), 'row')} of the table, {repeated}, {measured(report)}",
        reference,
        BARS if any(series.error(row) for row in series.rows) else "",
        CROSSES if any(math.isfinite(series.published(row)) for row in series.rows) else "",
    )


def _points(series: _Series) -> list[str]:
    """Return every row's labels and value."""
    points = [(_words(row, series.varied), series.metric.text(row[series.metric.name])) for row in series.rows]
    return [f"{name}: {value}" if name else value for name, value in points]


def _ends(series: _Series) -> list[str]:
    """Return every point of a single curve, or the ends of several ones."""
    x, parts = series.x, []
    assert x is not None  # noqa: S101 - curves are drawn over x only
    groups = series.grouped(name for name in series.varied if name != x)
    for name, rows in groups.items():
        curve = sorted(rows, key=lambda row: float(row[x]))
        if len(groups) > 1:
            curve = [curve[0], *curve[-1:]] if len(curve) > 1 else curve
        points = [f"{series.metric.text(row[series.metric.name])} ({_words(row, [x])})" for row in curve]
        parts.append(f"{name}: {' to '.join(points)}" if name else ", ".join(points))
    return parts


def _largest_gain(series: _Series) -> list[str]:
    """Return the largest gain of fair k-means++ over reassigned CKLV, beside the paper's."""
    if series.metric.name != "relative":
        return []
    rows = [row for row in series.rows if math.isfinite(finite(row.get("gain")))]
    own = [row for row in rows if row.get("algorithm") == "fair-kmeans++"]
    if not own:
        return []
    published = [finite(row["gain published"]) for row in own if "gain published" in row]
    beside = f", in the paper up to {100 * max(published):.3g} %" if published else ""
    most = max(finite(row["gain"]) for row in own)
    return [f"the largest gain of fair k-means++ over reassigned CKLV is {100 * most:.3g} %{beside}"]
