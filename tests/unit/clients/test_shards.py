"""Own data of a simulation: a process answers for many sites, round after round, and reads each file once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clients.data.simulated_sites
from clients import shards

N_SITES = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in range(N_SITES):
        (tmp_path / f"s{place:02d}.csv").write_text(f"class_a,cluster_x\n0,{place}\n1,0\n")
    return tmp_path


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a site's shard was read, and the folder listed."""
    shards.forget_shards()
    calls: Counter[str] = Counter()
    read, listed = shards._read_shard, clients.data.simulated_sites.simulated_sites

    def read_shard(config: Any) -> Any:
        calls[Path(config["data"]).name] += 1
        return read(config)

    def simulated_sites(data: str) -> Any:
        calls["the folder"] += 1
        return listed(data)

    monkeypatch.setattr(shards, "_read_shard", read_shard)
    monkeypatch.setattr(clients.data.simulated_sites, "simulated_sites", simulated_sites)
    return calls


def ask_all(folder: Path, n_sites: int = N_SITES) -> None:
    config = {"protocol": "bc3e", "data": str(folder), "bc3e.allow-single-model": True}
    for place in range(n_sites):
        shards.shard(config, place, n_sites, 0, simulated=True)
        assert shards.simulated_name(config, place, n_sites) == f"s{place:02d}"


def test_every_file_is_read_once_in_all_rounds(folder: Path, counted: Counter[str]) -> None:
    for _ in range(3):
        ask_all(folder)
    assert len(counted) == N_SITES + 1
    assert set(counted.values()) == {1}


def test_what_has_changed_is_read_again(folder: Path, counted: Counter[str]) -> None:
    ask_all(folder)
    (folder / "s07.csv").write_text("class_a,cluster_x\n0,1\n1,1\n")
    os.utime(folder / "s07.csv", ns=(1, 1))
    (folder / "s30.csv").write_text("class_a,cluster_x\n0,1\n1,1\n")
    os.utime(folder, ns=(1, 1))
    ask_all(folder, N_SITES + 1)
    assert counted["s07.csv"] == 2
    assert counted["s30.csv"] == 1
    assert counted["the folder"] == 2
