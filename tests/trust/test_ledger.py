"""A site's own ledger: what leaves is written down before it leaves, and the fusion center's ledger says the same."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from typer.testing import CliRunner

from clients.dispatch import handle
from clients.ledger import NAME, Ledger
from consilience.cli import app
from consilience.ledger_comparison import LedgerError, compare_all, read_center
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e.payloads import EStep, Survey
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import (
    ENVELOPE,
    Answer,
    Ask,
    Parcel,
    digest,
    ledger_lines,
    read_envelope,
    write_answer,
    write_ask,
)
from protocols.wire.payload import Payload, encode_array
from tests.support.fault_federations import WORLDS, Federation, at_home
from tests.support.grid import config
from tests.support.payloads import example, through_bytes
from tests.support.runs import make_grid, run_over

SESSION = "77"
ANSWER = example(EStep.answer or EStep)


@pytest.fixture(autouse=True)
def _identity() -> None:
    """Flower asks who sends a message."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 5, 1


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / NAME).read_text().splitlines()]


def answer(number: int = 1, *payloads: Payload) -> tuple[RecordDict, list[Parcel]]:
    parcels = [Parcel(str(lane), payload) for lane, payload in enumerate(payloads or (ANSWER,))]
    return write_answer(Answer("a", number, 0, parcels)), parcels


def record(folder: Path | None, number: int = 1, run: int = 1, *payloads: Payload) -> None:
    Ledger(folder, "a", run).record(*answer(number, *payloads), round_number=number, session=SESSION)


# -- the content's digest ---------------------------------------------------------------------------------------------


def test_a_digest_is_what_its_documentation_says() -> None:
    content, _ = answer()
    scalars = {key: value for key, value in content.config_records["0.scalars"].items() if key != "parcel"}
    arrays = sorted(content.array_records["0.arrays"].items())
    described = [[name, array.dtype, list(array.shape), len(array.data)] for name, array in arrays]
    about = {"arrays": described, "payload": ANSWER.title(), "scalars": scalars}
    plain = json.dumps(about, sort_keys=True, separators=(",", ":")) + "\n"
    data = b"".join(array.data for _, array in arrays)
    assert digest(content, "0") == hashlib.sha256(plain.encode() + data).hexdigest()


def test_a_digest_is_the_same_in_every_order_and_lane_and_after_the_wire() -> None:
    content, _ = answer(1, ANSWER, ANSWER)
    shuffled = RecordDict()
    for name in reversed(list(content)):
        record = content[name]
        kind = type(record)
        shuffled[name] = kind(dict(reversed(list(record.items()))))  # type: ignore[arg-type]
    expected = {digest(content, part) for part in ("0", "1")}
    assert len(expected) == 1
    assert {digest(each, "0") for each in (shuffled, through_bytes(content))} == expected
    assert digest(shuffled, ENVELOPE) == digest(content, ENVELOPE)


def changes() -> Iterator[RecordDict]:
    """The same answer with one thing changed."""
    for change in ("scalar", "number", "dtype", "shape", "name", "title"):
        content = through_bytes(answer()[0])
        scalars, arrays = content.config_records["0.scalars"], content.array_records["0.arrays"]
        name = next(name for name, array in arrays.items() if len(array.data) >= 16)
        values = np.frombuffer(arrays[name].data, np.float64)
        if change == "scalar":
            content["0.scalars"] = ConfigRecord({**scalars, "more": 1})
        elif change == "number":
            arrays[name] = encode_array(np.nextafter(values, 9))
        elif change == "dtype":
            arrays[name] = encode_array(values.view(np.int64))
        elif change == "shape":
            arrays[name] = encode_array(values[np.newaxis])
        elif change == "name":
            renamed = {f"{key}{'x' * (key == name)}": array for key, array in arrays.items()}
            content["0.arrays"] = ArrayRecord(renamed)
        else:
            content["0.scalars"] = ConfigRecord({**scalars, "parcel": ["0", "bc3e.Other"]})
        yield content


def test_a_digest_tells_every_change() -> None:
    found = [digest(content, "0") for content in changes()] + [digest(answer()[0], "0")]
    assert len(set(found)) == len(found) == 7


# -- lines ------------------------------------------------------------------------------------------------------------


def test_a_line_says_what_left_when_and_in_which_run(tmp_path: Path) -> None:
    record(tmp_path, 3, 12)
    envelope, line = lines_of(tmp_path)
    assert {key: line[key] for key in ("round", "direction", "site", "lane", "payload", "run", "session")} == {
        "round": 3, "direction": "from_site", "site": "a", "lane": "0", "payload": ANSWER.title(), "run": 12,
        "session": SESSION,
    }  # fmt: skip
    assert line["bytes"] >= sum(field["bytes"] for field in line["fields"].values() if field["shape"]) > 0
    assert datetime.fromisoformat(line["time"]).utcoffset().total_seconds() == 0  # type: ignore[union-attr]
    assert (envelope["payload"], envelope["sha256"]) == (ENVELOPE, digest(answer(3)[0], ENVELOPE))


def test_runs_follow_each_other(tmp_path: Path) -> None:
    record(tmp_path, 1, 1)
    before = (tmp_path / NAME).read_bytes()
    record(tmp_path, 1, 2)
    assert (tmp_path / NAME).read_bytes().startswith(before)
    assert [line["run"] for line in lines_of(tmp_path)] == [1, 1, 2, 2]


@pytest.mark.parametrize("kept", [0, 1, 40])
def test_a_line_cut_short_by_a_crash_spoils_no_other(tmp_path: Path, kept: int) -> None:
    record(tmp_path)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole + whole[:kept])
    record(tmp_path, 2)
    lines = (tmp_path / NAME).read_bytes().splitlines()
    assert b"\n".join(lines[:2]) + b"\n" == whole
    assert lines[2:-2] == [whole[:kept]] * (kept > 0)
    assert [json.loads(line)["round"] for line in lines[-2:]] == [2, 2]


def test_without_a_directory_there_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record(None)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_down_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(SiteFault) as told:
        record(tmp_path / "home")
    assert told.value.fault == Fault.OUTPUT_NOT_WRITTEN


# -- a site that is asked ---------------------------------------------------------------------------------------------


def ask_site(tmp_path: Path, *asks: Payload, **node: Any) -> RecordDict:
    """What a real site of a scenario, with a directory of its own, answers to the first round."""
    about = {"site": "a", "partition-id": 0, "num-partitions": 2, "site-output-dir": str(tmp_path / "home"), **node}
    content = write_ask(Ask("1", 1, 0, [Parcel("0", ask) for ask in asks]))
    message = over_the_wire(Message(content, 5, "train", group_id="1"))
    return handle(message, Context(1, 5, about, RecordDict(), config(tmp_path))).content


def test_what_leaves_stands_in_the_ledger(tmp_path: Path) -> None:
    content = ask_site(tmp_path, Survey("row", "salt"))
    assert [line["sha256"] for line in lines_of(tmp_path / "home")] == [digest(content, ENVELOPE), digest(content, "0")]


def test_a_refusal_stands_in_the_ledger(tmp_path: Path) -> None:
    content = ask_site(tmp_path, example(EStep))
    (line,) = lines_of(tmp_path / "home")
    fault = Fault(read_envelope(content).fault)
    assert (line["payload"], line["fault"], line["sha256"]) == (ENVELOPE, fault.slug, digest(content, ENVELOPE))


def test_what_cannot_be_written_down_does_not_leave(tmp_path: Path) -> None:
    (tmp_path / "home" / NAME).mkdir(parents=True)
    content = ask_site(tmp_path, Survey("row", "salt"))
    assert read_envelope(content).fault == Fault.OUTPUT_NOT_WRITTEN
    assert list(content) == [ENVELOPE]


def test_a_directory_that_cannot_be_found_is_a_code_too(tmp_path: Path) -> None:
    """Not an exception of Flower's, whose text would travel."""
    content = ask_site(tmp_path, Survey("row", "salt"), **{"site-output-dir": "~nobody-here/home"})
    assert read_envelope(content).fault == Fault.OUTPUT_NOT_WRITTEN
    assert list(content) == [ENVELOPE]


# -- two ledgers of a run ---------------------------------------------------------------------------------------------


Run = tuple[Federation, Path, list[Path]]
"""A run between real sites: its world, its results, the sites' own directories."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run of each protocol, once; not to be changed."""

    @cache
    def run(protocol: str) -> Run:
        folder = tmp_path_factory.mktemp(protocol)
        world = WORLDS[protocol](folder)
        nodes = at_home(world.nodes, folder / "homes")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("server.app.figures", lambda report, arrays: [])
            path = run_over(make_grid(world.settings, nodes), world.settings)
        return world, path, [folder / "homes" / name for name in world.names]

    return run


@pytest.mark.parametrize("protocol", WORLDS)
def test_the_two_ledgers_of_a_run_agree(ended: Callable[[str], Run], protocol: str) -> None:
    world, path, homes = ended(protocol)
    lines, agree = compare_all(path, homes)
    assert agree
    assert [line.split(",")[0] for line in lines] == [f"{name}: agrees" for name in sorted(world.names)]
    center = [line for line in lines_of(path) if line["direction"] == "from_site"]
    own = [line for home in homes for line in lines_of(home)]
    key = ("site", "round", "lane", "payload", "bytes", "sha256")
    assert sorted([line[name] for name in key] for line in own) == sorted(
        [line[name] for name in key] for line in center
    )
    assert {line["payload"] for line in own} > {ENVELOPE}
    assert all("sha256" not in line for line in lines_of(path) if line["direction"] == "to_site")


@pytest.fixture
def pair(ended: Callable[[str], Run], tmp_path: Path) -> tuple[Path, Path]:
    """Copies of a run's results and of the directory of one of its sites, ``north``."""
    _, path, homes = ended("bc3e")
    copies = tmp_path / "results", tmp_path / "home"
    for source, copy in zip((path, homes[1]), copies, strict=True):
        shutil.copytree(source, copy)
    return copies


def rewrite(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))


def said(pair: tuple[Path, Path], code: int = 0) -> str:
    """What the command prints, and that it ends so."""
    result = CliRunner().invoke(app, ["ledger", *map(str, pair)])
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr


def test_the_command_says_that_they_agree_and_who_was_not_compared(pair: tuple[Path, Path]) -> None:
    text = said(pair)
    assert "north: agrees," in text
    assert text.strip().endswith("not compared: east, west")


def test_the_folder_of_a_site_stands_for_its_only_ledger(pair: tuple[Path, Path]) -> None:
    folder = pair[1].parent / "north"
    shutil.copytree(pair[1], folder / "own")
    assert "north: agrees," in said((pair[0], folder))
    shutil.copytree(pair[1], folder / "old")
    assert "holds several ledgers" in said((pair[0], folder), 1)


def test_a_payload_that_the_site_does_not_know_of_differs(pair: tuple[Path, Path]) -> None:
    rewrite(pair[1], [line for line in lines_of(pair[1]) if line["round"] != 3])
    differing = [line for line in said(pair, 1).splitlines() if "differs:" in line]
    assert len(differing) == 1
    assert "round 3: " in differing[0]
    assert differing[0].endswith("the fusion center has it, the site's ledger does not")


@pytest.mark.parametrize(("key", "value"), [("sha256", "0" * 64), ("bytes", 7), ("lane", "4")])
def test_a_payload_that_arrived_otherwise_differs(pair: tuple[Path, Path], key: str, value: Any) -> None:
    lines = lines_of(pair[1])
    changed = next(line for line in lines if line["round"] == 2 and line["payload"] != ENVELOPE)
    changed[key] = value
    rewrite(pair[1], lines)
    text = said(pair, 1)
    assert f"{key} {value} at the site" in text
    assert changed["payload"] in text


def test_a_late_answer_is_in_the_site_s_only_and_no_contradiction(pair: tuple[Path, Path]) -> None:
    lines = lines_of(pair[0])
    rewrite(pair[0], [line for line in lines if (line["site"], line["round"]) != ("north", 3)])
    assert "in the site's ledger only; it came late, or was lost on the way" in said(pair)


def test_what_a_site_said_it_could_not_write_down_is_no_contradiction(pair: tuple[Path, Path]) -> None:
    """Its disk was full: then not even the refusal is in its ledger; every other refusal is, or something is wrong."""
    refusal = write_answer(Answer("north", 4711, Fault.OUTPUT_NOT_WRITTEN, ()))
    [line] = ledger_lines(refusal, (), round_number=4711, direction="from_site", site="north")
    lines = lines_of(pair[0])
    rewrite(pair[0], [*lines, line])
    text = said(pair)
    assert "north: no contradiction, " in text
    assert "round 4711: " in text
    assert "the site could not write this down, and reported it" in text
    rewrite(pair[0], [*lines, {**line, "fault": "stale-memory"}])
    assert "the fusion center has it, the site's ledger does not" in said(pair, 1)


def test_an_answer_that_left_twice_is_told(pair: tuple[Path, Path]) -> None:
    lines = lines_of(pair[1])
    again = [{**line, "run": 99} for line in lines if line["round"] == 2]
    rewrite(pair[1], lines + again)
    assert "left the site more than once" in said(pair)


def test_an_answer_that_the_center_refused_is_told(pair: tuple[Path, Path]) -> None:
    lines, refused = [], 0
    for line in lines_of(pair[0]):
        if (line["site"], line["round"], line["direction"]) != ("north", 2, "from_site"):
            lines.append(line)
        else:
            refused += line["bytes"]
    gone = {"round": 2, "direction": "from_site", "site": "north", "lane": "", "payload": "refused", "fields": {}}
    rewrite(pair[0], [*lines, {**gone, "bytes": refused}])
    assert f"refused by the fusion center, {refused} bytes" in said(pair)
    rewrite(pair[0], [*lines, {**gone, "bytes": refused + 1}])
    assert "differs:" in said(pair, 1)


def test_a_line_that_was_cut_short_is_counted(pair: tuple[Path, Path]) -> None:
    with (pair[1] / NAME).open("a") as file:
        file.write('{"round": 2, "dir\n')
    assert "1 lines of" in said(pair)


@pytest.mark.parametrize("spoilt", ["session", "gone", "report", "old", "broken"])
def test_ledgers_that_cannot_be_compared_are_told_in_a_line(pair: tuple[Path, Path], spoilt: str) -> None:
    results, home = pair
    if spoilt == "session":
        rewrite(home, [{**line, "session": "another"} for line in lines_of(home)])
    elif spoilt == "gone":
        (home / NAME).unlink()
    elif spoilt == "report":
        (results / "report.json").unlink()
    elif spoilt == "old":
        rewrite(results, [{k: v for k, v in line.items() if k != "sha256"} for line in lines_of(results)])
    else:
        (results / NAME).write_text('{"round": 1}\n')
    assert len(said(pair, 1).strip().splitlines()) == 1
    with pytest.raises(LedgerError):
        compare_all(results, [home])


def test_thousands_of_lines_are_compared(pair: tuple[Path, Path]) -> None:
    """Whatever their order among the rounds; each line for itself, so that time grows with their number."""
    results, home = pair
    session, _ = read_center(results)
    one = [line for line in lines_of(results) if line["site"] == "north" and line["direction"] == "from_site"][:2]
    many = [{**line, "round": number} for number in range(2000) for line in one]
    rewrite(results, many)
    rewrite(home, [{**line, "run": 1, "session": session, "time": ""} for line in many])
    assert "2000 messages are the same" in said(pair)
