"""A round that does nothing, in Flower's simulation: our base class beside Flower's own FedAvg.

Run it with ``python -m benchmarks.rounds``; docs/measurements.md has a run's figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bc3e import machine
from consilience.flower_programs import CONNECTION, environment
from consilience.settings import stage_app, to_toml
from consilience.superlink import own_superlink

Timed = dict[str, list[tuple[float, float]]]
"""By fusion center: seconds of each round, and of the center's own hooks in it."""


def stage_noop(folder: Path) -> None:
    """The project's app with `benchmarks.noop` as its components and as one more protocol."""
    stage_app(folder)
    here = Path(__file__).parent
    (folder / "benchmarks").mkdir()
    for name in ("__init__.py", "noop.py"):
        shutil.copy(here / name, folder / "benchmarks" / name)
    (folder / "protocols" / "noop.py").write_text("from benchmarks.noop import Ping, Pong\n")
    (folder / "clients" / "noop.py").write_text("from benchmarks.noop import pong\n")
    with (folder / "protocols" / "__init__.py").open("a") as file:
        file.write('\nPROTOCOLS = (*PROTOCOLS, "noop")\n')
    about = folder / "pyproject.toml"
    changes = {
        '"server.app:app"': '"benchmarks.noop:server"',
        '"clients.app:app"': '"benchmarks.noop:client"',
        '"/LICENSE",': '"/LICENSE",\n    "/benchmarks/**/*.py",',
        "[tool.flwr.app.config]\n": '[tool.flwr.app.config]\n"noop.output" = ""\n"noop.sites" = 2\n"noop.rounds" = 2\n'
        '"noop.repetitions" = 1\n',
    }
    text = about.read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise RuntimeError(f"pyproject.toml no longer holds {old!r}, which this benchmark changes")
        text = text.replace(old, new)
    about.write_text(text, encoding="utf-8")


def time_rounds(n_sites: int, rounds: int, repetitions: int, limit: float) -> Timed:
    """Run the no-operation app once, on a SuperLink of its own."""
    with tempfile.TemporaryDirectory(prefix="consilience-rounds-") as folder:
        home, app, output = Path(folder) / "flwr", Path(folder) / "app", Path(folder) / "seconds.json"
        home.mkdir()
        app.mkdir()
        stage_noop(app)
        settings: dict[str, bool | int | float | str] = {
            "output-dir": str(Path(folder) / "results"),
            "noop.output": str(output),
            "noop.sites": n_sites,
            "noop.rounds": rounds,
            "noop.repetitions": repetitions,
        }
        env = {**environment(), "FLWR_HOME": str(home)}
        program = shutil.which("flwr", path=env["PATH"])
        if program is None:
            raise RuntimeError("there is no program flwr beside this Python")
        federation = f"num-supernodes={n_sites} client-resources-num-cpus=1"
        arguments = ["run", str(app), CONNECTION, "--stream", "--run-config", to_toml(settings)]
        # Ray's workers import from the SuperLink's working directory first: a checkout there would hide the app.
        with contextlib.chdir(folder), own_superlink(env) as link:
            done = subprocess.run(
                [program, *arguments, "--federation-config", federation],
                env=link.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        if not output.exists():
            raise RuntimeError(f"the run with {n_sites} sites failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        timed: Timed = json.loads(output.read_text())
        return timed


def show(n_sites: int, timed: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """A line for each fusion center."""
    flower = statistics.median(seconds for seconds, _ in timed["FedAvg"])
    for name, rounds in timed.items():
        seconds = [each for each, _ in rounds]
        median = statistics.median(seconds)
        low, _, high = statistics.quantiles(seconds, n=4)
        hooks = statistics.median(each for _, each in rounds)
        print(
            f"{n_sites:5d}  {name:16} {median:9.4f} {low:9.4f} {high:9.4f} {len(seconds):6d} {hooks:9.4f} "
            f"{100 * (median / flower - 1):+9.1f} %",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """One run of the app for each number of sites."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.rounds", description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 20, 100])
    parser.add_argument("--rounds", type=int, default=8, help="rounds at a time, the first of which is not counted")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of each fusion center, after a warm-up")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is given up")
    options = parser.parse_args(arguments)
    print(machine())
    heads = ("median s", "quarter", "3 quart.", "rounds", "own s", "to FedAvg")
    print("sites  {:16} {:>9} {:>9} {:>9} {:>6} {:>9} {:>11}".format("", *heads))
    for n_sites in options.sites:
        show(n_sites, time_rounds(n_sites, options.rounds, options.repetitions, options.limit))


if __name__ == "__main__":
    main()
