"""What names data: functions, paths by site, and neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.data_places import absolute_place, as_text, is_function, paths_by_site
from common.settings import absolute
from protocols.settings import run_keys


@pytest.mark.parametrize("text", ["", "records", "a.csv b.csv", "north=", "north=a.csv b", "north='a", "a=b=", "x:y"])
def test_what_names_no_sites(text: str) -> None:
    assert paths_by_site(text) == ({"a": "b="} if text == "a=b=" else {})


def test_paths_are_read_as_they_were_written() -> None:
    paths: dict[str, str | Path] = {"north": "a b.csv", "south-2": "/data/$x'y.csv", "c.d": "=.csv"}
    assert paths_by_site(as_text(paths)) == paths


def test_more_sites_than_a_path_has_letters() -> None:
    paths = {f"s{i}": f"/data/{'long-name' * 20}/{i}.csv" for i in range(60)}
    assert paths_by_site(as_text(paths)) == paths
    assert not is_function(as_text(paths))


def test_what_exists_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_function("records:load")
    assert paths_by_site("a=b")
    for name in ("records:load", "a=b"):
        Path(name).mkdir()
    assert not is_function("records:load")
    assert not paths_by_site("a=b")


def test_a_configuration_has_absolute_paths_and_functions_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_place("records:load") == "records:load"
    assert absolute_place("north=a.csv") == f"north={tmp_path}/a.csv"
    values = absolute({"data": "b:f", "labels": "y.csv", "gp.queries": "q:f", "id": "name"}, run_keys())
    assert values == {"data": "b:f", "labels": f"{tmp_path}/y.csv", "gp.queries": "q:f", "id": "name"}
