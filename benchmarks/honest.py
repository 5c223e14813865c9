"""False refusals in runs of honest sites on synthetic worlds: ``python -m benchmarks.honest``.

The sites are real ones with the default policy, each with its file and its directory, in this process. All of them are
honest, so every site that the run refuses, leaves out or suspects in a note is a false alarm.
"""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.honest_worlds import CENTER_FILES, WORLDS, World, draw_world
from benchmarks.tables import table_head, table_row
from consilience.local_engine import engine
from server.app import REFUSALS
from server.results import load

RUNS = 40
"""Runs of a protocol."""
_ACCUSES = re.compile(r"look at (its|these) data|check its data")
"""Words of a note in the report that suspects a site's data."""


def run_world(world: World, folder: Path) -> list[str]:
    """Run a world, and return the reports against honest sites, or why the run stopped.

    Parameters
    ----------
    world : World
        The world.
    folder : Path
        An empty folder.
    """
    nodes = []
    for name, frame in world.frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        if name not in CENTER_FILES:
            own = {"site": name, "data": str(folder / f"{name}.csv"), "site-output-dir": str(folder / "home" / name)}
            nodes.append({**own, **world.node})
    of_center = {key: str(folder / f"{name}.csv") for key, name in world.center.items()}
    settings = {**world.settings, **of_center, "output-dir": str(folder / "results"), "min-sites": 1}
    try:
        report, _ = load(engine.run(settings, nodes))
    except REFUSALS as error:
        return [f"the run stopped: {error}"]
    left_out = [f"{site}: {line}" for site, lines in sorted(report.missing.items()) for line in lines]
    return left_out + [note for note in report.notes if _ACCUSES.search(note)]


def count(protocol: str, numbers: Sequence[int]) -> tuple[int, int]:
    """Run worlds of a protocol, print false alarms, and return the numbers of sites and of runs with false alarms."""
    n_sites = n_false = 0
    for number in numbers:
        world = draw_world(protocol, number)
        with tempfile.TemporaryDirectory() as folder:
            said = run_world(world, Path(folder))
        n_sites += len(set(world.frames) - set(CENTER_FILES))
        n_false += bool(said)
        for line in said:
            print(f"{protocol} {number} {dict(world.settings)}: {line}", flush=True)
    return n_sites, n_false


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.honest", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=sorted(WORLDS), default=sorted(WORLDS))
    parser.add_argument("--runs", type=int, default=RUNS, help="of each protocol")
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    print("\n".join(table_head(["protocol", "runs", "sites", "runs with a false refusal or naming"])), flush=True)
    for protocol in options.only:
        n_sites, n_false = count(protocol, range(options.first, options.first + options.runs))
        print(table_row([protocol, str(options.runs), str(n_sites), str(n_false)]), flush=True)


if __name__ == "__main__":
    main()
