"""What code that a run brings can get from a guard: answers to asks that the policy admits, and nothing else."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flwr.app import ConfigRecord, RecordDict
from flwr.common.serde import recorddict_to_proto

import clients.guard
from clients.guard import Guard, GuardError
from clients.guard_wire import GuardAsk, answer_of_guard
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault
from protocols.wire.message import Ask, Parcel, read_envelope, write_ask
from tests.support.fault_federations import Node
from tests.support.guards import listening
from tests.support.site_client import RealSite

SURVEY = Survey("row", "salt")
RUN = {"protocol": "bc3e", "round-timeout": 20.0}
MARK = b"consilience guard 1\n"
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and which every user may enter."""
    with tempfile.TemporaryDirectory(prefix="guard-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture
def node(folder: Path) -> Node:
    """The site's configuration; its file has few rows, and nobody else may read it."""
    data = folder / "own.csv"
    pd.DataFrame({"class_a": [0, 1] * 10, "class_b": [0, 1, 1, 1] * 5, "cluster_x": [1, 0] * 10}).to_csv(
        data, index=False
    )
    data.chmod(0o600)
    return {"site": "north", "data": str(data), "site-output-dir": str(folder / "own")}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog


@pytest.fixture
def guard(folder: Path, node: Node) -> Iterator[Guard]:
    with listening(folder / "guard.sock", node) as started:
        yield started


def messenger(guard: Guard, run_id: int = 9) -> RealSite:
    """The SuperNode, whose code knows the socket and no more."""
    return RealSite({"guard": str(guard.path), "site": "north"}, RUN, run_id)


def said(guard: Guard, data: bytes) -> bytes:
    """All that the guard says to somebody who sends these bytes and no more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(guard.path))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        data = b""
        with contextlib.suppress(ConnectionResetError):  # it has not read all
            while block := connection.recv(65536):
                data += block
        return data


def framed(header: bytes, content: bytes) -> bytes:
    return MARK + struct.pack(">QQ", len(header), len(content)) + header + content


HEADER = json.dumps({"run": 1, "config": RUN}).encode()
NO_RECORD = recorddict_to_proto(RecordDict({"envelope": ConfigRecord({"session": "x"})})).SerializeToString()
MALFORMED = {
    "noise": os.urandom(4096),
    "nothing but the mark": MARK,
    "half a beginning": MARK + bytes(7),
    "a header beyond all bounds": MARK + struct.pack(">QQ", 2**63, 5),
    "a header that ends early": MARK + struct.pack(">QQ", 100, 5) + b"{}",
    "a header that is no JSON": framed(b"\xff\xfe{", b""),
    "a header of nothing": framed(b"", b""),
    "a header of brackets": framed(b"[" * 900_000, b""),
    "a list": framed(b"[1, 2]", b""),
    "no run": framed(b'{"config": {}}', b""),
    "a run that is a text": framed(b'{"run": "../../x", "config": {}}', b""),
    "a negative run": framed(b'{"run": -1, "config": {}}', b""),
    "a run of true": framed(b'{"run": true, "config": {}}', b""),
    "a huge run": framed(b'{"run": 1' + b"0" * 5000 + b', "config": {}}', b""),
    "a configuration in a configuration": framed(b'{"run": 1, "config": {"data": {"a": 1}}}', b""),
    "no configuration": framed(b'{"run": 1, "config": null}', b""),
    "records that end early": MARK + struct.pack(">QQ", len(HEADER), 10**6) + HEADER + b"x",
    "records that are none": framed(HEADER, os.urandom(500)),
    "records of something else": framed(HEADER, NO_RECORD),
    "no records": framed(HEADER, b""),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_bytes_get_a_code_and_the_guard_goes_on(
    guard: Guard, data: bytes, log: pytest.LogCaptureFixture
) -> None:
    answer = said(guard, data).removeprefix(b"+")  # its word that it takes in an ask of this size
    assert not answer or answer.startswith(MARK)
    assert b"own.csv" not in answer
    assert len(answer) < 500
    assert messenger(guard).fault(1, SURVEY) == 0
    assert "an ask was lost" not in log.text


def test_somebody_who_says_nothing_is_sent_away(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clients.guard, "_ASK_SECONDS", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(guard.path))
        connection.sendall(MARK)
        assert messenger(guard).fault(1, SURVEY) == 0  # after it, in turn
    assert "the messenger is gone or silent: time" in log.text


def test_the_size_of_an_ask_is_the_policys_and_what_is_larger_is_not_read(folder: Path, node: Node) -> None:
    (folder / "policy.toml").write_text("max-ask-mb = 0.001")
    with listening(folder / "guard.sock", {**node, "policy": str(folder / "policy.toml")}) as guard:
        assert said(guard, MARK + struct.pack(">QQ", len(HEADER), 2**62) + HEADER)[:1] != b"+"
        long = Survey("row", "s" * 3_000_000)
        assert messenger(guard).fault(1, long) == Fault.ASK_TOO_LARGE
        assert messenger(guard).fault(1, Survey("row", "s" * 5000)) == Fault.ASK_TOO_LARGE
        assert messenger(guard).fault(1, SURVEY) == 0


def test_what_a_run_says_of_data_policy_and_consents_counts_for_nothing(folder: Path, node: Node) -> None:
    """An altered app sends a run configuration of its own; what belongs to the site stays the site's."""
    (folder / "policy.toml").write_text('protocols = ["gp"]')
    (folder / "secret.csv").write_text("class_a,cluster_x\n" + "0,1\n" * 20)
    lies = {"data": str(folder / "secret.csv"), "policy": "", "site-output-dir": "/tmp/x", "site": "south"}
    lies |= {"partition-id": 0, "num-partitions": 2, "guard": "x", "min-rows": 1}
    with listening(folder / "guard.sock", {**node, "policy": str(folder / "policy.toml")}) as guard:
        answer = RealSite({"guard": str(guard.path)}, {**RUN, **lies}).answer(1, SURVEY)
        assert (answer.site, answer.fault) == ("north", Fault.PROTOCOL_NOT_ALLOWED)
    with listening(folder / "guard.sock", node) as guard:
        answer = RealSite({"guard": str(guard.path)}, {**RUN, **lies}).answer(1, SURVEY)
        assert (answer.site, answer.fault) == ("north", 0)
        honest = messenger(guard).answer(1, SURVEY)
        assert str(answer.parcels[0].payload) == str(honest.parcels[0].payload)


def test_commitments_hold_though_the_supernode_has_lost_all(folder: Path, node: Node) -> None:
    (folder / "policy.toml").write_text("max-rounds = 2")
    with listening(folder / "guard.sock", {**node, "policy": str(folder / "policy.toml")}) as guard:
        assert [messenger(guard).fault(1, SURVEY) for _ in range(3)] == [0, 0, Fault.TOO_MANY_ROUNDS]
        assert messenger(guard, run_id=10).fault(1, SURVEY) == 0


def test_asks_that_come_at_once_are_all_answered(guard: Guard) -> None:
    content = write_ask(Ask("x", 1, 0, [Parcel("0", SURVEY)]))

    def asked(run: int) -> tuple[int, int]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(60)
            connection.connect(str(guard.path))
            return run, read_envelope(answer_of_guard(connection, GuardAsk(run, RUN, content), 60)).fault

    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(asked, range(36))) == [(run, 0) for run in range(36)]


def test_an_ask_whose_messenger_has_gone_is_not_answered(
    guard: Guard, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, goes = threading.Event(), threading.Event()
    original = clients.guard.answer_content

    def slow(content: Any, context: Any) -> Any:
        works.set()
        goes.wait(20)
        return original(content, context)

    monkeypatch.setattr(clients.guard, "answer_content", slow)
    content = recorddict_to_proto(write_ask(Ask("x", 1, 0, [Parcel("0", SURVEY)]))).SerializeToString()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(messenger(guard).fault, 1, SURVEY)
        assert works.wait(20)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
            gone.connect(str(guard.path))
            gone.sendall(framed(json.dumps({"run": 77, "config": RUN}).encode(), content))
        goes.set()
        assert first.result() == 0
    assert messenger(guard, 10).fault(1, SURVEY) == 0
    runs = {json.loads(line)["run"] for line in (Path(str(node["site-output-dir"])) / "ledger.jsonl").open()}
    assert runs == {9, 10}


def test_without_its_guard_a_site_says_so(folder: Path, log: pytest.LogCaptureFixture) -> None:
    silent = RealSite({"guard": str(folder / "guard.sock"), "site": "north"}, RUN).answer(3, SURVEY)
    assert (silent.site, silent.round, silent.fault) == ("north", 3, Fault.GUARD_SILENT)
    assert f"the guard at {folder / 'guard.sock'} does not answer" in log.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"site": ""}, "site is not set in --node-config"),
        ({"data": ""}, "data is not set in --node-config"),
        ({"site-output-dir": ""}, "site-output-dir is not set in --node-config"),
        ({"site": "a/b"}, "site must have A-Z, a-z, digits, dot, hyphen and underscore, not 'a/b'"),
        ({"policy": "/nowhere/policy.toml"}, "policy /nowhere/policy.toml: cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_sentence(
    folder: Path, node: Node, changes: Node, said: str
) -> None:
    with pytest.raises(GuardError) as refused, Guard(folder / "guard.sock", {**node, **changes}):
        pass
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (folder / "guard.sock").exists()


def test_a_second_guard_is_refused_and_a_dead_ones_socket_replaced(folder: Path, node: Node, guard: Guard) -> None:
    for path, own, said in (
        ("guard.sock", "another", "another guard listens at"),
        ("other.sock", "own", "another guard works in"),
        ("own.csv", "another", "exists and is not a socket"),
    ):
        with (
            pytest.raises(GuardError, match=said),
            Guard(folder / path, {**node, "site-output-dir": str(folder / own)}),
        ):
            pass
    assert messenger(guard).fault(1, SURVEY) == 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(folder / "dead.sock"))
    with listening(folder / "dead.sock", {**node, "site-output-dir": str(folder / "another")}) as again:
        assert messenger(again).fault(1, SURVEY) == 0


# -- another user -----------------------------------------------------------------------------------------------------

OWNER, NEIGHBOR, STRANGER, GROUP = 61001, 61002, 61003, 61010
"""Users of the guard, of the SuperNode, and of nobody; the group of the first two."""

ALTERED = """
import os, sys
user, group, groups = int(sys.argv[1]), int(sys.argv[2]), [int(each) for each in sys.argv[3].split(",")]
sys.path[:0] = [sys.argv[4]]
socket, data, own, guard = sys.argv[5:9]
from tests.support.site_client import RealSite
from protocols.bc3e.payloads import Survey
import clients.messenger, clients.guard_wire
os.setgroups(groups); os.setgid(group); os.setuid(user)
for path in (data, own, os.path.join(own, "ledger.jsonl"), f"/proc/{guard}/mem", f"/proc/{guard}/environ"):
    try:
        print("read", path, os.listdir(path) if path == own else open(path).read(100))
    except OSError as error:
        print("denied", os.path.basename(path), type(error).__name__)
site = RealSite({"guard": socket, "site": "north"}, {"protocol": "bc3e", "round-timeout": 20.0})
print("fault", int(site.fault(1, Survey("row", "salt"))))
"""
"""An app of a run that was altered: it tries to read all that is the site's, then asks."""


@pytest.fixture
def guard_of_another_user(folder: Path, node: Node) -> Iterator[tuple[Path, int]]:
    """The socket of a guard that runs as `OWNER`, and its process."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        pytest.skip("only root can start processes of several users")
    run = folder / "run"
    for path in (run, folder / "own"):
        path.mkdir(mode=0o755)
        os.chown(path, OWNER, GROUP)
    (folder / "own").chmod(0o700)
    os.chown(str(node["data"]), OWNER, OWNER)
    code = (
        "import os, sys, signal; sys.path[:0] = [sys.argv[1]]\n"
        "from pathlib import Path\nfrom clients.guard import Guard\nimport json\n"
        "import clients.bc3e.handlers, clients.site\n"  # this Python may lie where only root can read
        "from clients.data import load; load({'data': sys.argv[4]})\n"
        f"os.setgroups([{GROUP}]); os.setgid({OWNER}); os.setuid({OWNER})\n"
        f"with Guard(Path(sys.argv[2]), json.loads(sys.argv[3]), {GROUP}) as guard:\n"
        "    print('listens', flush=True)\n    guard.serve()\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        str(REPOSITORY),
        str(run / "guard.sock"),
        json.dumps(node),
        str(node["data"]),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line == "listens\n":
                    break
            else:
                raise AssertionError("the guard has ended")
            yield run / "guard.sock", process.pid
        finally:
            process.kill()


def altered_app(user: int, groups: str, socket: Path, node: Node, guard: int) -> list[str]:
    """What an altered app prints that runs as this user."""
    arguments = [str(user), str(user), groups, str(REPOSITORY), str(socket), str(node["data"])]
    arguments += [str(node["site-output-dir"]), str(guard)]
    done = subprocess.run(
        [sys.executable, "-c", ALTERED, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("read", "denied", "fault"))]


def test_an_altered_app_of_another_user_gets_answers_and_nothing_else(
    guard_of_another_user: tuple[Path, int], node: Node
) -> None:
    socket, process = guard_of_another_user
    denied = [f"denied {name} PermissionError" for name in ("own.csv", "own", "ledger.jsonl", "mem", "environ")]
    assert altered_app(NEIGHBOR, str(GROUP), socket, node, process) == [*denied, "fault 0"]
    stranger = [*denied, f"fault {int(Fault.GUARD_SILENT)}"]
    assert altered_app(STRANGER, str(STRANGER), socket, node, process) == stranger
    socket.chmod(0o666)  # by accident
    assert altered_app(STRANGER, str(STRANGER), socket, node, process) == stranger
