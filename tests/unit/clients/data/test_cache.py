"""A shard kept on the site's own disk: the same bit for bit, as long as file, settings and code are the same."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import clients.data.cache as cache_module
from clients import shards
from clients.data.cache import FOLDER, MOST_KEPT, ShardCache
from clients.data.shard_files import StoredError, Writer, read_about, read_shard
from clients.digest import digest_of
from numerics.bc3e.ensemble import Ensemble
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from numerics.residual.columns_and_outcomes import Columns
from protocols.wire.faults import Fault, SiteFault
from tests.support.examples import examples

N = 60
FRAME = pd.DataFrame(
    {
        "case": [f"Zoë, {i}" for i in range(N)],
        "class_a": np.arange(N) % 3,
        "class_b": [str(i % 2) if i % 7 else "" for i in range(N)],
        "class_c:0": 0.25,
        "class_c:1": 0.75,
        "cluster_x": np.arange(N) % 4,
        "diagnosis": np.arange(N) % 3,
        "sex": ["F", "M", "M"] * (N // 3),
        "age": np.arange(N) / 7,
        "iron": np.sin(np.arange(N)),
        "y": np.cos(np.arange(N)),
    }
)
OWN: dict[str, dict[str, Any]] = {
    "bc3e": {"id": "case", "truth": "diagnosis"},
    "sec": {"target": "y", "features": "age iron"},
    "residual": {"target": "y", "features": "age sex", "id": "case"},
    "coreset": {"sensitive": "sex class_a", "features": "age iron", "id": "case"},
    "gp": {"target": "y", "features": "age iron"},
}


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files that have just been written count as old, and every read is that of a new process."""
    monkeypatch.setattr(cache_module, "SETTLED_NS", 0)
    yield
    shards._own_shard.cache_clear()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by a protocol whenever a source is opened."""
    found: list[str] = []
    read = shards._read_shard

    def counted(config: Any) -> Any:
        found.append(str(config["protocol"]))
        return read(config)

    monkeypatch.setattr(shards, "_read_shard", counted)
    return found


def configuration(folder: Path, protocol: str, **changes: Any) -> dict[str, Any]:
    path = folder / "own.csv"
    if not path.exists():
        FRAME.to_csv(path, index=False)
    own = {"protocol": protocol, "data": str(path), "site-output-dir": str(folder / "out"), "seed": 0, **OWN[protocol]}
    return own | {key.replace("_", "-"): value for key, value in changes.items()}


def shard(config: dict[str, Any], *, simulated: bool = False) -> Any:
    """As a process of its own gets it; of points all blocks."""
    shards._own_shard.cache_clear()
    found = shards.shard(config, 0, 1, 0, simulated=simulated)
    return list(found.blocks()) if isinstance(found, GroupedRows) else found


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "out" / FOLDER).glob("*"))


def layout(value: Any) -> Any:
    """Beside what a digest says: the types, and the order of arrays in memory."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.flags.c_contiguous, value.flags.f_contiguous, value.flags.writeable
    if isinstance(value, list | tuple):
        return type(value), [layout(each) for each in value]
    if isinstance(value, dict):
        return type(value), [(key, layout(each)) for key, each in value.items()]
    return (type(value), layout(vars(value))) if hasattr(value, "__dict__") else type(value)


@pytest.mark.parametrize("protocol", OWN)
def test_what_is_kept_is_what_was_read(tmp_path: Path, reads: list[str], protocol: str) -> None:
    config = configuration(tmp_path, protocol)
    uncached = shard(config | {"cache": False})
    assert not kept(tmp_path)
    first, second = shard(config), shard(config)
    assert reads == [protocol] * 2
    assert digest_of(uncached) == digest_of(first) == digest_of(second)
    assert layout(first) == layout(second)
    [entry] = kept(tmp_path)
    assert stat.S_IMODE(entry.parent.stat().st_mode) == stat.S_IMODE(entry.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()} == {0o600}


@pytest.mark.parametrize("protocol", ["residual", "coreset"])
def test_a_damaged_file_is_noticed_and_the_source_read_again(tmp_path: Path, reads: list[str], protocol: str) -> None:
    config = configuration(tmp_path, protocol)
    whole = digest_of(shard(config))
    names = [path.name for path in kept(tmp_path)[0].iterdir() if path.stat().st_size]
    for number, name in enumerate(names):
        for damage in (_flip, _cut, Path.unlink):
            damage(kept(tmp_path)[0] / name)
            assert digest_of(shard(config)) == whole
        assert len(reads) == 1 + 3 * (number + 1)
    assert len(kept(tmp_path)) == 1


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def test_another_file_another_setting_and_other_code_are_not_mistaken(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(tmp_path, "gp")
    path = Path(config["data"])
    for changed in (config, config | {"features": "age"}, config | {"sensitive": "sex"}):
        shard(changed)
        shard(changed)
    assert len(reads) == len(kept(tmp_path)) == 3
    shard(config | {"seed": 7, "gp.kernel": "another", "round-timeout": 1.0})  # nobody asked for these while reading
    assert len(reads) == 3

    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"0.142857", b"0.242857", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy that keeps times and size
    nowhere = {key: value for key, value in config.items() if key != "site-output-dir"}
    assert digest_of(shard(config)) == digest_of(shard(nowhere))
    assert len(reads) == 5
    assert len(kept(tmp_path)) == 1  # what was read from the file as it was is gone
    monkeypatch.setattr(cache_module, "_checksum_of_code", lambda package: 1)
    shard(config)
    assert len(reads) == 6


def changed(path: Path) -> None:
    """A row is taken out."""
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")


def unreadable(path: Path) -> None:
    path.write_text("age\n1\n")


@pytest.mark.parametrize("protocol", ["gp", "coreset"])
@pytest.mark.parametrize("what", [changed, unreadable, Path.unlink])
def test_rows_that_were_taken_out_of_a_file_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, what: Callable[[Path], None]
) -> None:
    """Also where the file as it is now is not kept, because it has just changed, or cannot be read, or is gone."""
    config = configuration(tmp_path, protocol)
    shard(config)
    assert len(kept(tmp_path)) == 1
    monkeypatch.setattr(cache_module, "SETTLED_NS", 3600 * 10**9)
    what(Path(config["data"]))
    with contextlib.suppress(SiteFault):
        shard(config)
    assert kept(tmp_path) == []


def test_a_site_that_wants_none_kept_any_more_has_none(tmp_path: Path) -> None:
    for protocol in ("gp", "sec"):
        shard(configuration(tmp_path, protocol))
    assert len(kept(tmp_path)) == 2
    shard(configuration(tmp_path, "gp", cache=False))
    assert not (tmp_path / "out" / FOLDER).exists()


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    for number in range(MOST_KEPT + 3):
        newest = configuration(tmp_path, "sec", **{"sec.holdout": number / 100})
        shard(newest)
    assert len(kept(tmp_path)) == MOST_KEPT
    assert ShardCache(tmp_path / "out", "sec", tmp_path / "own.csv").load(newest) is not None


def test_who_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation, a site that says so, one without a directory, a function, a file that has just changed."""
    config = configuration(tmp_path, "gp")
    shard(config | {"cache": False})
    shard({key: value for key, value in config.items() if key != "site-output-dir"})
    shard(config | {"data": str(tmp_path)}, simulated=True)
    (tmp_path / "ours.py").write_text("import pandas\ndef rows(config):\n    return pandas.read_csv(config['rows'])\n")
    monkeypatch.syspath_prepend(tmp_path)
    shard(config | {"data": "ours:rows", "rows": config["data"]})
    monkeypatch.setattr(cache_module, "SETTLED_NS", 3600 * 10**9)
    shard(config)
    assert not kept(tmp_path)


def test_the_switch_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(SiteFault) as refused:
        shard(configuration(tmp_path, "gp", cache="false"))
    assert refused.value.fault is Fault.BAD_CONFIGURATION
    assert "cache must be true or false, not 'false'" in str(refused.value)


@pytest.mark.parametrize("protocol", ["gp", "coreset"])
def test_a_full_disk_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    config = configuration(tmp_path, protocol)
    whole = digest_of(shard(config | {"cache": False}))
    monkeypatch.setattr(Writer, "finish", full)
    assert digest_of(shard(config)) == whole
    monkeypatch.setattr(Writer, "create", full)
    assert digest_of(shard(config)) == whole
    (tmp_path / "out" / FOLDER).rmdir()
    (tmp_path / "out" / FOLDER).write_text("a file where the folder should be")
    assert digest_of(shard(config)) == whole


def test_points_are_kept_when_all_have_been_read(tmp_path: Path, reads: list[str]) -> None:
    config = configuration(tmp_path, "coreset")
    points = shards.shard(config, 0, 1, 0, simulated=False)
    next(points.blocks())
    assert kept(tmp_path) == []
    whole = digest_of(list(points.blocks()))
    assert len(kept(tmp_path)) == 1
    blocks = list(points.blocks())
    assert digest_of(blocks) == whole
    blocks[0].x[:] = 0.0  # a block is whoever's who asked for it
    assert digest_of(list(points.blocks())) == digest_of(shard(config)) == whole
    assert reads == ["coreset"]


def test_a_bad_row_is_told_and_nothing_kept(tmp_path: Path) -> None:
    config = configuration(tmp_path, "coreset")
    path = Path(config["data"])
    path.write_text(path.read_text().replace("F", "", 1))
    for _ in range(2):
        with pytest.raises(SiteFault) as refused:
            shard(config)
        assert refused.value.fault is Fault.MISSING_VALUE
        assert kept(tmp_path) == []


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configuration(tmp_path, "gp")
    read = shards._read_shard

    def changing(observed: Any) -> Any:
        found = read(observed)
        with Path(config["data"]).open("a") as file:
            file.write("\n")
        return found

    monkeypatch.setattr(shards, "_read_shard", changing)
    shard(config)
    assert kept(tmp_path) == []


# -- files and values -------------------------------------------------------------------------------------------------

NUMBERS: st.SearchStrategy[np.ndarray] = arrays.arrays(
    st.sampled_from([np.dtype(kind) for kind in ("?", "i8", "f8", "u8", "<U3")]),
    arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4),
)
CELLS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3))
TEXTS = st.lists(CELLS, max_size=4).map(lambda cells: np.array([*cells, None], object)[:-1])
ROOM = cast(ModuleType, SimpleNamespace(Ensemble=Ensemble, Columns=Columns))
LABELS = st.dictionaries(st.text(max_size=3), NUMBERS, max_size=3)


@examples(40)
@given(x=NUMBERS, entity=st.one_of(st.none(), NUMBERS, TEXTS), classifiers=LABELS, order=st.sampled_from("CF"))
def test_any_shard_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, x: Any, entity: Any, classifiers: Any, order: Literal["C", "F"]
) -> None:
    x = np.array(x, order=order)
    for value in (Ensemble(3, classifiers, {}, None, entity), Columns(x, ("a", "ü"), entity, None, {"a": ("b", "")})):
        folder = tmp_path_factory.mktemp("stored")
        writer = Writer(folder, ROOM)
        writer.finish({"n": 1}, writer.describe(value))
        found = read_shard(folder, read_about(folder), ROOM)
        assert digest_of(found) == digest_of(value)
        assert layout(found) == layout(value)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3)[:, ::2],  # read back, its sums could be rounded otherwise
        np.array(["a\0b", "c"], object),
        np.array(["\ud800"], object),
        np.array([1, "a"], object),
        {1: 2},
        RowBlock(np.zeros((1, 1)), np.zeros(1, np.int64), ("a",)),
        np.float64(1.0),
        object(),
    ],
)
def test_what_could_not_be_read_as_it_was_is_not_stored(tmp_path: Path, value: Any) -> None:
    with pytest.raises(StoredError):
        Writer(tmp_path, ROOM).describe(value)
