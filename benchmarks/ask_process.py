"""A process that answers one ask, or reads one shard, and times its parts."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTS_OF_AN_ASK = ("process", "flower", "ours", "shard", "rest")
"""Timed parts: start of Python, imports of ``flwr-clientapp``, imports of the project, the shard, the rest."""


class Watch:
    """Wall and processor seconds by part; a part inside another one is not counted twice."""

    def __init__(self, started: float) -> None:
        self.seconds = {name: [0.0, 0.0] for name in PARTS_OF_AN_ASK}
        self.seconds["process"] = [time.time() - started, time.process_time()]

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Time the body of the ``with`` statement."""
        before = {each: tuple(seconds) for each, seconds in self.seconds.items()}
        start = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            end = time.perf_counter(), time.process_time()
            for i in range(2):
                inside = sum(self.seconds[each][i] - seconds[i] for each, seconds in before.items())
                self.seconds[name][i] += end[i] - start[i] - inside

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are timed."""

        def call(*arguments: Any, **options: Any) -> Any:
            with self.timing(name):
                return function(*arguments, **options)

        return call


def _import_flower(watch: Watch) -> None:
    with watch.timing("flower"):
        import flwr.supernode.cli
        import flwr.supernode.runtime.run_clientapp  # noqa: F401


def answer(recorded: Path, folder: str, started: float) -> None:
    """Answer a recorded ask with `folder` as the site's own directory; print the seconds and the peak of memory."""
    watch = Watch(started)
    _import_flower(watch)
    protocol, message, context = pickle.loads(recorded.read_bytes())
    context.node_config["site-output-dir"] = folder
    with watch.timing("ours"):
        import clients.site
        from clients.app import app
        from protocols import registry

        registry.room(protocol, "handlers")
    site: Any = clients.site
    for name in ("shard", "own_table"):
        setattr(site, name, watch.wrapped("shard", getattr(site, name)))
    with watch.timing("rest"):
        reply = app(message, context)
    from protocols.wire.message import ENVELOPE

    envelope: Any = reply.content[ENVELOPE]
    print(json.dumps({"seconds": watch.seconds, "fault": envelope["fault"], "megabytes": _peak()}))


def _peak() -> float:
    """Return the peak memory of this process in megabytes (Linux); `getrusage` would include its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000


def ask_guard(recorded: Path, socket: str, run_id: int, started: float) -> None:
    """Pass a recorded ask of run `run_id` to a guard, and print the seconds of this process."""
    watch = Watch(started)
    _import_flower(watch)
    _, message, context = pickle.loads(recorded.read_bytes())
    context.run_id, context.node_config = run_id, {"guard": socket}
    context.run_config["round-timeout"] = 300.0
    with watch.timing("ours"):
        from clients.app import app
    with watch.timing("rest"):
        reply = app(message, context)
    from protocols.wire.message import ENVELOPE

    envelope: Any = reply.content[ENVELOPE]
    print(json.dumps({"seconds": watch.seconds, "fault": envelope["fault"]}))


def read(config: Mapping[str, Any], started: float) -> None:
    """Read a shard, and print the seconds."""
    watch = Watch(started)
    _import_flower(watch)
    with watch.timing("ours"):
        from clients.digest import digest_of
        from clients.shards import shard
        from protocols import registry

        registry.room(config["protocol"], "shard")
    with watch.timing("shard"):
        data = shard(config, 0, 1, 0, simulated=False)
    with watch.timing("rest"):
        if hasattr(data, "blocks"):  # read on demand
            digest = digest_of([digest_of((block.x, block.group, block.group_names)) for block in data.blocks()])
        else:
            digest = digest_of(data)
    print(json.dumps({"seconds": watch.seconds, "fault": "", "digest": digest}))
