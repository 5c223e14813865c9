"""Row alignment: seconds and bytes of naming, hashing and matching the entities of several sites, one thread.

Run it with ``python -m benchmarks.alignment``; ``--help`` shows what can be changed. docs/measurements.md has figures.
"""

from __future__ import annotations

import argparse
import hmac
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Int64, Shaped, UInt64

from benchmarks.bc3e import machine
from benchmarks.sec import timed
from clients.data import make_table
from clients.entities import entity_names, keyed_hashes
from numerics.shared.alignment import CommonEntities, align
from numerics.shared.threads import single_threaded
from protocols.wire.payload import encode_array

SECRET, SALT = bytes(range(32)), "benchmark"
SHARE = 0.95
"""Of the entities, how many a site has."""

Names = Shaped[np.ndarray, "n"]
Keys = UInt64[np.ndarray, "n 2"]
_T = TypeVar("_T")


def sites(n_sites: int, n_rows: int) -> dict[str, Names]:
    """By site, the names of its rows: another draw of the same entities, in another order."""
    rng = np.random.default_rng(0)
    entities = np.array([f"customer-{number:09d}" for number in range(int(n_rows / SHARE))])
    return {f"site-{place}": rng.permutation(entities)[:n_rows] for place in range(n_sites)}


# -- plain ways -------------------------------------------------------------------------------------------------------


def hashed_one_by_one(names: Names) -> Keys:
    """`hmac.digest` of every name."""
    digests = b"".join(hmac.digest(SECRET, name.encode(), "sha256")[:16] for name in names.tolist())
    words: Keys = np.frombuffer(digests, "<u8").reshape(-1, 2).astype(np.uint64)
    return words


def merged(holders: Mapping[str, Keys]) -> dict[str, Int64[np.ndarray, "n"]]:
    """The common rows by pandas: one inner join after the other on both words of the keys."""
    joined: pd.DataFrame | None = None
    for site, keys in holders.items():
        frame = pd.DataFrame({"first": keys[:, 0], "second": keys[:, 1], site: np.arange(len(keys))})
        joined = frame if joined is None else joined.merge(frame, on=["first", "second"])
    if joined is None:
        return {}
    joined = joined.sort_values(["first", "second"])
    return {site: joined[site].to_numpy() for site in holders}


# -- measured ---------------------------------------------------------------------------------------------------------


def measure(n_sites: int, n_rows: int, runs: int) -> None:
    """Print seconds, bytes and the most memory of every step."""
    held = sites(n_sites, n_rows)
    first = next(iter(held.values()))
    print(
        f"\nAlignment: {n_sites} sites, {n_rows:,} rows each, {SHARE:.0%} of all entities, 1 thread, {runs} runs\n"
        f"{'step':38} {'median s':>9} {'min s':>8} {'max s':>8} {'peak MiB':>9} {'bytes a site':>12}"
    )
    table = make_table("records", [("id", first), ("x", np.zeros(n_rows))])
    _print_step("a site checks its names", partial(entity_names, table, "id"), runs)
    _print_step("a site hashes them, hmac.digest", partial(hashed_one_by_one, first), runs)
    keys = _print_step("a site hashes them", partial(keyed_hashes, first, SECRET, SALT), runs, lambda keys: keys)
    holders = {site: keys if names is first else keyed_hashes(names, SECRET, SALT) for site, names in held.items()}
    joined = _print_step("the center matches all, pandas.merge", partial(merged, holders), runs)
    found = _print_step("the center matches all", partial(align, holders), runs, lambda found: found.rows["site-0"])
    _check(held, found, joined)
    common = len(next(iter(found.rows.values())))
    print(
        f"{common:,} of {found.n_distinct:,} entities are common; a site's keys take {_bytes(keys) / n_rows:g} "
        f"bytes a row up, its order {_bytes(found.rows['site-0']) / common:g} bytes a common row down"
    )


def _print_step(what: str, step: Callable[[], _T], runs: int, sent: Callable[[_T], np.ndarray] | None = None) -> _T:
    """Measure a step; `sent` picks what of its result crosses the wire, for one site."""
    median, seconds, result = timed(step, runs)
    tracemalloc.start()
    step()
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    size = f"{_bytes(sent(result)):12,}" if sent else ""
    print(f"{what:38} {median:9.3f} {min(seconds):8.3f} {max(seconds):8.3f} {memory:9.0f} {size}", flush=True)
    return result


def _bytes(array: np.ndarray) -> int:
    """Of an array, as payloads carry it."""
    return len(encode_array(array).data)


def _check(held: Mapping[str, Names], found: CommonEntities, joined: Mapping[str, Int64[np.ndarray, "n"]]) -> None:
    """Both ways find the same rows, and these are the same entities at all sites."""
    reference = next(iter(held))
    for site, names in held.items():
        np.testing.assert_array_equal(found.rows[site], joined[site])
        np.testing.assert_array_equal(names[found.rows[site]], held[reference][found.rows[reference]])


def main(arguments: Sequence[str] | None = None) -> None:
    """All steps, one after the other."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks.alignment", description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=4, help="number of sites")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each site")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts")
    options = parser.parse_args(arguments)
    print(machine())
    with single_threaded():
        measure(options.sites, options.rows, options.runs)


if __name__ == "__main__":
    main()
