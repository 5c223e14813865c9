"""What a SuperLink's file keeps of answers: a file made by Flower's own classes, whose bytes are looked at."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.common.constant import NOOP_FLWR_AID
from flwr.server.superlink.linkstate.linkstate_factory import LinkStateFactory
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from typer.testing import CliRunner

from consilience.cli import app
from consilience.state_wipe import WipeError, look, wipe

SUPERLINK = 1
"""Flower's number of the SuperLink itself."""


def doubles_in(path: Path, numbers: list[bytes]) -> int:
    """How many of the doubles are in the bytes of a SuperLink's files, at any place."""
    content = b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))
    content = content.ljust(-(-len(content) // 8) * 8 + 8)
    every = np.concatenate([np.frombuffer(content[k : k - 8], np.int64) for k in range(8)])
    return int(np.isin(np.frombuffer(b"".join(numbers), np.int64), every).sum())


@dataclass
class SuperLink:
    """What a SuperLink does with its file, without its ports."""

    path: Path
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        state = LinkStateFactory(str(self.path), NoOpFederationManager(), ObjectStoreFactory(str(self.path))).state()
        assert isinstance(state, SqlLinkState)
        self.state = state
        self.node = state.create_node(NOOP_FLWR_AID, "", b"a public key", 30.0, name="hospital-a")
        state.activate_node(self.node, 30.0)

    def run(self, *, ended: bool = True, log_was_read: bool = False) -> tuple[int, list[bytes]]:
        """Ask the node once, and have its answer; returns the run's number and the answer's doubles, byte by byte."""
        run = self.state.create_run(
            "app", "1", "hash", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        numbers = self.rng.normal(size=(60, 4))
        ask = self._message(RecordDict({"ask": ArrayRecord({"x": Array(self.rng.normal(size=3))})}), run)
        self._keep(ask, run)
        assert self.state.store_message_ins(ask)
        self.state.get_message_ins(self.node, 1)
        answer = Message(RecordDict({"answer": ArrayRecord({"points": Array(numbers)})}), reply_to=ask)
        self._number(answer)
        self._keep(answer, run)
        assert self.state.store_message_res(answer)
        if ended:
            self._end(run)
        if log_was_read:
            self.state.cleanup_run(run)  # as `flwr run --stream` does at its end
        return run, [number.tobytes() for number in numbers.ravel()]

    def close(self) -> None:
        """End without a word, as a process that is killed: what is in the write-ahead log stays there."""
        kept = [(path, path.read_bytes()) for path in self.files]
        for part in (self.state, self.state.object_store):
            part._engine.dispose()  # type: ignore[attr-defined]
        for path, content in kept:
            path.write_bytes(content)

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.parent.glob(f"{self.path.name}*"))

    def found(self, numbers: list[bytes]) -> int:
        """How many of the doubles are in the bytes of its files."""
        return doubles_in(self.path, numbers)

    def _message(self, content: RecordDict, run: int) -> Message:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, SUPERLINK, 1
        message = Message(content, self.node, "query")
        self._number(message)
        return message

    def _number(self, message: Message) -> None:
        message.metadata.__dict__["_message_id"] = message.object_id

    def _keep(self, message: Message, run: int) -> None:
        self.state.object_store.preregister(run, get_object_tree(message))
        for name, each in get_all_nested_objects(message).items():
            self.state.object_store.put(name, each.deflate())

    def _end(self, run: int) -> None:
        [about] = self.state.get_run_info(run_ids=[run])
        task = about.primary_task_id
        assert task is not None
        assert self.state.claim_task(task)
        assert self.state.activate_task(task)
        assert self.state.finish_task(task, "completed", "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[bytes]]]:
    """A folder with the files of a SuperLink that was killed after three runs, and the doubles of each."""
    superlink = SuperLink(tmp_path_factory.mktemp("superlink") / "state.db")
    numbers = {
        "kept": superlink.run()[1],
        "deleted": superlink.run(log_was_read=True)[1],
        "open": superlink.run(ended=False)[1],
    }
    superlink.close()
    return superlink.path, numbers


@pytest.fixture
def state(made: tuple[Path, dict[str, list[bytes]]], tmp_path: Path) -> Path:
    """A copy of it."""
    for path in made[0].parent.glob("state.db*"):
        shutil.copy(path, tmp_path)
    return tmp_path / "state.db"


def test_answers_outlive_their_run_in_the_file(state: Path, made: tuple[Path, dict[str, list[bytes]]]) -> None:
    """Also those that Flower has deleted."""
    for numbers in made[1].values():
        assert doubles_in(state, numbers) == len(numbers)


def test_no_double_of_a_finished_run_is_left(state: Path, made: tuple[Path, dict[str, list[bytes]]]) -> None:
    after = wipe(state)
    assert [each.name for each in state.parent.iterdir()] == ["state.db"]
    assert doubles_in(state, made[1]["kept"]) == 0
    assert doubles_in(state, made[1]["deleted"]) == 0
    assert doubles_in(state, made[1]["open"]) == len(made[1]["open"])
    assert (after.finished, after.unfinished, after.rows, after.free, after.log) == (2, 1, 0, 0, 0)
    assert wipe(state) == after


def test_a_superlink_goes_on_with_what_is_left(state: Path, made: tuple[Path, dict[str, list[bytes]]]) -> None:
    wipe(state)
    factory = LinkStateFactory(str(state), NoOpFederationManager(), ObjectStoreFactory(str(state)))
    again = factory.state()
    assert [node.name for node in again.get_node_info()] == ["hospital-a"]
    assert len(again.get_run_info()) == 3
    [open_run] = [run.run_id for run in again.get_run_info() if run.status.status != "finished"]
    [asked] = again.get_message_ids_from_run_id(open_run)
    [answer] = again.get_message_res({asked}, open_run)
    assert again.object_store.get(answer.metadata.message_id)
    again._engine.dispose()  # type: ignore[attr-defined]


def test_a_dry_run_changes_nothing(state: Path) -> None:
    before = {path.name: path.read_bytes() for path in state.parent.iterdir() if not path.name.endswith("-shm")}
    done = CliRunner().invoke(app, ["wipe", str(state), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "finished runs: 2;" in done.output
    assert "runs that have not ended: 1;" in done.output
    after = {path.name: path.read_bytes() for path in state.parent.iterdir() if not path.name.endswith("-shm")}
    assert before == after
    assert look(state).rows > 0


def test_the_command_says_who_else_can_read_the_file(state: Path) -> None:
    state.chmod(0o644)
    done = CliRunner().invoke(app, ["wipe", str(state)])
    assert done.exit_code == 0, done.output
    assert "wiped;" in done.output
    assert f"other users can read it: chmod go= {state}" in done.output
    state.chmod(0o600)
    assert "other users" not in CliRunner().invoke(app, ["wipe", str(state)]).output


def test_nothing_is_wiped_while_a_superlink_is_up(tmp_path: Path) -> None:
    superlink = SuperLink(tmp_path / "state.db")
    numbers = superlink.run()[1]
    with pytest.raises(WipeError, match="a process has it open; end the SuperLink first"):
        wipe(superlink.path)
    assert superlink.found(numbers) == len(numbers)
    assert superlink.run()[1], "and the SuperLink goes on"
    superlink.close()
    wipe(superlink.path)
    assert superlink.found(numbers) == 0


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with pytest.raises(WipeError, match="there is no such file"):
        wipe(path)
    path.write_bytes(b"no database, but long enough to be looked at" * 20)
    with pytest.raises(WipeError, match="file is not a database"):
        wipe(path)
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE run (run_id INTEGER)")
    other.close()
    with pytest.raises(WipeError, match="is not the state of a SuperLink of this version of Flower: no "):
        wipe(path)
