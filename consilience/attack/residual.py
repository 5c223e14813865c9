"""Attacks on attribute-distributed regression: crafted targets, whose fits reveal the agent's columns.

A fusion center orders a site's rows, names the agents' method and sends the targets. An honest center sends outcome and
residuals. A lying one sends many columns of noise, and the fits reveal the site's columns:

- A path of least angle regression that ends after its first step fits ``a + b x_j`` with the column j that fits the
  target best. With enough targets, every column is the best one for some.
- A tree of depth 1 splits the rows at one value of one column. Many splits of a column order the rows by value.
- A site that allows bins sends the rows' order, to within one of 64 bins; runs with other rows must not refine it.
- A site that holds classes reports log losses of rows that the center chooses. Before the first step they determine the
  number of these rows in each class; if all have the same class, that of each row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float64

from consilience.attack.interface import Attack, Claims
from consilience.attack.site import AttackedSite
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import FEWEST_ROWS, Rules
from protocols.residual.payloads import Bin, Enrol, EntityBins, Fit, FittedValues, FusionStep, Holdings, Lead, Order

_MOST_TARGETS = 500
"""Most targets in an ask."""
_MOST_ASKS = 12
_SAME = 1e-6
_EXACT, _GUESSED = 1e-6, 0.004
"""Half the width of a claimed value, as a share of its column's range: read from a fit, or guessed by its place."""


def true_rows(shard: Columns) -> Float64[np.ndarray, "n q"]:
    """Return the columns of every row, without their units, directions and names, which no fit reveals.

    Who knows the range of a column and what it measures can add these.
    """
    return _without_units(shard.x)


def _without_units(columns: Float64[np.ndarray, "n q"]) -> Float64[np.ndarray, "n q"]:
    """Scale columns to 0..1, turn them so that their mean is at most 1/2, and order them by it."""
    spans = np.ptp(columns, axis=0)
    scaled = (columns - columns.min(axis=0)) / np.where(spans > 0, spans, 1.0)
    turned = np.where(scaled.mean(axis=0) > 0.5, 1.0 - scaled, scaled)
    return np.asarray(turned[:, np.argsort(turned.mean(axis=0), kind="stable")])


class _Center:
    """A lying center in its run with the site: it orders all rows, and then sends targets of its own making."""

    def __init__(self, site: AttackedSite) -> None:
        self.site, self.rng = site, np.random.default_rng(0)
        self.n = self.n_targets = 0

    def start(self, agent: str, align: str = "row-order") -> bool:
        """Start a run in which the agents use this method; False if the site takes no part."""
        if not self.site.start_run({"residual.align": align}):
            return False
        enrolled = self.site.ask(Enrol("x", align))
        if not isinstance(enrolled, Holdings):
            return False
        self.n = enrolled.n
        return self.site.ask(Order(np.arange(self.n), agent, min_leaf=1)) is not None

    def fits(self, targets: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """Return the agent's predictions for targets of all rows; no columns if it refuses."""
        answer = self.site.ask(Fit(np.ascontiguousarray(targets)))
        if not isinstance(answer, FittedValues):
            return np.zeros((self.n, 0))
        self.n_targets += targets.shape[1]
        return answer.fitted.astype(np.float64)

    def noise(self, columns: int) -> Float64[np.ndarray, "n c"]:
        """Return targets that are independent of the rows."""
        return self.rng.standard_normal((self.n, columns))

    @property
    def note(self) -> str:
        return f"targets fitted: {self.n_targets}"


# -- single columns ---------------------------------------------------------------------------------------------------


def single_columns(site: AttackedSite) -> Claims:
    """One step of least angle regression fits noise by a single column, which it so reveals, but for its units."""
    center, p = _Center(site), site.ranges.shape[1]
    if not center.start("lars(max_iter=1, cv=2)"):
        return Claims.none(p, "the site takes no part with this method")
    seen = np.zeros((center.n, 0))
    for _ in range(_MOST_ASKS):
        fits = center.fits(center.noise(_MOST_TARGETS // 5))
        for fit in fits.T[np.ptp(fits, axis=0) > _SAME]:
            column = _without_units(fit[:, None])
            if seen.shape[1] < p and not (np.abs(seen - column) < _SAME).all(axis=0).any():
                seen = np.hstack([seen, column])
        if seen.shape[1] == p or not fits.shape[1]:
            break
    return _claims(seen, p, _EXACT, center.note)


def _claims(columns: Float64[np.ndarray, "n c"], p: int, tolerance: float, note: str) -> Claims:
    """Claim every row if all columns are known, else none."""
    notes = [note, f"columns read, but for their units: {columns.shape[1]} of {p}"]
    if columns.shape[1] < p:
        return Claims.none(p, *notes)
    kinds = [len(np.unique(column)) for column in columns.T]
    notes.append(f"values told apart in a column: {min(kinds)} to {max(kinds)} of {len(columns)} rows")
    return Claims.points(_without_units(columns), tolerance, notes)


# -- order ------------------------------------------------------------------------------------------------------------


def order_of_values(site: AttackedSite) -> Claims:
    """Trees of depth 1 order the rows by each column; the values are guessed to be equally spaced."""
    center, p = _Center(site), site.ranges.shape[1]
    if not center.start("tree(max_depth=1)"):
        return Claims.none(p, "the site takes no part with this method")
    splits = np.zeros((center.n, 0), bool)
    targets = center.noise(_MOST_TARGETS)
    for _ in range(_MOST_ASKS):
        fits = center.fits(targets)
        if not fits.shape[1]:
            break
        splits = np.unique(np.hstack([splits, _upper(fits)]), axis=1)
        # Sums of splits that are known, and noise: the next splits are between them.
        mixture = center.rng.normal(size=(splits.shape[1], _MOST_TARGETS)) * (
            center.rng.random((splits.shape[1], _MOST_TARGETS)) < 3 / max(splits.shape[1], 1)
        )
        targets = splits @ mixture + 0.3 * center.noise(_MOST_TARGETS)
    columns = _columns_of_splits(splits, p)
    return _claims(columns, p, _GUESSED, center.note)


def _upper(fits: Float64[np.ndarray, "n c"]) -> Bool[np.ndarray, "n c"]:
    """Return which rows lie on the other side of each split than the first row; fits of one leaf are left out."""
    upper = fits != fits[:1]
    return np.asarray(upper[:, upper.any(axis=0)])


def _columns_of_splits(splits: Bool[np.ndarray, "n c"], p: int) -> Float64[np.ndarray, "n p"]:
    """Return the share of a column's splits below each row, for up to p columns.

    Two splits of one column leave one of four quarters empty; the most even split that is left begins a column.
    """
    columns: list[Float64[np.ndarray, "n"]] = []
    left = splits[:, np.argsort(np.abs(splits.mean(axis=0) - 0.5))].astype(np.float32)
    while left.shape[1] and len(columns) < p:
        own = left[:, :1]
        for _ in range(2):  # first by the most even split alone, then by those that go with it
            quarters = [a.T @ b for a in (own, 1 - own) for b in (left, 1 - left)]
            member = np.max(np.stack([quarter == 0 for quarter in quarters]), axis=0).mean(axis=0) > 0.95
            own = left[:, member]
        first = own[:, :1]
        same_side = (first * own).sum(axis=0) * len(own) >= first.sum() * own.sum(axis=0)
        columns.append(np.where(same_side, own, 1 - own).mean(axis=1))
        left = left[:, ~member]
    return np.column_stack(columns) if columns else np.zeros((len(splits), 0))


# -- bins -------------------------------------------------------------------------------------------------------------


def bins(site: AttackedSite) -> Claims:
    """Bins order the rows by each column; the values are guessed to be equally spaced."""
    center, p = _Center(site), site.ranges.shape[1]
    order: Float64[np.ndarray, "n p"] | None = None
    for levels in (64, 32, 16):  # each in a run of its own, if there may be several
        if not center.start("tree"):
            break
        answer = site.ask(Bin(levels, 0.0))
        if not isinstance(answer, EntityBins) or not answer.levels.size:
            return Claims.none(p, "the site gives no bins")
        order = answer.bins + (0.0 if order is None else 64 * order)
    if order is None:
        return Claims.none(p, "the site takes no part")
    kinds = [np.unique(column, return_inverse=True, return_counts=True) for column in order.T]
    ranks = np.column_stack([places for _, places, _ in kinds]).astype(np.float64)
    fewest = min(int(counts.min()) for _, _, counts in kinds)
    return Claims.points(_without_units(ranks), _GUESSED, [f"fewest rows that share their bins of a column: {fewest}"])


# -- classes ----------------------------------------------------------------------------------------------------------


def classes_of_rows(site: AttackedSite) -> Claims:
    """The log loss of few test rows before any step tells how many have each class, and whether all have the same."""
    p, n_same, n_asked, place = site.ranges.shape[1], 0, 0, 0
    while site.start_run({"residual.align": "row-order"}):
        enrolled = site.ask(Enrol("x", "row-order", True))
        if not isinstance(enrolled, Holdings) or len(enrolled.classes) != 2:
            return Claims.none(p, "the site holds no outcome of two classes, or shares no secret with others")
        n, name = enrolled.n, site.name
        order = np.roll(np.arange(n), -place)  # the last ones are test rows
        place += FEWEST_ROWS
        site.ask(Order(order, "tree", min_leaf=20, holder=name, names=(name,), public_keys=(enrolled.public_key,)))
        rules = Rules(algorithm="boosted", rounds=0, n_classes=2)
        fused = site.ask(Lead((name,), n - FEWEST_ROWS, rules.to_json(), "float64"))
        if not isinstance(fused, FusionStep):
            return Claims.none(p, "the site refuses to lead so few test rows")
        n_asked += FEWEST_ROWS
        n_same += FEWEST_ROWS * _are_alike(fused.curve[0, 0], fused.curve[0, 2], rules.split(n, n - FEWEST_ROWS).n_fit)
    return Claims.none(p, f"rows whose class is known, up to the classes' names: {n_same} of {n_asked} test rows")


def _are_alike(train: float, test: float, n_fit: int) -> bool:
    """Return whether test rows with this log loss have the same class; that of the training rows tells its share."""
    q = (np.arange(1, n_fit) + 0.5) / (n_fit + 1)  # one imaginary row counts for both classes alike
    shares = np.arange(1, n_fit) / n_fit
    losses = -shares * np.log(q) - (1 - shares) * np.log(1 - q)
    own = q[np.argmin(np.abs(losses - train))]
    return bool(np.isclose(test, -np.log([own, 1 - own]), rtol=1e-9).any())


ATTACKS: Mapping[str, Attack] = {
    "single columns": single_columns,
    "order of values": order_of_values,
    "bins": bins,
    "classes": classes_of_rows,
}
"""By name (`consilience.attack.interface`)."""
