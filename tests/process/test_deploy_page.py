"""docs/deploy.md is typed, command by command, at a center, three sites and a user; then come those who may not in."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.extras import EXTRA_OF
from consilience.certificates import make_server, make_site_key
from consilience.processes import end_families, free_ports
from server.results import load
from tests.process.deploy_page import CENTER, PAGE, SITES, USER, Block, Machine, block, blocks, commands_in_sentences
from tests.process.processes import APP

SETUP = ("python3 -m venv", "pip install")
ELSEWHERE = ("consilience up",)
"""Blocks that are run elsewhere: tests/process/test_up.py."""
APART = ("with a guard", "with signed apps")
"""Ends of the labels of blocks that tests/process/test_guard.py and test_signed_apps.py run."""


@dataclass(frozen=True)
class Page:
    """The page's deployment, up, after its run.

    Attributes
    ----------
    machines : dict of Machine
        By name.
    printed : dict of str
        What each block printed, by its text; of all machines, one after the other.
    logs : dict of Path
        Output of the processes that stay in the foreground, by machine.
    processes : dict of Popen
        These.
    """

    machines: dict[str, Machine]
    printed: dict[str, str]
    logs: dict[str, Path]
    processes: dict[str, subprocess.Popen[bytes]]

    def said(self, start: str) -> str:
        return self.printed[block(start).text]


def machines_in(folder: Path) -> dict[str, Machine]:
    port, *own = free_ports(1 + len(SITES))
    first = block("mkdir -p ~/federation").text
    made = {}
    for place, name in enumerate((CENTER, USER, *SITES)):
        home = folder / name.replace(" ", "-")
        home.mkdir()
        meant = {"center.example.org": "127.0.0.1", "8443": str(port), "0.0.0.0": "127.0.0.1", "/home/me": str(home)}
        made[name] = Machine(name, home, meant, own[place - 2] if name in SITES else 0, first)
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """All that the page says, done in its order; intruders try to get in before the run, and are there during it."""
    with ExitStack() as stack:
        page = Page(machines_in(tmp_path_factory.mktemp("deploy")), {}, {}, {})
        # The SuperLink last: SuperNodes say goodbye to it, and would try so for a while.
        stack.callback(lambda: end_families([page.processes[CENTER]]))
        stack.callback(lambda: end_families([p for name, p in page.processes.items() if name != CENTER]))
        for each in blocks():
            if each.language == "ini" or each.text.startswith((*SETUP, *ELSEWHERE)) or each.label.endswith(APART):
                continue
            if each.text.startswith("flwr run"):
                try_to_get_in(page)
            for name in each.who if each.language == "sh" else file_at(each):
                typed(page, page.machines[name], each)
            exchange(page.machines)
        yield page


def file_at(each: Block) -> tuple[str, ...]:
    return (USER,) if each.label.startswith("~/.flwr") else SITES


def typed(page: Page, machine: Machine, each: Block) -> None:
    if each.language != "sh":
        machine.write(each)
    elif each.serves:
        page.processes[machine.name], page.logs[machine.name] = machine.start(each)
        await_text(page, machine.name, "running on https" if machine.name == CENTER else "SuperNode ID")
    else:
        page.printed[each.text] = page.printed.get(each.text, "") + machine.run(each, 240)


def await_text(page: Page, name: str, text: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while text not in (said := page.logs[name].read_text(errors="replace")):
        assert page.processes[name].poll() is None, f"{name} ended:\n{said}"
        assert time.monotonic() < deadline, f"{name}: no {text!r}:\n{said}"
        time.sleep(0.1)


def exchange(machines: dict[str, Machine]) -> None:
    """What the page has people give to each other: the CA's certificate, and public keys; nothing else."""
    root = machines[CENTER].folder / "certificates" / "ca.pem"
    for name in (*SITES, USER):
        if root.is_file():
            shutil.copy(root, machines[name].folder)
        for public in (machines[name].folder / "keys").glob("*.pub"):
            shutil.copy(public, machines[USER].folder)


# -- those who may not in ---------------------------------------------------------------------------------------------

INTRUDERS = {
    "unregistered": ["--root-certificates", "ca.pem", "--auth-supernode-private-key", "keys/unregistered"],
    "no-key": ["--root-certificates", "ca.pem"],
    "no-tls": ["--insecure"],
    "wrong-ca": ["--root-certificates", "other/ca.pem", "--auth-supernode-private-key", "keys/hospital-a"],
}
"""SuperNodes at a site's machine, and what they try with."""

REFUSED = {
    "unregistered": "Failed to activate SuperNode",
    "no-key": "All SuperNodes must be registered",
    "wrong-ca": "CERTIFICATE_VERIFY_FAILED",
}
"""What those are told that end; the page says so too. The one without TLS tries again without end."""


def try_to_get_in(page: Page) -> None:
    site = page.machines[SITES[0]]
    make_site_key(site.folder / "keys", "unregistered")
    make_server(site.folder / "other", ["127.0.0.1"])
    address = f"127.0.0.1:{site.substitutions['8443']}"
    for (name, options), port in zip(INTRUDERS.items(), free_ports(len(INTRUDERS)), strict=True):
        command = ["flower-supernode", "--superlink", address, "--port", str(port), "--node-config", f'site="{name}"']
        page.processes[name], page.logs[name] = site.start_text(shlex.join([*command, *options]), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", INTRUDERS)
def test_whoever_may_not_in_is_not_in(page: Page, name: str) -> None:
    said = page.logs[name].read_text(errors="replace")
    assert "SuperNode ID" not in said
    if name in REFUSED:
        assert page.processes[name].wait(30) != 0
        assert REFUSED[name] in page.logs[name].read_text(errors="replace")
        assert f"`{REFUSED[name]}`" in PAGE.read_text(encoding="utf-8")
    else:
        assert page.processes[name].poll() is None
        assert "Connection attempt failed, retrying" in said
    center = page.machines[CENTER].folder
    everything = "".join(path.read_text() for path in (center / "results").rglob("*.json*"))
    assert name not in everything


# -- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_run_of_the_page(page: Page) -> None:
    runs = json.loads(page.said("flwr list"))["runs"]
    assert [run["status"] for run in runs] == ["finished:completed"]
    [found] = (page.machines[CENTER].folder / "results").glob("*/[0-9]*")
    assert str(found) in page.said("consilience show")
    shared = [path for path in (found, *found.rglob("*")) if path.stat().st_mode & 0o077]
    assert not shared, "other users of the fusion center can read them"
    report, arrays = load(found)
    assert (report.sites, report.missing) == (list(SITES), {})
    assert arrays["weights"].min() >= 20, "the sites' policy"
    assert page.said("flwr supernode list").count("online") == len(SITES)
    for site in SITES:
        own = page.machines[site].folder
        rows = pd.read_csv(own / "patients.csv")
        kept = pd.read_csv(own / "own" / "clusters.csv")
        assert sorted(kept.iloc[:, 0]) == sorted(rows["case"])
        sent = [line for line in (found / "ledger.jsonl").read_text().splitlines() if json.loads(line)["site"] == site]
        assert sent
        assert not (own / "own" / "errors.log").exists()
    written = "".join(path.read_text() for path in found.rglob("*") if path.suffix in {".json", ".jsonl", ".html"})
    assert "-0001" not in written, "the name of a case"
    assert not np.isnan(arrays["centers"]).any()


@pytest.mark.slow
def test_keys_stay_where_they_were_made(page: Page) -> None:
    secret = {CENTER: "certificates/ca.key certificates/server.key"} | {site: f"keys/{site}" for site in SITES}
    content: dict[str, bytes] = {}
    for name, paths in secret.items():
        for path in paths.split():
            file = page.machines[name].folder / path
            assert file.stat().st_mode & 0o777 == 0o600
            content[path] = file.read_bytes()
    for name, machine in page.machines.items():
        theirs = secret.get(name, "").split()
        for file in filter(Path.is_file, machine.folder.rglob("*")):
            found = [path for path, key in content.items() if key in file.read_bytes() and path not in theirs]
            assert not found, f"{file} holds {found}"


@pytest.mark.slow
def test_after_a_crash_the_same_commands_are_enough(page: Page) -> None:
    """The SuperLink is killed and a site ends; nobody registers anything again, and the other sites come back."""
    commands = {CENTER: block("flower-superlink"), SITES[0]: block("flower-supernode")}
    page.processes[SITES[0]].terminate()
    page.processes[SITES[0]].wait(30)
    page.processes[CENTER].kill()
    page.processes[CENTER].wait(30)
    for name, command in commands.items():
        page.logs[name].unlink()
        page.processes[name], page.logs[name] = page.machines[name].start(command)
        await_text(page, name, "running on https" if name == CENTER else "SuperNode ID")
    shown = block("flwr supernode list")
    deadline = time.monotonic() + 90
    while (said := page.machines[USER].run(shown)).count("online") < len(SITES):
        assert time.monotonic() < deadline, said
    assert json.loads(page.machines[USER].run(block("flwr list")))["runs"], "runs outlive a restart"


OF_NUMBERS = {
    "flwr log RUN-ID center --show": (0, "results: "),
    "flwr stop RUN-ID center": (1, "already finished"),
    "flwr supernode unregister NODE-ID center": (0, "unregistered"),
}
"""What comes of the page's other commands when the run has ended: exit status, and words."""


@pytest.mark.slow
def test_the_commands_in_its_sentences(page: Page) -> None:
    user = page.machines[USER]
    [run] = json.loads(page.said("flwr list"))["runs"]
    node = json.loads(user.run_text("flwr supernode list center --format json").stdout)["nodes"][0]
    assert commands_in_sentences() == sorted(OF_NUMBERS)
    for command, (status, words) in OF_NUMBERS.items():
        typed = command.replace("RUN-ID", run["run-id"]).replace("NODE-ID", node["node-id"])
        done = user.run_text(typed)
        assert done.returncode == status, done.stdout
        assert words in done.stdout.lower()


def test_the_units_start_what_the_page_starts() -> None:
    units = {each.label: each.text for each in blocks() if each.language == "ini"}
    assert [Path(path).name for path in units] == ["superlink.service", "supernode.service", "guard.service"]
    for path, text in list(units.items())[:2]:
        joined = text.replace("\\\n", " ")
        [started] = re.findall(r"^ExecStart=(.*)$", joined, re.MULTILINE)
        program, *arguments = shlex.split(started)
        name = Path(program).name
        assert split_words([name, *arguments]) == split_words(shlex.split(block(name).text.replace("\\\n", " "))), path
        for line in block("mkdir -p ~/federation").text.splitlines()[1:]:
            for variable in shlex.split(line)[1:]:
                assert variable in joined
        assert re.search(r"^User=(?!root)\w+$", joined, re.MULTILINE)


def split_words(arguments: list[str]) -> list[list[str]]:
    """Each argument's words: a long one may stand on two lines."""
    return [each.split() for each in arguments]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for each in blocks():
        if each.language == "ini":
            program = re.search(r"^ExecStart=(\S+)", each.text, re.MULTILINE)
            assert program is not None
            # It looks whether the program is there.
            text = each.text.replace(program[1], "/bin/true")
            text = re.sub(r"^User=\w+", f"User={os.getuid()}", text, flags=re.MULTILINE).replace(
                "Groups=flower", "Groups=root"
            )
            (tmp_path / Path(each.label).name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    assert not [line for line in checked.stderr.splitlines() if str(tmp_path) in line], checked.stderr


def test_the_extras_of_the_page_are_those_that_there_are() -> None:
    """What is installed is not typed here."""
    page = PAGE.read_text(encoding="utf-8")
    _, _, table = page.partition("| extra |")
    table, _, _ = table.partition("\n\n")
    project = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {*EXTRA_OF.values(), "all"}
    installed = {extra for typed in re.findall(r"'\.\[([\w,]+)\]'", page) for extra in typed.split(",")}
    assert installed <= project["optional-dependencies"].keys()
