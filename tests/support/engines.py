"""Short runs of every protocol, and what must be equal whichever engine runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from server.results import load

SHORT_RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "bc3e": (3, {"scenario": "bc3e-wine", "bc3e.max-rounds": 3}),
    "masked": (3, {"scenario": "bc3e-wine", "bc3e.max-rounds": 2, "secure-aggregation": True}),
    "residual": (2, {"scenario": "residual-theorem2", "cells": "rho=0.5"}),
    "sec": (20, {"scenario": "sec-simulation1", "cells": "p=5 SNR=4"}),
    "coreset": (4, {"scenario": "coreset-synthetic", "coreset.rows": 400, "coreset.size": 40}),
    "gp": (10, {"scenario": "gp-synthetic", "cells": "part=figure11 M=10 K=5", "gp.rows": 300, "gp.fit-rounds": 2}),
}
"""By name: number of sites, and the run configuration that differs from the defaults."""


def assert_same_run(one: Path, other: Path, *, ledger: bool = True) -> None:
    """Metrics, arrays, table, rounds, sites, measures, ledger, bit for bit, but for the bytes of the run's number."""
    (report, arrays), (wanted, expected) = load(one), load(other)
    for name in ("metrics", "table", "rounds", "sites", "missing"):
        assert getattr(report, name) == getattr(wanted, name), name
    assert [_measures(row) for row in report.convergence] == [_measures(row) for row in wanted.convergence]
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert (arrays[name].dtype, arrays[name].tobytes()) == (array.dtype, array.tobytes()), name
    if ledger:  # that of a resumed run also has how the sites' names were asked for again
        assert crossed(one) == crossed(other)


def _measures(row: dict[str, Any]) -> dict[str, Any]:
    """A round's measures, without its seconds and without its bytes, in which the envelopes are."""
    return {key: value for key, value in row.items() if key != "seconds" and not key.startswith("bytes")}


def crossed(path: Path) -> list[dict[str, Any]]:
    """Lines of the ledger, without the bytes of the run's number, which may have a digit more, and without digests."""
    lines = [json.loads(line) for line in (path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line.pop("sha256", None)  # of the bytes, in which the number of the run is, and random keys
        if line["payload"] == "envelope" or line["fields"].pop("salt", None):
            line.pop("bytes")
    return lines
