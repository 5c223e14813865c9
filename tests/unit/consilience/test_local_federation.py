"""What `consilience up` makes of its arguments, and says of its processes; tests/process/test_up.py has the real
ones."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path

import pytest
from flwr.common.config import parse_config_args
from typer.testing import CliRunner

from common.settings import SettingError, to_toml
from consilience import cli, flower_programs
from consilience.flower_programs import LaunchError
from consilience.local_federation import LocalSite, federation, read_sites
from consilience.processes import is_free
from consilience.run_request import federated_run
from tests.support.parameters import few

RUNNER = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "sites"
    folder.mkdir()
    for name in ("bank.csv", "shop.npz", "_labels.csv"):
        (folder / name).touch()
    return folder


def test_what_is_said_of_all_and_of_one(files: Path) -> None:
    said = ["id=case", "bank:target=owed", "shop: min-weight=20", "allow-prices=true", "coreset.k=3"]
    sites, settings = read_sites(files, said, run=True)
    assert sites == [
        LocalSite("bank", files / "bank.csv", {"id": "case", "allow-prices": True, "target": "owed"}),
        LocalSite("shop", files / "shop.npz", {"id": "case", "allow-prices": True, "min-weight": 20}),
    ]
    assert settings == {"id": "case", "coreset.k": 3}


def test_a_site_may_say_otherwise_than_all(files: Path) -> None:
    sites, _ = read_sites(files, ["agent=lr", "shop:agent=rf"], run=False)
    assert [site.settings for site in sites] == [{"agent": "lr"}, {"agent": "rf"}]


def test_paths_are_those_of_whoever_typed_them(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SuperNodes run elsewhere."""
    monkeypatch.chdir(files)
    sites, _ = read_sites(Path(), ["align-key-file=secret", "bank:policy=policy.toml"], run=False)
    assert sites[0].data == files / "bank.csv"
    assert sites[0].settings == {"align-key-file": str(files / "secret"), "policy": str(files / "policy.toml")}
    request = federated_run({"gp.queries": "points.csv"}, "gp", 1.0)
    assert request.settings == {"protocol": "gp", "gp.queries": str(files / "points.csv")}


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("bnk:target=y", "there is no site 'bnk'; there are: bank, shop"),
        ("bank:coreset.k=3", "unknown key 'coreset.k'"),
        ("coreset.k=3", "coreset.k is a run's, not a site's: give --protocol too"),
        ("min-weight=few", "min-weight takes a whole number"),
        ("targt=y", "did you mean target"),
        ("target", "--set takes key=value"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(files: Path, assignment: str, words: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_sites(files, [assignment], run=False)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "fedavg"], "there is no protocol 'fedavg'; there are: bc3e"),
        (["--protocol", "bc3e", "--set", "data=x"], "data is not for --set here"),
        (["--protocol", "bc3e", "--set", "gp.experts=3"], "gp.experts is a key of gp, and this is a run of bc3e"),
        (["--protocol", "bc3e", "--set", "scenario=bc3e-wine"], "scenario is not for --set here"),
        (["--set", "seed=1"], "give --protocol too"),
    ],
)
def test_the_command_refuses_before_anything_starts(files: Path, arguments: list[str], words: str) -> None:
    done = RUNNER.invoke(cli.app, ["up", "--sites", str(files), "--folder", str(files / "fed"), *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
    assert not (files / "fed").exists()


def test_folders_without_a_sites_file_or_with_the_centers_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="holds no file of a site"):
        read_sites(tmp_path, [], run=False)
    (tmp_path / "center.csv").touch()
    with pytest.raises(SettingError, match="rename the file"):
        read_sites(tmp_path, [], run=False)


# -- processes that only pretend --------------------------------------------------------------------------------------

SUPERLINK = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""
SUPERNODE = """
import sys, time
print("SuperNode ID: 1", sys.argv, flush=True)
time.sleep(120)
"""
REFUSED = "print('the reason'); raise SystemExit(3)"


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs by the names of Flower's, first on the path."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, code in {"flower-superlink": SUPERLINK, "flower-supernode": SUPERNODE}.items():
        write_program(programs / name, code)
    real = flower_programs.environment
    monkeypatch.setattr(flower_programs, "environment", lambda n=1: {**real(n), "PATH": str(programs)})
    return programs


def write_program(path: Path, code: str) -> None:
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def sites_of(*names: str) -> list[LocalSite]:
    return [LocalSite(name, Path(f"/data/{name}.csv"), {"target": "y"}) for name in names]


def test_every_process_is_there_and_then_none(tmp_path: Path, pretend: Path) -> None:
    with federation(sites_of("a", "b"), tmp_path / "fed") as started:
        started.check()
        pids = [process.pid for process in started.processes.values()]
        assert len(set(pids)) == 3
        said = started.logs["b"].read_text()
        node = {
            "site": "b",
            "data": "/data/b.csv",
            "site-output-dir": str(tmp_path / "fed" / "b" / "out"),
            "target": "y",
        }
        assert repr(to_toml(node)) in said
        assert parse_config_args([to_toml(node)]) == node
        assert started.app.is_dir()
        assert str(started.app) in started.how_to_run({"target": "y"})
    assert not started.app.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_who_ended_is_named_with_its_log(tmp_path: Path, pretend: Path) -> None:
    with federation(sites_of("a", "b"), tmp_path / "fed") as started:
        threading.Timer(0.3, started.processes["b"].terminate).start()
        with pytest.raises(LaunchError, match=r"the SuperNode of b ended with -15; its log is .*supernode\.log"):
            started.watch()
    assert all(process.poll() is not None for process in started.processes.values())


def test_a_process_that_does_not_start_is_named_at_once(tmp_path: Path, pretend: Path) -> None:
    write_program(pretend / "flower-supernode", REFUSED)
    with (
        pytest.raises(LaunchError, match="the SuperNode of a ended with 3; its log is"),
        federation(sites_of("a"), tmp_path / "fed"),
    ):
        pytest.fail("it is not up")
    assert "the reason" in (tmp_path / "fed" / "a" / "supernode.log").read_text()


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    """Else the SuperNodes would find whoever listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(LaunchError, match=f"port {port} is in use already"),
            federation(sites_of("a"), tmp_path / "fed", port),
        ):
            pytest.fail("it is not up")
    assert is_free(port)
    assert not (tmp_path / "fed").exists()


@pytest.mark.parametrize("number", few([signal.SIGINT, signal.SIGHUP, signal.SIGTERM], 2))
def test_a_signal_ends_all_and_is_no_failure(
    files: Path, pretend: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consilience.local_federation._LOOK_SECONDS", 0.05)
    folder = files / "fed"
    # Under nohup the tests ignore SIGHUP, and so would the command.
    before = signal.signal(number, signal.SIG_DFL)

    def interrupt() -> None:
        log = folder / "shop" / "supernode.log"
        while not (log.exists() and "SuperNode ID" in log.read_text()):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        done = RUNNER.invoke(cli.app, ["up", "--sites", str(files), "--folder", str(folder)])
    finally:
        signal.signal(number, before)
    thread.join(10)
    assert done.exit_code == 0, done.output
    assert "all processes have ended" in done.stderr
    for words in ("site bank", "site shop", str(folder), "flwr run", "PROTOCOL is bc3e"):
        assert words in done.stdout
