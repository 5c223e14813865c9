"""The learners in the space in which k-means clusters them: eigenvectors of the normalized similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from server.figures.drawing import QUIET, explain, png_panels
from server.figures.figure import Figure
from server.figures.sec.styles import cluster_sizes, cluster_style, n_clusters, which
from server.figures.wording import measured, sentences
from server.report.data import Arrays, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEWEST = 3
"""Fewest learners that are drawn."""
_EXPLAINED, _NUMBERED = 6, 30
"""Clusters up to which each is in the legend, or has its number beside it."""
_NO_EIGENVALUE, _NO_LENGTH = 1e-9, 1e-12


@dataclass(frozen=True, eq=False)
class Embedding:
    """Rows of the first eigenvectors, scaled to unit length (Ng, Jordan and Weiss 2001).

    Attributes
    ----------
    rows : ndarray
        ``(n, m)`` coordinates of the learners that can be placed; m is the number of clusters, at least 2.
    labels : ndarray
        ``(n,)`` their clusters; -1: none.
    newcomer : ndarray
        ``(n,)`` learners without a part in the eigenvectors, placed by their similarities to the others (Nystroem).
    """

    rows: Float64[np.ndarray, "n m"]
    labels: Int64[np.ndarray, "n"]
    newcomer: Bool[np.ndarray, "n"]

    @classmethod
    def of(cls, arrays: Arrays) -> Embedding | None:
        """Return the embedding of a run; None if too few learners were clustered."""
        labels, similarity = arrays["labels"], arrays["similarity"]
        new = arrays.get("newcomer", np.zeros(len(labels), bool))
        old = np.flatnonzero(~new & (labels >= 0))
        if len(old) < _FEWEST:
            return None
        s = similarity[np.ix_(old, old)]
        degree = s.sum(axis=1)
        values, vectors = np.linalg.eigh(s / np.sqrt(np.outer(degree, degree)))
        m = min(max(2, n_clusters(arrays)), len(old))
        values, vectors = values[: -m - 1 : -1], vectors[:, : -m - 1 : -1]
        # Signs are arbitrary; these do not depend on the version of LAPACK.
        vectors = vectors * np.sign(np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[np.newaxis], axis=0))
        known = np.nan_to_num(similarity[:, old])
        known[old] = 0
        later = np.flatnonzero(known.sum(axis=1) > 0)
        pull = known[later] / np.sqrt(np.outer(known[later].sum(axis=1), degree))
        placed = pull @ (vectors * np.where(values > _NO_EIGENVALUE, 1 / np.maximum(values, _NO_EIGENVALUE), 0))
        rows = np.concatenate([vectors, placed])
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.divide(rows, length, out=np.zeros_like(rows), where=length > _NO_LENGTH)
        return cls(rows, labels[[*old, *later]], np.arange(len(rows)) >= len(old))

    @property
    def clusters(self) -> list[int]:
        """Clusters with a learner in the embedding."""
        return [label for label in np.unique(self.labels).tolist() if label >= 0]

    @property
    def middles(self) -> Float64[np.ndarray, "c m"]:
        """Mean of each cluster's learners, without newcomers, in the order of `clusters`."""
        old = ~self.newcomer
        return np.array([self.rows[old & (self.labels == label)].mean(axis=0) for label in self.clusters])


def embedding(report: Report, arrays: Arrays) -> Figure | None:
    """Draw the learners in the first eigenvectors; None with too few learners."""
    space = Embedding.of(arrays) if len(arrays.get("similarity", ())) else None
    if space is None:
        return None
    pairs = [(0, 1)] if space.rows.shape[1] == 2 else [(0, 1), (1, 2)]
    draw = partial(_draw, embedding=space, pairs=pairs)
    image = png_panels(draw, len(pairs), 4.2 if len(pairs) == 1 else 3.9, same_x=False, same_y=False)
    caption = sentences(
        f"The learners{which(report)} in the space in which they were clustered: rows of the first eigenvectors of the"
        f" normalized similarity, scaled to unit length (no unit), {measured(report, n_learners='learner')}",
        "Each cluster has its color and marker; open markers are newcomers, placed by their similarities to the"
        " others; learners that cannot be placed, since too little is known of them, are not drawn",
    )
    return Figure("embedding", image, caption, sentences(_distances(space), cluster_sizes(arrays)))


def _draw(panels: Sequence[Axes], embedding: Embedding, pairs: Sequence[tuple[int, int]]) -> None:
    handles: dict[str, Any] = {}
    few = len(embedding.clusters) <= _EXPLAINED
    for axes, (i, j) in zip(panels, pairs, strict=True):
        for label in [*embedding.clusters, -1]:
            color, marker = cluster_style(label) if label >= 0 else (QUIET, "x")
            for new in (False, True):
                chosen = (embedding.labels == label) & (embedding.newcomer == new)
                if not chosen.any():
                    continue
                x, y = embedding.rows[chosen][:, (i, j)].T
                face = "none" if new and label >= 0 else color
                edge: dict[str, Any] = {} if label < 0 else {"edgecolors": color if new else "white"}
                size = 70 if new else 45
                points = axes.scatter(
                    x, y, s=size, c=face, marker=marker, alpha=0.85, linewidths=1.3 if new else 0.5, **edge
                )
                if few or label < 0:
                    handles[_label(label, new=new)] = points
        if not few and len(embedding.clusters) <= _NUMBERED:
            for label, middle in zip(embedding.clusters, embedding.middles, strict=True):
                axes.annotate(str(label), middle[[i, j]], (6, 5), textcoords="offset points", fontsize=8)
        axes.set_xlabel(f"eigenvector {i + 1} (no unit)")
        axes.set_ylabel(f"eigenvector {j + 1} (no unit)")
        axes.set_aspect("equal", adjustable="datalim")  # distances between learners are what counts
        axes.margins(0.12)
    if not few and embedding.newcomer.any():
        handles["newcomer"] = panels[0].scatter([], [], s=70, c="none", edgecolors=QUIET, linewidths=1.3)
    if handles:
        explain(panels[0], list(handles.values()), list(handles), abreast=min(3, len(handles)))


def _label(label: int, *, new: bool) -> str:
    if label < 0:
        return "in no cluster"
    return f"newcomer, {label}" if new else f"cluster {label}"


def _distances(embedding: Embedding) -> str:
    """Return how near learners lie to the middles of their own cluster and of the next, in words."""
    places = np.searchsorted(embedding.clusters, embedding.labels[embedding.labels >= 0])
    rows = embedding.rows[embedding.labels >= 0]
    distances = np.linalg.norm(rows[:, np.newaxis] - embedding.middles, axis=2)
    own = np.take_along_axis(distances, places[:, np.newaxis], axis=1)
    text = f"Learners lie {own.mean():.2g} from the middle of their cluster on average"
    if len(embedding.clusters) > 1:
        np.put_along_axis(distances, places[:, np.newaxis], np.inf, axis=1)
        text += f", and {distances.min(axis=1).mean():.2g} from the next"
    return text
