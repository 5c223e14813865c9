"""The pages' blocks run: Python in order, and the commands that start no Flower process.

All pages share one folder, with the data and results of the protocols' examples: each page's first run on the example's
files happens in this process, with fewer iterations than on the page.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clients.data import site_files
from consilience import cli
from consilience.assignments import parse
from protocols.registry import names as protocol_names
from protocols.settings import declared, run_keys, site_keys
from scenarios.registry import scenarios
from tests.docs.test_commands import Command, commands, in_sentences, parsed
from tests.docs.test_pages import NEW
from tests.support.documentation import blocks, pages
from tests.support.runs import run, skip_waiting

RUN_HERE = {"certificates", "check", "compare", "keys", "ledger", "list", "predict", "runs", "show", "status"}
"""Commands of consilience that start no Flower process."""
QUICK: dict[str, dict[str, Any]] = {
    "bc3e": {},
    "coreset": {"coreset.restarts": 1, "coreset.size": 50},
    "gp": {"gp.fit-rounds": 2},
    "residual": {"residual.rounds": 3, "residual.agent": "lr"},
    "sec": {},
}
"""Settings that make the examples short."""
ELSEWHERE = {"docs/deploy.md": "tests/process/test_deploy_page.py runs them on its machines"}
"""Pages whose commands other tests run."""
REPLACEMENTS = {"/data/out": "of-a-lab", "/data/consilience": "of-a-clinic"}
"""Directories of a real site on the pages, and their replacements here."""

PAGES = [page for page in pages() if any(block.language in ("python", "sh") for block in blocks(page))]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with the examples' data and results, in which the tests of this file run."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        skip_waiting(patch)
        patch.chdir(folder)
        for protocol in protocol_names():
            run_example(protocol)
        for name, protocol in (("of-a-lab", "sec"), ("of-a-clinic", "bc3e")):
            os.symlink(min(Path("own", protocol).iterdir()), name)
        yield folder


def run_example(protocol: str) -> None:
    """Run a protocol's page up to and including its first run on files."""
    page, names = f"docs/{protocol}.md", {"__name__": "__main__"}
    todo = [block for block in blocks(page) if block.language in ("python", "sh") and not block.not_run]
    for block in sorted(todo, key=lambda each: each.language == "sh"):  # an example's data may be below the command
        if block.language == "python":
            if Path("results", f"{protocol}-own-data").exists() or "results/" in block.text or "/data/" in block.text:
                continue
            exec(compile(block.text, str(block), "exec"), names)
            continue
        for command in commands(block):
            if command.words[:2] != ("consilience", "run") or "--data" not in command.words:
                continue
            _, parameters = parsed(cli.app, command)
            settings = {**parse(parameters["assignments"] or (), run_keys()), **QUICK[protocol]}
            run_on_files(protocol, Path(parameters["data"]), settings)
            return
    raise AssertionError(f"{page} runs its protocol on no files")


def run_on_files(protocol: str, data: Path, settings: dict[str, Any]) -> None:
    """Run a protocol on files: between real sites if a page uses what they keep, otherwise simulated."""
    config = {**declared(), "protocol": protocol, "output-dir": "results", **settings}
    if protocol in ("bc3e", "sec"):
        own = {key: value for key, value in settings.items() if key in site_keys() or run_keys()[key].own}
        nodes: Any = [
            {**own, "site": path.stem, "data": str(path), "site-output-dir": f"own/{protocol}/{path.stem}"}
            for path in site_files(data)
        ]
    else:
        config["data"], nodes = str(data), len(site_files(data))
    path = run(config, nodes)
    path.rename(path.with_name("RUN-ID"))


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in the order of the page, in one namespace."""
    monkeypatch.chdir(world)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["block.py", "hospital-a"])
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.not_run or page == "docs/extend.md":
            continue
        if block.language == "python":
            exec(compile(with_replacements(block.text), str(block), "exec"), names)
        elif block.language == "sh" and page not in ELSEWHERE:
            for command in commands(block):
                run_command(command)
    for command in in_sentences(page):
        if command.words[:2] == ("consilience", "check") and Path(command.words[2]).exists():
            run_command(command)


def run_command(command: Command) -> None:
    """Run a command of consilience that starts no Flower process."""
    words = [with_replacements(word) for word in command.words]
    if words[0] != "consilience" or words[1] not in RUN_HERE or NEW in words:
        return
    for word in words[2:]:
        provide_results(word)
    done = CliRunner().invoke(cli.app, words[1:])
    assert done.exit_code == 0, f"{command}: {done.output}{done.exception or ''}"


def with_replacements(text: str) -> str:
    """Return a page's text with the directories of this machine."""
    for place, replacement in REPLACEMENTS.items():
        text = text.replace(place, replacement)
    return text


def provide_results(word: str) -> None:
    """Provide a scenario's results: a copy of those of its protocol's example."""
    match = re.search(r"results/([a-z0-9-]+)/([A-Z0-9-]+)", word)
    short = re.fullmatch(r"((?:[a-z0-9]+-)+[a-z0-9]+)-([0-9]+)", word)
    if match and not Path(match[0]).exists():
        shutil.copytree(example_of(match[1]), match[0])
    elif short:
        numbers = Path("results", short[1], ".numbers")
        numbers.mkdir(parents=True, exist_ok=True)
        (numbers / short[2]).write_text(f"number-{short[2]}")
        shutil.copytree(example_of(short[1]), numbers.with_name(f"number-{short[2]}"), dirs_exist_ok=True)


def example_of(name: str) -> Path:
    """Return the results of the example of a scenario's protocol, or of a protocol's own data."""
    known = scenarios().get(name)
    protocol = known.protocol if known else name.removesuffix("-own-data")
    return Path("results", f"{protocol}-own-data", "RUN-ID")
