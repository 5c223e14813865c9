"""coreset on small sites compared with all rows in one place: ``python -m benchmarks.refinement``.

Costs are divided by the lowest of five runs of fair k-means++ on all rows. Either only the coreset's points are
assigned to centers, or all rows are, after 0, 5, 10 and 20 rounds that move the centers. The price of fairness is also
that of all rows in one place, relative to centers of k-means++. The whole protocol runs in this process. The data are
those of the directory `CONSILIENCE_DATA`.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from benchmarks.driver import config_of
from benchmarks.side import data_setting
from benchmarks.side.protocol import run_protocol
from benchmarks.tables import table_head, table_row
from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.clustering import fair_clustering, plain_clustering
from numerics.shared.threads import single_threaded
from scenarios.registry import find

WORLDS = ("coreset-adult", "coreset-diabetes", "coreset-synthetic")
ROUNDS = (0, 5, 10, 20)
SITES = 5
_STARTS = 5
_Rows = tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]


def pooled_costs(rows: _Rows, k: int) -> tuple[float, float]:
    """Return the lowest costs of five fair and of five plain clusterings of all rows."""
    x, group = rows
    weights, totals = np.ones(len(x), np.int64), np.bincount(group)
    bounds = Bounds.of(totals / len(x), 1.0)
    with single_threaded():
        fair = min(
            fair_clustering(x, weights, group, bounds, k, restarts=1, rng=np.random.default_rng(seed)).cost
            for seed in range(_STARTS)
        )
        plain = plain_clustering(x, weights, k, restarts=_STARTS, rng=np.random.default_rng(0))[1]
    return fair, plain


def measure(world: str, n: int, k: int, split: str, seed: int, masked: bool = False) -> Mapping[str, list[float]]:
    """Return cost over the pooled cost, price of fairness, rounds, and megabytes from all sites, by method."""
    data: dict[str, Any] = {} if world == "coreset-synthetic" else {"data": data_setting()}
    config = config_of(world, seed, coreset__rows=n, coreset__split=split, **data)
    shards = find(world).shards(config, seed, SITES)
    blocks = list(itertools.chain.from_iterable(each.blocks() for each in shards))
    x, group = np.concatenate([each.x for each in blocks]), np.concatenate([each.group for each in blocks])
    fair, plain = pooled_costs((x / x.std(axis=0), group), k)
    results = {"pooled": [1.0, fair / plain - 1, 0.0, 0.0]}
    ways: dict[str, dict[str, Any]] = {"points": {}}
    ways |= {f"{rounds} rounds": {"coreset__assignment": "exact", "coreset__refine": rounds} for rounds in ROUNDS}
    if masked:
        ways["masked"] = ways["10 rounds"] | {"secure_aggregation": True}
    for name, settings in ways.items():
        found = run_protocol("coreset", shards, seed, {"coreset__k": k, "coreset__alone": False, **settings})
        metrics = found.metrics
        price = metrics.get("price_of_fairness", np.nan)
        results[name] = [metrics["cost"] / fair, price, found.n_rounds, found.from_sites / 1e6]
    return results


def main() -> None:
    """Print means over the draws for every world, number of rows, number of clusters and split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000, 20_000])
    parser.add_argument("--k", type=int, nargs="+", default=[4, 10, 20])
    parser.add_argument("--splits", nargs="+", default=["random", "column", "group"])
    chosen = parser.parse_args()
    names = ["points", *(f"{rounds} rounds" for rounds in ROUNDS)]
    head = ["world", "rows", "k", "split", *names, "price: pooled", *names, "rounds", "MB"]
    print("\n".join(table_head(head)), flush=True)
    for world, n, k, split in itertools.product(chosen.worlds, chosen.rows, chosen.k, chosen.splits):
        draws = [measure(world, n, k, split, seed) for seed in range(chosen.seed, chosen.seed + chosen.draws)]
        mean = {name: np.mean([draw[name] for draw in draws], axis=0) for name in draws[0]}
        costs = [f"{mean[name][0]:.3f}" for name in names]
        prices = [f"{100 * mean[name][1]:.1f}" for name in ["pooled", *names]]
        effort = [", ".join(f"{mean[name][place]:.{place - 2}f}" for name in names) for place in (2, 3)]
        print(table_row([world, str(n), str(k), split, *costs, *prices, *effort]), flush=True)


if __name__ == "__main__":
    main()
