"""SEC's clustering in one place, as plain as possible: what `numerics.sec` is held against.

Written from Ye, Ding and Ghanadan, eq. (3) and algorithm 1, and from Ng, Jordan and Weiss (2002) and Tibshirani,
Walther and Hastie (2001): loops over pairs, all eigenvectors of the full matrix, Lloyd's algorithm from many random
starts. It shares no code with `numerics`. It also draws the paper's linear learners.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64, Int64

Matrix = Float64[np.ndarray, "L L"]
Labels = Int64[np.ndarray, "L"]


def dissimilarity(losses: Matrix, errors: Float64[np.ndarray, "L"]) -> Matrix:
    """Eq. (3); a missing direction is replaced by the other."""
    n = len(errors)
    v = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            one = excess(losses[i, j], errors[j])
            other = excess(losses[j, i], errors[i])
            if math.isnan(one):
                one = other
            if math.isnan(other):
                other = one
            v[i, j] = one + other
    return v


def excess(loss: float, error: float) -> float:
    if math.isnan(loss) or math.isnan(error):
        return math.nan
    return math.inf if math.isinf(loss) or math.isinf(error) else abs(loss - error)


def similarity(v: Matrix, scale: str = "mean") -> Matrix:
    n = len(v)
    pairs = [v[i, j] for i in range(n) for j in range(i) if math.isfinite(v[i, j])]
    unit = float(np.mean(pairs) if scale == "mean" else np.median(pairs))
    return np.asarray(np.exp(-v / unit)) if unit > 0 else np.where(np.isinf(v), 0.0, np.exp(-v))


def nystrom(s: Matrix) -> Matrix:
    """C W^+ C^T by NumPy's pseudo-inverse; known entries stay."""
    landmarks = [i for i in range(len(s)) if not np.isnan(s[i]).any()]
    columns = s[:, landmarks]
    estimate = columns @ np.linalg.pinv(columns[landmarks], rcond=1e-2) @ columns.T
    return np.where(np.isnan(s), np.clip(estimate, 0, 1), s)


def normalized(s: Matrix) -> Matrix:
    degree = s.sum(axis=1)
    return np.asarray(np.diag(degree**-0.5) @ s @ np.diag(degree**-0.5))


def eigengap(s: Matrix, k_min: int = 1, k_max: int = 0) -> int:
    values = sorted(np.linalg.eigvalsh(normalized(s)), reverse=True)
    candidates = range(k_min, (k_max or min(10, len(s) - 1)) + 1)
    return max(candidates, key=lambda k: values[k - 1] - values[k])


def embedding(s: Matrix, k: int) -> Float64[np.ndarray, "L k"]:
    _, vectors = np.linalg.eigh(normalized(s))
    top = vectors[:, ::-1][:, :k]
    return np.asarray(top / np.linalg.norm(top, axis=1, keepdims=True))


def lloyd(points: Float64[np.ndarray, "n d"], k: int, seed: int = 0, starts: int = 30) -> tuple[Labels, float]:
    """The best of many runs from random points: labels, and the sum of squared distances."""
    rng = np.random.default_rng(seed)
    best, labels = math.inf, np.zeros(len(points), np.int64)
    for _ in range(starts):
        centers = points[rng.choice(len(points), k, replace=False)]
        nearest = np.full(len(points), -1)
        for _ in range(50):
            squares = ((points[:, None] - centers) ** 2).sum(axis=2)
            before, nearest = nearest, squares.argmin(axis=1)
            if (nearest == before).all():
                break
            for c in range(k):
                if (nearest == c).any():
                    centers[c] = points[nearest == c].mean(axis=0)
        spread = float(((points - centers[nearest]) ** 2).sum())
        if spread < best:
            best, labels = spread, nearest
    return labels, best


def set_partitions(n: int) -> Iterator[list[int]]:
    """All ways to cluster n learners, numbered in the order of each cluster's first one: Bell's number of them."""
    waiting = [[0]]
    while waiting:
        labels = waiting.pop()
        if len(labels) == n:
            yield labels
        else:
            waiting += [[*labels, label] for label in range(max(labels) + 2)]


def within(s: Matrix, labels: Sequence[int]) -> float:
    """The first term of eq. (4): squared distances within clusters, of the rows of as many eigenvectors as clusters."""
    rows = embedding(s, max(labels) + 1)
    total = 0.0
    for cluster in set(labels):
        members = rows[np.array(labels) == cluster]
        total += sum(float(((a - b) ** 2).sum()) for a in members for b in members) / (2 * len(members))
    return total


def penalized(s: Matrix, penalty: float, k_min: int = 2) -> Labels:
    """The partition that minimizes eq. (4), of all; of equal ones, one of fewest clusters."""
    partitions = [labels for labels in set_partitions(len(s)) if max(labels) + 1 >= k_min]
    return np.array(min(partitions, key=lambda each: (within(s, each) + penalty * (max(each) + 1), max(each))))


def gap_curve(s: Matrix, k_max: int, references: int = 50) -> tuple[list[float], list[float]]:
    """Gap and standard error at 2..k_max."""
    rng = np.random.default_rng(0)
    gaps, errors = [], []
    for k in range(2, k_max + 1):
        rows = embedding(s, k)
        low, high = rows.min(axis=0), rows.max(axis=0)
        logs = [math.log(lloyd(rng.uniform(low, high, rows.shape), k, starts=10)[1]) for _ in range(references)]
        gaps.append(float(np.mean(logs)) - math.log(lloyd(rows, k)[1]))
        errors.append(float(np.std(logs)) * math.sqrt(1 + 1 / references))
    return gaps, errors


def labels(losses: Matrix, errors: Float64[np.ndarray, "L"], k: int = 0, k_min: int = 1, scale: str = "mean") -> Labels:
    """From losses to labels, with the eigen-gap where k is 0."""
    s = similarity(dissimilarity(losses, errors), scale)
    return lloyd(embedding(s, k), k)[0] if (k := k or eigengap(s, k_min)) > 1 else np.zeros(len(s), np.int64)


def linear_learners(
    truth: Labels, p: int, snr: float, seed: int, n: int = 50
) -> tuple[Matrix, Float64[np.ndarray, "L"]]:
    """Losses and errors of least squares fits, with data as in section V-A.

    ``y = beta_k^T x + noise`` with variance p / snr, x and beta_k standard normal, x and y standardized per learner.
    """
    rng = np.random.default_rng(seed)
    beta = rng.normal(size=(int(truth.max()) + 1, p))
    rows, fits = [], []
    for k in truth:
        x = rng.normal(size=(n, p))
        y = x @ beta[k] + math.sqrt(p / snr) * rng.normal(size=n)
        x, y = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
        rows.append((x, y))
        fits.append(np.linalg.lstsq(x, y, rcond=None)[0])
    losses = np.array([[((y - x @ fit) ** 2).mean() for x, y in rows] for fit in fits])
    return losses, np.diag(losses).copy()
