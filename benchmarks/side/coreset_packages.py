"""PyPI ``fair-kmeans`` and ``bico``, run by a Python that has them: ``PYTHON benchmarks/coreset_rival.py WAY IN OUT``.

IN is an ``.npz`` with ``x`` (n d), ``colour`` (n), ``k``, ``size`` and ``seeds``; OUT gets the centers of every seed,
``(seeds k d)``, and of the ways that make coresets their ``points``, ``weights`` and ``colours``, one after another.
It prints, as JSON, for every seed the seconds of the processor and by the clock and how many points were clustered, and
the bytes that the process held at most above what it held with the data loaded (0: the system does not say). Nothing of
the project is imported here and nothing of the project imports this: ``bico`` is under the GPL.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def fair(x: Array, weights: Array, colour: Array, k: int, seed: int, fast: bool = False) -> Array:
    """Centers of `fair_kmeans`, full or fast."""
    method = import_module("fair_kmeans").FairKMeans(n_clusters=k, random_state=seed)
    centers: Array = method.fit(x, sample_weight=weights, color=colour, fast=fast).cluster_centers_
    return centers


def coreset(x: Array, size: int, k: int, seed: int) -> tuple[Array, Array]:
    """Points and whole weights of `bico`."""
    method = import_module("bico").BICO(n_clusters=k, summary_size=size, random_state=seed)
    method.fit(np.ascontiguousarray(x))
    return method.coreset_points_.copy(), np.rint(method.coreset_weights_).astype(np.int64)


def coloured_coreset(x: Array, colour: Array, size: int, k: int, seed: int) -> tuple[Array, Array, Array]:
    """Points, weights and colours of one coreset for each colour."""
    parts = [coreset(x[colour == h], size, k, seed) for h in (0, 1)]
    colours = np.repeat([0, 1], [len(points) for points, _ in parts]).astype(np.int32)
    points, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return points, weights, colours


def run(way: str, x: Array, colour: Array, k: int, size: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Centers, and the points, weights and colours that they are of."""
    if way in ("full", "fast"):
        weights = np.ones(len(x), np.int64)
        return fair(x, weights, colour, k, seed, way == "fast"), x, weights, colour
    if way == "coreset":
        points, weights, colours = coloured_coreset(x, colour, size, k, seed)
        return fair(points, weights, colours, k, seed), points, weights, colours
    # Colours unseen; what differs between seeds is the order of the rows too.
    points, weights = coreset(x[np.random.default_rng(seed).permutation(len(x))], size, k, seed)
    method = import_module("sklearn.cluster").KMeans(n_clusters=k, n_init=5, random_state=seed)
    centers = method.fit(points, sample_weight=weights).cluster_centers_
    return centers, points, weights, np.zeros(len(points), np.int32)


def held(key: str) -> int:
    """Bytes that this process holds (``VmRSS``) or held at most (``VmHWM``); 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    """Run one way with every seed."""
    way, source, target = sys.argv[1:]
    with np.load(source) as file:
        x, colour, k, size = file["x"], file["colour"].astype(np.int32), int(file["k"]), int(file["size"])
        seeds = file["seeds"].tolist()
    for name in ("sklearn.cluster", "fair_kmeans", "bico"):  # not in the seconds
        import_module(name)
    loaded = held("VmRSS")
    found, seconds, clock = [], [], []
    for seed in seeds:
        started = time.process_time(), time.perf_counter()
        found.append(run(way, x, colour, k, size, seed))
        seconds.append(time.process_time() - started[0])
        clock.append(time.perf_counter() - started[1])
    peak = held("VmHWM") - loaded
    centers, points, weights, colours = zip(*found, strict=True)
    arrays = {"centers": np.stack(centers)}
    if way not in ("full", "fast"):
        parts = {"points": points, "weights": weights, "colours": colours}
        arrays |= {name: np.concatenate(each) for name, each in parts.items()}
    np.savez(target, **arrays)  # type: ignore[arg-type]
    told = {"seconds": seconds, "clock": clock, "points": [len(each) for each in points], "peak": peak}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
