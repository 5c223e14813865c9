"""bc3e: rounds until a run stops, by its bound, by the classes of the instances, or by both, in the worlds of raters.

    python -m benchmarks.stops [--draws 3] [--worlds "*"] [--seed 0]

Sites and center are those of a run, at three sites: in rows, each with instances of its own; in columns, each with
models of its own. A cell has the mean number of rounds of a whole run and the share of right classes, in %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from benchmarks.driver import config_of, drive, sites_of, strategy_of, world
from benchmarks.rater_worlds import WORLDS
from benchmarks.tables import table_head, table_row
from numerics.bc3e.ensemble import Ensemble
from scenarios.bc3e import DISTRIBUTIONS
from scenarios.registry import ScenarioError

_SITES = 3
_COLUMN = {"bc3e.distribution": "column", "bc3e.allow-single-model": True}
_RULES: Mapping[str, Mapping[str, Any]] = {
    "bound": {"bc3e.stop": "bound"},
    "labels": {"bc3e.stop": "labels"},
    "both": {"bc3e.stop": "both"},
    "labels, column": {"bc3e.stop": "labels", **_COLUMN},
    "both, column": {"bc3e.stop": "both", **_COLUMN},
}
"""By name: settings of a run."""


def one_run(ensemble: Ensemble, settings: Mapping[str, Any], seed: int) -> tuple[float, float]:
    """Return the number of rounds of a run over the sites, and the percentage of right classes."""
    split = DISTRIBUTIONS[settings.get("bc3e.distribution", "row")]
    shards = split(ensemble, _SITES, np.random.default_rng(seed))
    with world("bc3e", shards) as scenario:
        config = config_of(scenario) | {"bc3e.reliability": "confusion", **settings}
        transcript = drive(strategy_of(config, _SITES), sites_of(config, _SITES), time.perf_counter)
    return transcript.n_rounds, 100 * transcript.metrics["accuracy"]


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--worlds", default="*", help="name or glob of the worlds")
    asked = parser.parse_args()
    print("\n".join(table_head(["world", *_RULES])))
    found = []
    for number, (name, draw) in enumerate(WORLDS.items()):
        if not fnmatchcase(name, asked.worlds):
            continue
        seeds = range(asked.seed, asked.seed + asked.draws)
        try:
            ensembles = [draw(np.random.default_rng([seed, number])) for seed in seeds]
        except ScenarioError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        runs = [
            [one_run(ensemble, rule, seed) for rule in _RULES.values()]
            for seed, ensemble in zip(seeds, ensembles, strict=True)
        ]
        found.append(np.array(runs))
        cells = [f"{rounds:.0f}, {right:.1f}" for rounds, right in found[-1].mean(axis=0)]
        print(table_row([name, *cells]), flush=True)
    means, most = (
        np.mean([each.mean(axis=0) for each in found], axis=0),
        np.max([each.max(axis=0) for each in found], axis=0),
    )
    print(table_row(["mean", *(f"{rounds:.0f}, {right:.1f}" for rounds, right in means)]))
    print(table_row(["most rounds", *(f"{rounds:.0f}" for rounds, _ in most)]))


if __name__ == "__main__":
    main()
