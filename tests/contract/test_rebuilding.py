"""A site that has lost its memory is asked everything again, and the run ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, RecordDict

from protocols.bc3e.payloads import EStep
from protocols.wire.faults import Fault
from protocols.wire.message import Answer, Ask, Parcel, read_ask, write_answer, write_ask
from protocols.wire.payload import PayloadError
from server.results import load
from strategies import replay as history
from strategies.errors import FusionError
from strategies.replay import ReplayLog
from tests.support.grid import InProcessGrid, config
from tests.support.parameters import few
from tests.support.residual_sites import COSTS, deployed_sites, write_world
from tests.support.runs import run_with_grid
from tests.support.sec_sites import write_sites
from tests.support.tampering import silent
from tests.unit.protocols.wire.test_message import asked

pytestmark = pytest.mark.usefixtures("quick")

Forget = Callable[[int, int, Message], Message | None]


class Forgetting:
    """A grid whose sites lose their Flower context, and their own directory, before the rounds named.

    Parameters
    ----------
    at : dict
        By place, the rounds before which it happens.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: dict[int, set[int]]) -> None:
        pushed = InProcessGrid.push_messages

        def push(grid: InProcessGrid, messages: Any) -> Any:
            messages = list(messages)
            for message in messages:
                node = message.metadata.dst_node_id
                due = at.get((node - 1000) // 7, set())
                if (number := int(message.metadata.group_id)) in due:
                    due.discard(number)
                    grid.contexts[node].state = RecordDict()
                    if directory := grid.contexts[node].node_config.get("site-output-dir"):
                        shutil.rmtree(str(directory))
            return pushed(grid, messages)

        monkeypatch.setattr(InProcessGrid, "push_messages", push)


def real_nodes(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    """A node a file, as SuperNodes that have set no directory of their own: their memory is Flower's context alone."""
    return [
        {"site": path.stem, "data": str(path), **settings} for path in sorted(folder.glob("*.csv"))
    ]  # fmt: skip


def ensembles(folder: Path) -> Path:
    """Three sites with class and cluster labels."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for name in ("east", "north", "south"):
        truth = rng.integers(0, 3, 30)
        votes = [np.where(rng.random(30) < 0.3, rng.integers(0, 3, 30), truth) for _ in range(2)]
        rows = np.column_stack([*votes, 2 - truth])
        np.savetxt(folder / f"{name}.csv", rows, "%d", ",", header="class_a,class_b,cluster_x", comments="")
    return folder


def worlds(protocol: str, tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Settings of a run and the nodes' own."""
    if protocol == "bc3e":
        return {"protocol": "bc3e", "bc3e__max_rounds": 6}, real_nodes(ensembles(tmp_path / "files"))
    if protocol == "residual":
        return deployed_sites(tmp_path, write_world(tmp_path / "files"), residual__rounds=4)
    folder = write_sites(tmp_path / "files", [0, 0, 1], n=60)
    return {"protocol": "sec", "min_sites": 2}, real_nodes(folder, target="y", candidates="lr")


@pytest.mark.parametrize(
    ("protocol", "at"), [("bc3e", {1: {3, 5}}), ("bc3e", {0: {4}, 2: {4}}), ("residual", {2: {4}})]
)
def test_a_site_that_lost_its_memory_rebuilds_it(
    protocol: str, at: dict[int, set[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same result as an undisturbed run, bit for bit; the report says who had forgotten, and misses nobody."""
    settings, nodes = worlds(protocol, tmp_path)
    if protocol != "residual":
        settings = config(tmp_path, **settings)
    undisturbed, _ = run_with_grid(settings, nodes, 1)
    places = {place: sorted(rounds) for place, rounds in at.items()}
    Forgetting(monkeypatch, at)
    disturbed, grid = run_with_grid(settings, nodes, 2)
    (report, arrays), (other, others) = load(disturbed), load(undisturbed)
    assert learned(report.metrics) == learned(other.metrics)
    assert arrays.keys() == others.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, others[name])
    assert report.missing == {}
    for place, rounds in places.items():
        said = f"{nodes[place]['site']} lost its memory, and rebuilt it from repeated asks in round "
        assert [note for note in report.notes if note.startswith(said + ", ".join(map(str, rounds)))]
    again = sum(map(len, places.values()))
    messages = 2 * sum(int(each["sites"]) for each in report.convergence)
    assert len(grid.crossed) == messages + 2 * again
    assert sum(line["bytes"] for line in lines_of(disturbed)) > sum(line["bytes"] for line in lines_of(undisturbed))


SEALED: dict[str, dict[str, Any]] = {
    "plan": {"residual__algorithm": "parallel", "residual__power": "1"},
    "ring": {"residual__topology": "ring"},
}


@pytest.mark.parametrize(("way", "place"), few([("plan", 1), ("ring", 1), ("ring", 0)]))
def test_a_site_that_lost_its_keys_is_as_one_that_falls_silent(
    way: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With new ones it could open nothing of the others', and they nothing of it: it is named, and not rebuilt."""
    folder = write_world(tmp_path / "files", holder="bank")
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__rounds=4, **SEALED[way])
    victim = nodes[place]["site"]
    lost = second_ask_to(victim, sent_in(settings, nodes))
    quiet, _ = run_with_grid(settings, nodes, 2, tamper=silent(place, range(lost, 99)))
    Forgetting(monkeypatch, {place: {lost}})
    forgot, _ = run_with_grid(settings, nodes, 3)
    (report, arrays), (other, others) = load(forgot), load(quiet)
    assert learned(report.metrics) == learned(other.metrics)
    assert arrays.keys() == others.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, others[name])
    assert report.missing.keys() == other.missing.keys() == {victim}
    assert report.missing[victim][0].startswith(f"round {lost}: ")
    assert all(said.endswith("[stale-memory]") for said in report.missing[victim])
    assert [said.partition(":")[0] for said in report.missing[victim]] == [
        said.partition(":")[0] for said in other.missing[victim]
    ]
    assert not any("lost its memory" in note for note in report.notes)


def test_without_the_keys_of_who_leads_a_run_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_world(tmp_path / "files", holder="bank")
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__rounds=4, **SEALED["plan"])
    lost = second_ask_to("bank", sent_in(settings, nodes))
    with pytest.raises(FusionError) as quiet:
        run_with_grid(settings, nodes, 2, tamper=silent(0, range(lost, 99)))
    Forgetting(monkeypatch, {0: {lost}})
    with pytest.raises(FusionError) as forgot:
        run_with_grid(settings, nodes, 3)
    stopped, why = str(forgot.value).split(" (bank: ")
    assert stopped == str(quiet.value).split(" (bank: ")[0]
    assert why.endswith("[stale-memory])")


def sent_in(settings: dict[str, Any], nodes: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """What a run sends: to whom, in which round."""
    lines = lines_of(run_with_grid(settings, nodes, 1)[0])
    return [(line["site"], line["round"]) for line in lines if line["direction"] == "to_site"]


def second_ask_to(name: str, sent: list[tuple[str, int]]) -> int:
    """The round in which a site is asked the second time since all were told the order, in round 2."""
    return sorted({number for site, number in sent if site == name and number > 2})[1]


def learned(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name not in COSTS}


def lines_of(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (results / "ledger.jsonl").read_text().splitlines()]


def test_a_site_that_forgets_at_once_again_has_failed(tmp_path: Path) -> None:
    """It is asked once more, not for ever."""
    settings, nodes = worlds("bc3e", tmp_path)
    asked_of: list[int] = []

    def forgets(place: int, number: int, reply: Message) -> Message:
        asked_of.append(number)
        if place == 1 and number == 3:
            reply.content = write_answer(Answer("north", number, Fault.STALE_MEMORY, ()))
        return reply

    found, _ = run_with_grid(config(tmp_path / "results", **settings), nodes, tamper=forgets)
    report, _ = load(found)
    assert asked_of.count(3) == len(nodes) + 1
    assert [said for said in report.missing["north"] if "[stale-memory]" in said] == report.missing["north"]
    assert [said.partition(":")[0] for said in report.missing["north"]] == ["round 3"]
    assert not report.notes or not any("lost its memory" in note for note in report.notes)


def test_histories_that_grow_too_large_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 100)
    histories = ReplayLog()
    histories.add(1, {"a": asked("0"), "b": asked("0")}, 60)
    histories.add(2, {"a": asked("0")}, 40)
    assert [number for number, _ in histories.of("a")] == [1, 2]
    assert [number for number, _ in histories.of("b")] == [1]
    histories.add(3, {"a": asked("0")}, 1)
    assert histories.of("a") == histories.of("b") == ()
    histories.add(4, {"a": asked("0")}, 0)
    assert histories.of("a") == ()


def test_an_ask_with_its_history_arrives_as_it_was_sent() -> None:
    past = ((2, asked("0")), (5, asked("0") + asked("1")))
    arrived = read_ask(write_ask(Ask("1", 7, 0, asked("1"), past)))
    assert [(number, [parcel.lane for parcel in parcels]) for number, parcels in arrived.history] == [
        (2, ["0"]),
        (5, ["0", "1"]),
    ]
    assert [parcel.lane for parcel in arrived.parcels] == ["1"]
    assert isinstance(arrived.history[0][1][0].payload, EStep)


@pytest.mark.parametrize(
    "past",
    [
        ((7, "0"),),
        ((8, "0"),),
        ((3, "0"), (2, "0")),
        ((0x7FFFFFFF, "0"),),
        ((-1, "0"),),
    ],
)
def test_a_history_of_other_rounds_than_earlier_ones_is_refused(past: tuple[tuple[int, str], ...]) -> None:
    history = tuple((number, asked(lane)) for number, lane in past)
    with pytest.raises(PayloadError, match="round"):
        read_ask(write_ask(Ask("1", 7, 0, asked("1"), history)))


def test_a_parcel_of_the_past_behind_one_of_now_is_refused() -> None:
    content = write_ask(Ask("1", 7, 0, asked("1"), ((2, asked("0")),)))
    labels = [content.config_records[f"{place}.scalars"]["parcel"] for place in range(2)]
    for place, label in enumerate(reversed(labels)):
        content.config_records[f"{place}.scalars"]["parcel"] = label
    with pytest.raises(PayloadError, match="round"):
        read_ask(content)


def test_an_answer_larger_than_allowed_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    settings, nodes = worlds("sec", tmp_path)
    sizes = [line["bytes"] for line in lines_of(run_with_grid(config(tmp_path / "a", **settings), nodes)[0])]
    limit = 2 * max(sizes) / 1e6

    def swells(place: int, number: int, reply: Message) -> Message:
        if place == 0 and number == 2:
            parcel = Parcel("0", EStep(**{**vars(asked("0")[0].payload), "clusterings": ("x" * 3 * max(sizes),)}))
            reply.content = write_answer(Answer("lab-0", number, 0, [parcel]))
        return reply

    found, _ = run_with_grid(config(tmp_path / "b", **settings, max_payload_mb=limit), nodes, tamper=swells)
    report, _ = load(found)
    (said,) = report.missing["lab-0"]
    assert said.startswith("round 2: refused: its answer has ")
    assert said.endswith(f"max-payload-mb is {int(limit * 1e6) / 1e6:g}")
    (line,) = [line for line in lines_of(found) if line["payload"] == "refused"]
    assert line["site"] == "lab-0"
    assert line["bytes"] > 3 * max(sizes)
