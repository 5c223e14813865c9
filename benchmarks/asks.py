"""Seconds per ask in deployment, where Flower starts a process for every message.

Run it with ``python -m benchmarks.asks``. docs/measurements.md has the figures of one run. It has four parts:

- ``asks``: every kind of ask of every protocol, each time answered by a new Python process, with the seconds of its
  parts. The asks are recorded in this process from a run on the sites' own data.
- ``guard``: all asks of a run in their order, passed by a new process to the site's guard, which keeps running.
- ``rows``: a shard read by a new Python process, from files with different numbers of rows.
- ``rounds``: whole runs between real SuperNodes on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.ask_process import PARTS_OF_AN_ASK, answer, ask_guard, read

CACHE = "shard-cache"
"""The folder in a site's own directory that is kept between asks here; its memory and commitments are deleted."""
_PARTS = ("asks", "guard", "rows", "rounds")
PROTOCOLS = ("bc3e", "sec", "residual", "coreset", "gp")


def fresh(*arguments: str) -> dict[str, Any]:
    """Return the answer of a new Python process whose libraries have one thread."""
    from benchmarks.processes import SINGLE_THREAD  # not at the top: the new process imports as little as possible

    command = [sys.executable, "-m", "benchmarks.asks", "--started", repr(time.time()), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **SINGLE_THREAD}, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    reply: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if reply["fault"] not in ("", "none", 0):
        raise RuntimeError(f"{' '.join(arguments)}: the site answered {reply['fault']}\n{done.stderr[-2000:]}")
    return reply


# -- the asks ---------------------------------------------------------------------------------------------------------


def write_sites(folder: Path, protocol: str, n: int, ending: str = "csv") -> list[dict[str, Any]]:
    """Write `n` rows for the first of three sites, at most 100,000 for the others; return their configurations."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    nodes = []
    for place in range(3):
        name = f"site-{place}"
        n = n if place == 0 else min(n, 100_000)
        x = rng.normal(size=(n, 5))
        y = x @ np.arange(1.0, 6.0) + np.sin(3 * x[:, 0]) + rng.normal(scale=0.3, size=n)
        frame = pd.DataFrame(x, columns=list("abcde")).round(6)
        keys: dict[str, Any] = {"target": "y"}
        if protocol == "bc3e":
            truth = rng.integers(0, 3, n)
            noisy = {f"class_{i}": np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth) for i in range(3)}
            frame = pd.DataFrame({"case": np.arange(n), **noisy, "cluster_x": 2 - truth, "cluster_y": truth})
            keys = {"id": "case"}
        elif protocol == "residual":
            frame = frame[list(("ab", "cd", "e")[place])]
            frame.insert(0, "customer", [f"c{i:07d}" for i in range(n)])
            (folder / "secret").write_text("worthless, but long enough to be a key")
            keys = {"id": "customer", "align-key-file": str(folder / "secret")}
            if place == 0:
                frame["y"] = y.round(6)
                keys["target"] = "y"
        elif protocol == "coreset":
            frame["sex"] = np.where(rng.random(n) < 0.5, "F", "M")
            keys = {"sensitive": "sex"}
        else:
            frame["y"] = y.round(6)
        path = folder / f"{name}.{ending}"
        if ending == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
        nodes.append({"site": name, "data": str(path), **keys})
    return nodes


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bc3e": {"bc3e.max-rounds": 3},
    "sec": {"sec.candidates": "lr tree"},
    "residual": {"residual.algorithm": "parallel", "residual.agent": "tree", "residual.rounds": 2},
    "coreset": {"coreset.k": 3, "coreset.size": 60},
    "gp": {"gp.fit-rounds": 2},
}
"""Settings of short runs."""


def run_settings(folder: Path, protocol: str) -> dict[str, Any]:
    """Return the run configuration of a protocol."""
    settings = {"protocol": protocol, "min-sites": 3, **SETTINGS[protocol]}
    if protocol == "gp":
        import numpy as np
        import pandas as pd

        queries = folder / "queries.csv"
        points = np.random.default_rng(1).normal(size=(20, 5))
        pd.DataFrame(points, columns=list("abcde")).to_csv(queries, index=False)
        settings["gp.queries"] = str(queries)
    return settings


def record(folder: Path, protocol: str, n: int, ending: str = "csv") -> list[tuple[str, Path]]:
    """Record the asks that a run sends to its first site, with their contexts; return titles and files in order."""
    import consilience.local_engine.grid
    from protocols.wire.message import read_ask
    from server import app as server_app
    from tests.support import grid

    files: list[tuple[str, Path]] = []

    def answer_and_record(message: Any, context: Any) -> Any:
        ask = read_ask(message.content)
        titles = [parcel.payload.title() for parcel in ask.parcels]
        title = titles[0] if titles else f"{protocol}.none"
        if context.node_config["site"] == "site-0":
            files.append((title, folder / f"{len(files)}.pickle"))
            files[-1][1].write_bytes(pickle.dumps((protocol, message, context)))
        return client_app(message, context)

    nodes = write_sites(folder / "data", protocol, n, ending)
    for node in nodes:
        node["site-output-dir"] = str(folder / "out" / node["site"])
    config = grid.config(folder, **run_settings(folder, protocol))
    module: Any = consilience.local_engine.grid
    client_app, module.client_app = module.client_app, answer_and_record
    try:
        from flwr.app import Context, RecordDict

        wire = grid.InProcessGrid(nodes, config, 1)
        server_app.run(wire, Context(1, 0, {}, RecordDict(), config))
    finally:
        module.client_app = client_app
    return files


# -- the parts --------------------------------------------------------------------------------------------------------


def show_asks(protocols: Sequence[str], n: int, runs: int, ending: str) -> None:
    """Print a line for each kind of ask, with medians over the processes."""
    print(f"\nasks: {n} rows a site, medians of {runs} processes each; seconds of wall time (of processor)")
    print(f"{'ask':22}" + "".join(f"{name:>16}" for name in (*PARTS_OF_AN_ASK, "all")) + f"{'MB':>8}")
    for protocol in protocols:
        with tempfile.TemporaryDirectory(prefix="consilience-asks-") as name:
            folder = Path(name)
            for title, path in dict(reversed(record(folder, protocol, n, ending))).items():  # the first of each kind
                own = folder / "own"
                replies = []
                for _ in range(runs + 1):  # the first one has no cache and no compiled files
                    _forget(own)
                    replies.append(fresh("--answer", str(path), "--folder", str(own)))
                peak = max(each["megabytes"] for each in replies)
                _line(title, [each["seconds"] for each in replies[1:]], more=f"{peak:8.0f}")


def _forget(own: Path) -> None:
    """Delete everything in a site's own directory except its cache."""
    for left in own.iterdir() if own.exists() else ():
        if left.name != CACHE:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def show_guard(protocols: Sequence[str], n: int, runs: int) -> None:
    """Print medians over runs for each kind of ask that a guard answers; of a kind, a run's first ask counts."""
    import psutil

    from common.settings import to_toml

    print(f"\nguard: {n} rows a site, medians of {runs} runs each; seconds of wall time (of processor)")
    print(f"{'ask':22}" + "".join(f"{name:>16}" for name in (*PARTS_OF_AN_ASK, "guard", "all")))
    for protocol in protocols:
        with tempfile.TemporaryDirectory(prefix="consilience-asks-") as name, ExitStack() as stack:
            folder, socket = Path(name), Path(name) / "guard.sock"
            asks, own = record(folder, protocol, n), folder / "own"
            node = pickle.loads(asks[0][1].read_bytes())[2].node_config | {"site-output-dir": str(own)}
            command = [sys.executable, "-m", "consilience", "guard", str(socket), "--node-config", to_toml(node)]
            guard = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(guard.terminate)
            while not socket.exists():
                time.sleep(0.1)
            timings: dict[str, list[dict[str, list[float]]]] = {}
            for run in range(1, runs + 2):
                _forget(own)
                for place, (title, path) in enumerate(asks):
                    before = sum(psutil.Process(guard.pid).cpu_times()[:2])
                    seconds = fresh("--answer", str(path), "--folder", str(socket), "--guard", str(run))["seconds"]
                    seconds["guard"] = [0.0, sum(psutil.Process(guard.pid).cpu_times()[:2]) - before]
                    if run > 1 and title not in [each for each, _ in asks[:place]]:
                        timings.setdefault(title, []).append(seconds)
        for title, each in timings.items():
            _line(title, each, (*PARTS_OF_AN_ASK, "guard"))


def _line(
    title: str,
    timings: Sequence[Mapping[str, Sequence[float]]],
    names: Sequence[str] = PARTS_OF_AN_ASK,
    more: str = "",
) -> None:
    cells = []
    for name in (*names, "all"):
        wall, cpu = (
            statistics.median(
                sum(each[i] for each in one.values()) if name == "all" else one[name][i] for one in timings
            )
            for i in range(2)
        )
        cells.append(f"{f'{wall:.3f} ({cpu:.3f})':>16}")
    print(f"{title:22}" + "".join(cells) + more, flush=True)


def show_rows(protocols: Sequence[str], sizes: Sequence[int], runs: int) -> None:
    """Print a line for each file, with medians over processes; `rest` is the shard's digest, which reads all rows."""
    print(f"\nrows: medians of {runs} processes each; seconds of wall time (of processor)")
    print(f"{'shard':22}" + "".join(f"{name:>16}" for name in (*PARTS_OF_AN_ASK, "all")))
    for protocol in protocols:
        for ending in ("csv", "parquet"):
            for n in sizes:
                with tempfile.TemporaryDirectory(prefix="consilience-rows-") as name:
                    node = write_sites(Path(name), protocol, n, ending)[0]
                    time.sleep(3)  # a file that has just changed is not cached
                    for way, kept in (("first", {}), ("later", {"site-output-dir": f"{name}/own"})):
                        config = {"protocol": protocol, **SETTINGS[protocol], **node, **kept}
                        text = json.dumps(config)
                        replies = [fresh("--read", text) for _ in range(runs + 1)][1:]
                        assert len({str(each["digest"]) for each in replies}) == 1
                        _line(f"{protocol} {ending} {n:.0e} {way}", [each["seconds"] for each in replies])


def show_rounds(protocols: Sequence[str], n: int, runs: int, poll: float) -> None:
    """Print a line for each run between real SuperNodes, with the processor seconds of the processes that answer."""
    from server.results import load
    from tests.process import processes

    print(f"\nrounds: {n} rows a site, three SuperNodes on this machine that look for messages every {poll:g} s")
    print(f"{'protocol':12}{'rounds':>8}{'s':>8}{'s a round':>11}{'processor s an ask':>20}")
    for protocol in protocols:
        with tempfile.TemporaryDirectory(prefix="consilience-rounds-") as name:
            folder = Path(name)
            nodes = {}
            for node in write_sites(folder / "data", protocol, n):
                node["site-output-dir"] = str(folder / "out" / node["site"])
                nodes[node["site"]] = node
            wait = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll)}
            with processes.deployment(folder, nodes, wait) as center:
                for number in range(runs):
                    settings = {**run_settings(folder, protocol), "output-dir": str(folder / f"results-{number}")}
                    before = _ended_seconds(_starters(center, processes))
                    started = processes.start_deployed_run(Path.cwd(), settings, center.env, folder / f"log-{number}")
                    try:
                        outcome = started.wait(300)
                    finally:
                        started.end()
                    if outcome.results is None:
                        raise RuntimeError(outcome.log)
                    report = load(outcome.results)[0]
                    time.sleep(3)  # until the last processes have ended
                    seconds = (_ended_seconds(_starters(center, processes)) - before) / (len(nodes) * report.rounds)
                    print(
                        f"{protocol:12}{report.rounds:8d}{report.seconds:8.1f}{report.seconds / report.rounds:11.2f}"
                        f"{seconds:20.2f}",
                        flush=True,
                    )


def _starters(center: Any, processes: Any) -> list[int]:
    """Return the child processes of the SuperNodes that start a process for every message."""
    below = [processes.descendants(node.pid).items() for node in center.supernodes.values()]
    return [pid for each in below for pid, command in each if "flower-superexec" in command]


def _ended_seconds(pids: Iterable[int]) -> float:
    """Return the processor seconds of the ended children of these processes (Linux: reads /proc)."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[13]) + int(each[14]) for each in fields) / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen parts."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.asks", description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", default=_PARTS, choices=_PARTS)
    parser.add_argument("--protocols", nargs="+", default=PROTOCOLS, choices=PROTOCOLS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=lambda text: int(float(text)), nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--rows", type=int, default=1000, help="rows of each site; not for the part rows")
    parser.add_argument("--ending", choices=("csv", "parquet"), default="csv", help="files of the part asks")
    parser.add_argument("--poll", type=float, default=1.0, help="FLWR_SUPEREXEC_TASK_POLL_INTERVAL; Flower's own is 1")
    for hidden in ("--started", "--answer", "--folder", "--guard", "--read"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.guard:
        return ask_guard(Path(options.answer), options.folder, int(options.guard), float(options.started))
    if options.answer:
        return answer(Path(options.answer), options.folder, float(options.started))
    if options.read:
        return read(json.loads(options.read), float(options.started))
    from benchmarks.processes import machine

    print(machine())
    if "asks" in options.parts:
        show_asks(options.protocols, options.rows, options.runs, options.ending)
    if "guard" in options.parts:
        show_guard(options.protocols, options.rows, options.runs)
    if "rows" in options.parts:
        show_rows(options.protocols, options.sizes, options.runs)
    if "rounds" in options.parts:
        show_rounds(options.protocols, options.rows, min(options.runs, 2), options.poll)
    return None


if __name__ == "__main__":
    main()
