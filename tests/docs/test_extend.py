"""docs/extend.md: its blocks are a package with a protocol that keeps the contract of all protocols.

The package is no part of this environment: it lies in a folder on the path, with the metadata that an installation
would write.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.documentation import ROOT, blocks

PAGE = "docs/extend.md"
_PLACE = re.compile(r"# (?P<path>\S+\.(?:py|toml))\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that the page's blocks make, and the metadata of its entry points."""
    folder = tmp_path_factory.mktemp("extension")
    for block in blocks(PAGE):
        if block.language not in ("python", "toml"):
            continue
        first = _PLACE.match(block.text)
        assert first, f"{block}: a block does not say which file it is"
        path = folder / first["path"]
        assert not path.exists(), f"{block}: {first['path']} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    write_metadata(folder)
    return folder


def write_metadata(folder: Path) -> None:
    """Write what pip would write for the package's pyproject.toml."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {package}\n" for name, package in points.items())
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")


def python(folder: Path, *arguments: str) -> str:
    """Run Python where the package is installed, in its folder, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "COLUMNS": "200"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_protocol_keeps_the_contract_and_its_promises(folder: Path) -> None:
    how = ["-p", "no:cacheprovider", "-p", "tests.conftest", "-m", "not slow", "-W", "ignore"]
    output = python(folder, "-m", "pytest", *how)
    assert re.search(r"\d+ passed", output)
    assert "skipped" not in output


def test_the_blocks_are_in_the_style_of_this_repository(folder: Path) -> None:
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    # A test of the package has no docstrings and asserts, as the tests here.
    python(folder, "-m", "ruff", "check", *settings, "--ignore", "D100,D101,D102,D103,S101", ".")
    python(folder, "-m", "ruff", "format", *settings, "--check", ".")


def test_the_command_knows_the_protocol(folder: Path) -> None:
    (folder / "north.csv").write_text("case,minutes\n" + "".join(f"{i},{7 * i % 40}\n" for i in range(30)))
    assert re.search(r"quantile-waiting +quantile +5 or any +synthetic", python(folder, "-m", "consilience", "list"))
    check = ("-m", "consilience", "check", "north.csv", "--protocol", "quantile", "--set", "target=minutes")
    lines = python(folder, *check)
    assert "north.csv: 30 rows" in lines
    assert "column minutes" in lines


def test_the_app_that_flower_gets_declares_its_keys(folder: Path) -> None:
    code = (
        "from pathlib import Path; from tomllib import loads; from consilience.app_folder import with_keys;"
        f" text = with_keys(Path({str(ROOT / 'pyproject.toml')!r}).read_text(encoding='utf-8'));"
        " print(loads(text)['tool']['flwr']['app']['config']['quantile'])"
    )
    assert "{'at': '0.25 0.5 0.75'}" in python(folder, "-c", code)
