"""docs/extend.md: its blocks, put where they say, are a protocol that keeps the contract of all protocols."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from consilience.app_folder import PACKAGES
from tests.support.documentation import ROOT, blocks

PAGE = "docs/extend.md"
FROM_TESTS = ("__init__", "asking", "conftest", "contract", "grid")
_PLACE = re.compile(r"# (?P<path>\S+\.(?:py|toml))(?:: (?P<how>.+))?\n")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what consilience is, with what the page adds."""
    tree = tmp_path_factory.mktemp("extended")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests").mkdir()
    for name in FROM_TESTS:
        shutil.copy(ROOT / "tests" / f"{name}.py", tree / "tests")
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for block in blocks(PAGE):
        if block.language in ("python", "toml"):
            put(tree, block.text)
    return tree


def put(tree: Path, text: str) -> None:
    """Do with a block what its first line says."""
    said = _PLACE.match(text)
    assert said, f"a block says not which file it is: {text[:60]!r}"
    path, how, lines = tree / said["path"], said["how"], text[said.end() :]
    if how is None:
        assert not path.exists(), f"{said['path']} is there already"
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8")
    if how == "at the end":
        after = f"{before}\n{lines}"
    elif how == "this line in place of the old":
        name = lines.split(" = ")[0]
        after, n = re.subn(rf"^{name} = .*\n", lambda _: lines, before, flags=re.M)
        assert n == 1, f"{said['path']} has {n} lines {name} = ..."
    else:
        [name] = re.findall(r"into (\w+)", how)
        inside = "".join(f"    {line}\n" for line in lines.splitlines())
        after, n = re.subn(rf"^{name}\b.* = \{{\n", lambda found: found[0] + inside, before, flags=re.M)
        assert n == 1, f"{said['path']} has {n} dictionaries {name}"
    path.write_text(after, encoding="utf-8")


def python(tree: Path, *arguments: str) -> str:
    """What a command says that finds the copy before what is installed."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_protocol_keeps_the_contract_and_its_promises(tree: Path) -> None:
    told = python(tree, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_quantile.py")
    assert re.search(r"\d+ passed", told)
    assert "skipped" not in told


def test_the_blocks_are_in_the_style_of_the_house(tree: Path) -> None:
    made = [path.relative_to(tree).as_posix() for path in tree.rglob("*quantile.py")]
    assert len(made) == sum(
        block.language == "python" and ": " not in block.text.split("\n")[0] for block in blocks(PAGE)
    )
    python(tree, "-m", "ruff", "check", "--no-cache", *made)
    python(tree, "-m", "ruff", "format", "--no-cache", "--check", *made)


def test_the_commands_know_the_protocol(tree: Path) -> None:
    (tree / "north.csv").write_text("case,minutes\n" + "".join(f"{i},{7 * i % 40}\n" for i in range(30)))
    assert re.search(r"quantile-waiting +quantile +5 or any +made", python(tree, "-m", "consilience", "list"))
    checked = python(
        tree, "-m", "consilience", "check", "north.csv", "--protocol", "quantile", "--set", "target=minutes"
    )
    assert "north.csv: 30 rows" in checked
    assert "column minutes" in checked
