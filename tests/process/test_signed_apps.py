"""Only signed apps: the programs and commands of docs/deploy.md, with a real SuperLink and a real SuperNode."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from flwr.supercore.fab import Fab
from flwr.superlink.servicer.control.control_handlers import _format_verification
from flwr.supernode.start_client_internal import _verify_fab

from consilience.processes import end_families, free_ports
from tests.process.deploy_page import CENTER, USER, Block, Machine, block, blocks
from tests.process.processes import APP
from tests.support.coreset_sites import patients

SITE = "hospital-a"
LABEL = "with signed apps"
OF_PAGE = [each for each in blocks() if each.label.endswith(LABEL)]


def typed(start: str) -> Block:
    """The block of these that begins so."""
    [found] = [each for each in OF_PAGE if each.text.startswith(start)]
    return found


def write_programs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in OF_PAGE:
        if each.language == "python":
            (folder / each.label.partition(",")[0]).write_text(each.text)


def test_what_the_page_signs_is_what_a_supernode_verifies(tmp_path: Path) -> None:
    """By Flower's own function, which takes the signature and the trusted entities as they are written."""
    write_programs(tmp_path)
    (tmp_path / "app.fab").write_bytes(b"an app")
    for name in ("reviewer", "other"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(key, check=True)
    sign = [sys.executable, "sign.py", "app.fab", "reviewer", "reviewer-a"]
    subprocess.run(sign, cwd=tmp_path, check=True)
    trusted, other = (" ".join((tmp_path / f"{name}.pub").read_text().split()[:2]) for name in ("reviewer", "other"))

    def verified(content: bytes, entities: dict[str, str]) -> bool:
        signed = [json.loads((tmp_path / "app.fab.reviewer-a.json").read_text())]
        fab = Fab(hashlib.sha256(content).hexdigest(), content, _format_verification(signed))
        return _verify_fab(fab, entities)

    assert verified(b"an app", {"reviewer-a": trusted, "reviewer-b": other})
    assert not verified(b"an app.", {"reviewer-a": trusted})
    assert not verified(b"an app", {"reviewer-a": other})
    assert not verified(b"an app", {"reviewer-b": trusted})


# -- with real processes ----------------------------------------------------------------------------------------------


def without_tls(text: str) -> str:
    """A command as it is typed without what other tests type."""
    options = r"--enable-supernode-auth.*?server\.key|--root-certificates.*?keys/hospital-a"
    return re.sub(options, "--insecure", text, flags=re.DOTALL)


@pytest.fixture
def machines(tmp_path: Path) -> dict[str, Machine]:
    """A center, a site and a user, as on the page but for TLS."""
    port, hub, own = free_ports(3)
    meant = {"center.example.org": "127.0.0.1", "8443": str(port), "8091": str(hub), "0.0.0.0": "127.0.0.1"}
    meant |= {"/opt/consilience": str(tmp_path / "source"), "min-sites=3": "min-sites=1"}
    first = block("mkdir -p ~/federation").text
    made = {}
    for name in (CENTER, SITE, USER):
        home = tmp_path / name.replace(" ", "-")
        (home / "federation" / "keys").mkdir(parents=True)
        made[name] = Machine(name, home, meant, own, first)
        write_programs(made[name].folder)
    copy_the_app(tmp_path / "source")
    patients(120).to_csv(made[SITE].folder / "patients.csv", index_label="case")
    (made[SITE].folder / "policy.toml").write_text('protocols = ["coreset"]\n')
    (made[USER].home / ".flwr").mkdir()
    config = f'[superlink.center]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (made[USER].home / ".flwr" / "config.toml").write_text(config)
    return made


def copy_the_app(folder: Path) -> None:
    for room in ("clients", "common", "consilience", "numerics", "protocols", "scenarios", "server", "strategies"):
        shutil.copytree(APP / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(APP / name, folder)


@pytest.fixture
def up(machines: dict[str, Machine]) -> Iterator[dict[str, Path]]:
    """All that the page has running, with the app signed; yields the logs."""
    center, site = machines[CENTER], machines[SITE]
    site.run(typed("ssh-keygen"))
    for name in ("app.fab", "app.fab.reviewer-a.json"):
        shutil.copy(site.folder / name, center.folder)
    site.run(typed("echo"))
    logs: dict[str, Path] = {}
    with ExitStack() as stack:

        def start(machine: Machine, begin: str, said: str) -> None:
            text = without_tls(machine.text(typed(begin)))
            process, logs[begin] = machine.start_text(text, begin.split()[0])
            stack.callback(lambda: end_families([process]))
            deadline = time.monotonic() + 90
            while said not in (log := logs[begin].read_text(errors="replace")):
                assert process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.1)

        start(center, "python hub.py", "")
        start(center, "env FLWR", "running on http")
        start(site, "flower-supernode", "SuperNode ID")
        yield logs


@pytest.mark.slow
def test_a_signed_app_runs_and_an_altered_or_unsigned_one_is_refused(
    machines: dict[str, Machine], up: dict[str, Path], tmp_path: Path
) -> None:
    user, center, log = machines[USER], machines[CENTER], up["flower-supernode"]
    command = user.text(typed("flwr run"))
    assert "results: " in user.run_text(command, 240).stdout
    results = center.folder / "results" / "coreset-own-data"
    assert len(list(results.glob("[0-9]*"))) == 1
    assert "FAB" not in log.read_text(errors="replace")

    # The center has changed the app, and has the signature of the one that was reviewed.
    with (tmp_path / "source" / "clients" / "app.py").open("a") as file:
        file.write("# altered\n")
    built = center.run_text(f"rm app.fab; flwr build --app {tmp_path / 'source'} && mv *.fab app.fab")
    assert built.returncode == 0, built.stdout
    assert "no trusted entity has signed it" in user.run_text(command, 240).stdout
    assert "FAB verification failed" in log.read_text(errors="replace")

    sent = command.replace("@consilience/consilience==0.1.0", str(tmp_path / "source"))
    assert "no trusted entity has signed it" in user.run_text(sent, 240).stdout
    assert "The FAB could not be verified" in log.read_text(errors="replace")
    assert len(list(results.glob("[0-9]*"))) == 1
