"""The app's packages of an installed wheel: where Python finds them, and what is in their way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from consilience._path import PACKAGES
from tests.support.documentation import ROOT


@pytest.fixture(params=["_app", ".."], ids=["wheel", "checkout"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the app's packages lie, empty: inside `consilience`, as a wheel leaves them, or beside it."""
    own = tmp_path / "site" / "consilience"
    own.mkdir(parents=True)
    own.joinpath("__init__.py").write_text("from consilience._path import make_importable\nmake_importable()\n")
    own.joinpath("_path.py").write_bytes((ROOT / "consilience" / "_path.py").read_bytes())
    for name in PACKAGES:
        (own / request.param / name).mkdir(parents=True)
        (own / request.param / name / "__init__.py").write_text("")
    return (own / request.param).resolve()


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a folder, with the installed packages behind it on the path."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(1, {str(folder / 'site')!r}); {code}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_file_of_the_same_name_in_the_current_folder_is_not_run(app: Path, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("raise SystemExit('the wrong one')")
    done = python(tmp_path, "import consilience, server; print(server.__file__)")
    assert done.stdout.strip() == str(app / "server" / "__init__.py"), done.stderr


def test_a_foreign_module_that_is_loaded_is_named_in_one_sentence(app: Path, tmp_path: Path) -> None:
    (tmp_path / "clients.py").write_text("")
    done = python(tmp_path, "import clients, consilience")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"consilience._path.ForeignModuleError: the module 'clients' of {tmp_path / 'clients.py'} is loaded, and "
        "consilience has a package of that name: rename it, or import consilience in another process"
    )


def test_the_folder_stands_on_the_path_once(app: Path, tmp_path: Path) -> None:
    code = "import consilience, common; del sys.modules['consilience']; import consilience; print(sys.path.count("
    done = python(tmp_path, f"{code}{str(app)!r}))")
    assert done.stdout.strip() == "1", done.stderr
