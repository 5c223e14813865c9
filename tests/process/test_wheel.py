"""The wheel: what it puts into site-packages, and that it runs without a checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from consilience._path import PACKAGES
from tests.support.documentation import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the build backend in this process."""
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    return Path(next(builder.build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])))


def test_it_holds_one_package_with_the_app_inside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"consilience", f"{wheel.name.split('-py3')[0]}.dist-info"}
    inside = {name.split("/")[2] for name in names if name.startswith("consilience/_app/")}
    assert inside == set(PACKAGES)


def test_it_holds_all_modules_of_the_app_and_nothing_else(wheel: Path) -> None:
    expected = {
        f"consilience/{path.relative_to(ROOT / 'consilience')}" for path in (ROOT / "consilience").rglob("*.py")
    }
    for name in PACKAGES:
        expected |= {f"consilience/_app/{path.relative_to(ROOT)}" for path in (ROOT / name).rglob("*.py")}
    assert {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("consilience/")} == expected
