"""PyPI ``fair-kmeans`` and ``bico``, by a Python that has them: ``PYTHON side/coreset_packages.py WAY IN OUT``.

IN is an ``.npz`` with ``x`` (n d), ``group`` (n), ``k``, ``size`` and ``seeds``; OUT gets the centers of every seed,
``(seeds k d)``. It prints as JSON the seconds of wall time of every seed, and the highest number of bytes of the
process above those with the data loaded (0: unknown). It imports nothing of the project, and nothing of the project
imports it: ``bico`` is under the GPL.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def fair(x: Array, weights: Array, group: Array, k: int, seed: int, fast: bool = False) -> Array:
    """Return the centers of `fair_kmeans`, full or fast."""
    method = import_module("fair_kmeans").FairKMeans(n_clusters=k, random_state=seed)
    centers: Array = method.fit(x, sample_weight=weights, color=group, fast=fast).cluster_centers_
    return centers


def coreset(x: Array, size: int, k: int, seed: int) -> tuple[Array, Array]:
    """Return the points and whole weights of `bico`."""
    method = import_module("bico").BICO(n_clusters=k, summary_size=size, random_state=seed)
    method.fit(np.ascontiguousarray(x))
    return method.coreset_points_.copy(), np.rint(method.coreset_weights_).astype(np.int64)


def grouped_coreset(x: Array, group: Array, size: int, k: int, seed: int) -> tuple[Array, Array, Array]:
    """Return points, weights and groups of one coreset for each group."""
    parts = [coreset(x[group == h], size, k, seed) for h in (0, 1)]
    groups = np.repeat([0, 1], [len(points) for points, _ in parts]).astype(np.int32)
    points, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return points, weights, groups


def run(way: str, x: Array, group: Array, k: int, size: int, seed: int) -> Array:
    """Return the centers of ``full`` or ``fast`` fair k-means, or of the full one on a ``coreset``."""
    if way == "coreset":
        points, weights, groups = grouped_coreset(x, group, size, k, seed)
        return fair(points, weights, groups, k, seed)
    return fair(x, np.ones(len(x), np.int64), group, k, seed, way == "fast")


def memory(key: str) -> int:
    """Return the bytes that this process holds (``VmRSS``) or held at most (``VmHWM``); 0 if unknown."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    """Run one way with every seed."""
    way, source, target = sys.argv[1:]
    with np.load(source) as file:
        x, group, k, size = file["x"], file["group"].astype(np.int32), int(file["k"]), int(file["size"])
        seeds = file["seeds"].tolist()
    for name in ("sklearn.cluster", "fair_kmeans", "bico"):  # not in the seconds
        import_module(name)
    loaded = memory("VmRSS")
    centers, seconds = [], []
    for seed in seeds:
        started = time.perf_counter()
        centers.append(run(way, x, group, k, size, seed))
        seconds.append(time.perf_counter() - started)
    np.savez(target, centers=np.stack(centers))
    print(json.dumps({"seconds": seconds, "peak": memory("VmHWM") - loaded}))


if __name__ == "__main__":
    main()
