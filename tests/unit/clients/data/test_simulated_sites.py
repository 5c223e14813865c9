"""The sites of a simulation on own data, whatever names these."""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.data import DataError, load
from clients.data.simulated_sites import ALL_SITES, simulated_sites
from clients.shards import own_table, simulated_name
from protocols.wire.faults import SiteFault

FUNCTIONS = """
def load(place, n_sites): return {"x": [place, n_sites], "y": [1.0, 2.0]}
def named(place, n_sites): return load(place, n_sites)
named.sites = ["west", "east"]
def misnamed(place, n_sites): return load(place, n_sites)
misnamed.sites = ["west", "the east"]
def twice(place, n_sites): return load(place, n_sites)
twice.sites = ["west", "west"]
def of_a_real_site(config): return {"x": [1, 2]}
def one_row(place, n_sites): return {"x": [1]}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "wards_of_a_simulation.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "wards_of_a_simulation"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", "_test.csv"):
        (tmp_path / name).write_text(f"x,y\n{ord(name[0])},1\n2,3\n")
    return tmp_path


def test_a_folder_has_a_site_a_file(folder: Path) -> None:
    sites = simulated_sites(str(folder))
    assert (sites.names, sites.number) == (("a", "b"), 2)
    assert sites.source(1) == str(folder / "b.csv")
    config = sites.config(1, 2, {"target": "y"})
    assert config[ALL_SITES] == str(folder)
    assert load(config).columns["x"].tolist() == [ord("b"), 2]


def test_paths_by_site_are_in_the_order_of_the_sites(folder: Path) -> None:
    data = f"south={folder / 'a.csv'} north={folder / 'b.csv'}"
    sites = simulated_sites(data)
    assert sites.names == ("north", "south")
    assert sites.source(0) == str(folder / "b.csv")
    config = {"protocol": "sec", "data": data, "partition-id": 0, "num-partitions": 2}
    assert simulated_name(config, 0, 2) == "north"
    assert own_table(config, 0, 2, simulated=True).columns["x"].tolist() == [ord("b"), 2]


def test_a_function_serves_any_number_of_sites(module: str) -> None:
    data = f"{module}:load"
    sites = simulated_sites(data)
    assert sites.number is None
    assert [sites.name(place, 20) for place in (0, 19)] == ["site-00", "site-19"]
    assert load(sites.config(3, 20, {})).columns["x"].tolist() == [3, 20]


def test_a_function_may_name_its_sites(module: str) -> None:
    sites = simulated_sites(f"{module}:named")
    assert (sites.number, sites.name(1, 2)) == (2, "east")
    config = {"protocol": "sec", "data": f"{module}:named", "partition-id": 1, "num-partitions": 3}
    with pytest.raises(SiteFault, match="holds the data of 2 sites, there are 3 sites"):
        simulated_name(config, 1, 3)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("misnamed", "'the east' is no site's name"),
        ("twice", "two sites are called 'west'"),
        ("absent", "has no function absent"),
    ],
)
def test_names_that_cannot_be_used_are_refused(module: str, name: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        simulated_sites(f"{module}:{name}")


def test_a_function_of_a_real_site_is_told_what_a_simulation_calls(module: str) -> None:
    sites = simulated_sites(f"{module}:of_a_real_site")
    with pytest.raises(DataError, match="takes two arguments, a site's place"):
        load(sites.config(0, 2, {}))
    assert load({"data": f"{module}:of_a_real_site", "site": "north"}).n == 2
    with pytest.raises(DataError, match="one_row: has one row"):
        load(simulated_sites(f"{module}:one_row").config(0, 2, {}))
