"""The wheel: what it puts into site-packages, and that it runs without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from consilience._path import PACKAGES
from consilience.flower_programs import environment
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
    expected = {"consilience/py.typed", "consilience/public_types.pyi"} | {
        f"consilience/{path.relative_to(ROOT / 'consilience')}" for path in (ROOT / "consilience").rglob("*.py")
    }
    for name in PACKAGES:
        expected |= {f"consilience/_app/{path.relative_to(ROOT)}" for path in (ROOT / name).rglob("*.py")}
    assert {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("consilience/")} == expected


# -- it runs ----------------------------------------------------------------------------------------------------------


DECOY = "raise SystemExit('a module of the user was run')"
WARD = "case,class_a,cluster_x\n" + "".join(f"c{i},{i % 2},{i % 3}\n" for i in range(20))


def typed(command: list[str], folder: Path, env: Mapping[str, str]) -> str:
    """What a command prints that succeeds in a folder which has modules of its own named like packages of the app."""
    for name in ("server.py", "clients.py"):
        (folder / name).write_text(DECOY)
    done = subprocess.run(command, cwd=folder, env=dict(env), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wards(folder: Path) -> Path:
    """Two sites' files."""
    (folder / "wards").mkdir()
    for name in ("north", "south"):
        (folder / "wards" / f"{name}.csv").write_text(WARD)
    return folder / "wards"


def test_unpacked_it_runs_and_checks_whatever_lies_in_the_current_folder(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    env = {**environment(), "PYTHONPATH": str(tmp_path / "site")}
    consilience = [sys.executable, "-m", "consilience"]
    where = typed([sys.executable, "-c", "import consilience, server; print(server.__file__)"], tmp_path, env)
    assert where.startswith(str(tmp_path / "site" / "consilience" / "_app"))
    assert "accuracy" in typed([*consilience, "run", "bc3e-wine", "--set", "bc3e.max-rounds=2"], tmp_path, env)
    data = str(wards(tmp_path) / "north.csv")
    assert "20 rows" in typed([*consilience, "check", data, "--protocol", "bc3e", "--set", "id=case"], tmp_path, env)


@pytest.mark.slow
def test_installed_in_an_empty_environment_it_runs_checks_and_deploys(wheel: Path, tmp_path: Path) -> None:
    """What a site needs, from PyPI, is enough for a run, a check and a deployment; it takes at most 600 MB."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    empty = size(home)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(pip, cwd=tmp_path, check=True, timeout=600)
    assert size(home) - empty < 600
    path = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "FLWR_TELEMETRY_ENABLED": "0"}
    env = {**path, "FLWR_HOME": str(tmp_path / "flwr")}
    consilience = str(home / "bin" / "consilience")
    assert "accuracy" in typed([consilience, "run", "bc3e-wine"], tmp_path, env)
    folder = str(wards(tmp_path))
    own = ["--protocol", "bc3e", "--set", "id=case"]
    assert "20 rows" in typed([consilience, "check", f"{folder}/north.csv", *own], tmp_path, env)
    assert "report.html" in typed([consilience, "up", "--sites", folder, *own, "--tls"], tmp_path, env)


def size(folder: Path) -> float:
    """Megabytes on disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 2**20
