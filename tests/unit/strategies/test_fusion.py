"""The fusion base: sites that come, go and fail, told by a conversation that asks the same again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common.constant import ErrorCode

import strategies.exchange
import strategies.run
from consilience.local_engine.grid import node_configs
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault
from protocols.wire.message import ENVELOPE, Answer, Ask, encoded_bytes, read_ask, write_answer, write_ask
from strategies.cells import Table
from strategies.checkpoint import Checkpoint
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.errors import FusionError
from strategies.exchange import wait_for_nodes
from strategies.fusion import FusionStrategy
from tests.support.grid import Clock, InProcessGrid, Tamper, config
from tests.support.tampering import silent, with_content, with_error


class Asker(FusionStrategy):
    """Asks all sites the same in every round, and from the second on by name if it is to; returns who answered."""

    def __init__(self, *, rounds: int = 3, by_name: bool = False, needed: bool = True, **common: Any) -> None:
        super().__init__(**{"session": "s", **common})
        self.rounds, self.by_name, self.needed = rounds, by_name, needed

    def conversation(self, repetition: int = 0) -> Conversation[list[list[str]]]:
        told: list[list[str]] = []
        for number in range(self.rounds):
            survey, measure = Survey("row", "salt"), {"bound": -100.0 + number}
            asks = dict.fromkeys(told[0], survey) if self.by_name and told else None
            by_name = Tell(asks, measure=measure, needed=self.needed) if asks else None
            answers = yield by_name or Broadcast(survey, measure=measure)
            told.append(list(answers))
        return told


class Grid(InProcessGrid):
    """The in-process grid whose nodes come and go: `change(round, grid)` is called before a round's messages leave."""

    change: Callable[[int, Grid], None] | None = None

    def get_node_ids(self) -> Iterable[int]:
        if self.change:
            self.change(len(self.crossed), self)
        return list(self.contexts)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(strategies.exchange, "time", clock)
    return clock


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[Ask]:
    """The asks that the center encodes."""
    calls: list[Ask] = []

    def counted(ask: Ask) -> RecordDict:
        calls.append(ask)
        return write_ask(ask)

    monkeypatch.setattr(strategies.run, "write_ask", counted)
    return calls


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    caplog.set_level(logging.INFO, logger="flwr")
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog


def named(*names: str) -> list[dict[str, Any]]:
    return [{**node, "site": name} for node, name in zip(node_configs(len(names)), names, strict=True)]


def grid(tmp_path: Path, *names: str, tamper: Tamper | None = None) -> Grid:
    return Grid(named(*names), config(tmp_path), 7, tamper=tamper)


def add(to: InProcessGrid, node: int, name: str, place: int, of: int) -> None:
    """A SuperNode that has just been started."""
    run_config = next(iter(to.contexts.values())).run_config
    settings: dict[str, Any] = {"partition-id": place, "num-partitions": of, "site": name}
    to.contexts[node] = Context(7, node, settings, RecordDict(), run_config)


# -- names ------------------------------------------------------------------------------------------------------------


def test_sites_are_ordered_by_name_not_by_node(tmp_path: Path) -> None:
    result = Asker().start(grid(tmp_path, "zoe", "amy", "max"), timeout=5)
    assert result.outcomes == [[["amy", "max", "zoe"]] * 3]
    assert result.sites == ["amy", "max", "zoe"]
    assert result.missing == {}


def test_two_sites_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FusionError, match=r"two sites call themselves 'amy': give each SuperNode its own name"):
        Asker().start(grid(tmp_path, "amy", "max", "amy"), timeout=5)


def test_a_site_that_changes_its_name_does_not_count(tmp_path: Path) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (0, 2):
            reply.content.config_records[ENVELOPE]["site"] = "eve"
        return reply

    result = Asker().start(grid(tmp_path, "amy", "max", tamper=tamper), timeout=5)
    assert result.outcomes == [[["amy", "max"], ["max"], ["amy", "max"]]]
    assert result.missing == {"amy": ["round 2: calls itself eve now"]}


@pytest.mark.parametrize("name", ["../amy", "a\nb", "node 7", "x" * 65, "", ".."])
def test_a_name_that_is_no_file_name_is_not_taken(tmp_path: Path, name: str) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        if place == 0:
            reply.content.config_records[ENVELOPE]["site"] = name
        return reply

    result = Asker(rounds=1).start(grid(tmp_path, "amy", "max", tamper=tamper), timeout=5)
    assert result.sites == ["max"]
    assert result.missing == {"node 1000": [f"round 1: {Fault.BAD_SITE_NAME.message} [bad-site-name]"]}


def test_a_site_that_cannot_say_its_name_says_why(tmp_path: Path) -> None:
    result = Asker(rounds=1).start(grid(tmp_path, "amy", "no name", "not this"), timeout=5)
    reason = f"round 1: {Fault.BAD_SITE_NAME.message} [bad-site-name]"
    assert result.missing == {"node 1007": [reason], "node 1014": [reason]}


# -- few sites, slow sites, no sites ----------------------------------------------------------------------------------


def test_min_sites_is_needed_in_every_round(tmp_path: Path) -> None:
    names = "amy", "max", "zoe"
    result = Asker(min_sites=2).start(grid(tmp_path, *names, tamper=silent(1, [2])), timeout=5)
    assert result.outcomes == [[["amy", "max", "zoe"], ["amy", "zoe"], ["amy", "max", "zoe"]]]
    with pytest.raises(
        FusionError,
        match=r"^round 2: 2 of 3 sites answered, min-sites is 3 \(max: no answer within 5 s\)$",
    ):
        Asker(min_sites=3).start(grid(tmp_path, *names, tamper=silent(1, [2])), timeout=5)


def test_equal_reasons_of_many_sites_are_one_line(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    names = [f"site-{place}" for place in range(6)]

    def tamper(at: int, now: int, reply: Message) -> Message | None:
        return None if now > 1 and at > 0 else reply

    with pytest.raises(FusionError) as stopped:
        Asker(min_sites=2).start(grid(tmp_path, *names, tamper=tamper), timeout=5)
    line = "site-1, site-2, site-3 and 2 more: no answer within 5 s"
    assert str(stopped.value) == f"round 2: 1 of 6 sites answered, min-sites is 2 ({line})"
    assert [each.getMessage() for each in log.records if "no answer" in each.getMessage()] == [f"round 2: {line}"]


def test_answers_that_are_not_needed_end_no_run(tmp_path: Path) -> None:
    names = "amy", "max"

    def tamper(at: int, now: int, reply: Message) -> Message | None:
        return None if now > 1 else reply

    result = Asker(rounds=2, by_name=True, needed=False).start(grid(tmp_path, *names, tamper=tamper), timeout=5)
    assert result.outcomes == [[["amy", "max"], []]]
    assert list(result.missing) == ["amy", "max"]
    with pytest.raises(FusionError, match=r"^round 2: 0 of 2 sites answered"):
        Asker(rounds=2, by_name=True).start(grid(tmp_path, *names, tamper=tamper), timeout=5)


def test_a_silent_site_is_waited_for_until_the_timeout_and_no_longer(tmp_path: Path, clock: Clock) -> None:
    result = Asker().start(grid(tmp_path, "amy", "max", tamper=silent(0, [2])), timeout=30)
    assert result.missing == {"amy": ["round 2: no answer within 30 s"]}
    assert 30 <= result.convergence[1]["seconds"] < 31
    assert [row["seconds"] for row in result.convergence[::2]] == [0, 0]
    assert 30 <= result.seconds < 31


def test_nodes_that_connect_slowly_are_waited_for(tmp_path: Path, clock: Clock) -> None:
    whole = grid(tmp_path, "amy", "max", "zoe")
    arriving, contexts = dict(whole.contexts), whole.contexts
    contexts.clear()

    def change(_: int, at: Grid) -> None:
        for place, (node, context) in enumerate(arriving.items()):
            if clock.now >= 4 * place + 1:
                contexts[node] = context

    whole.change = change
    result = Asker(n_sites=3).start(whole, timeout=60)
    assert result.outcomes == [[["amy", "max", "zoe"]] * 3]
    assert 9 <= clock.now < 11
    assert result.seconds == 0


def test_nodes_that_do_not_connect_stop_the_run(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(FusionError, match=r"^2 of 3 sites connected within 20 s$"):
        Asker(n_sites=3).start(grid(tmp_path, "amy", "max"), timeout=20)
    assert 20 <= clock.now < 21
    empty = Grid([], config(tmp_path), 7)
    with pytest.raises(FusionError, match=r"^0 of 0 sites connected|^0 of 1 sites connected"):
        wait_for_nodes(empty, 0, 1)


def test_num_rounds_ends_a_conversation_that_takes_longer(tmp_path: Path) -> None:
    assert Asker(rounds=3).start(grid(tmp_path, "amy"), num_rounds=3, timeout=5).rounds == 3
    with pytest.raises(FusionError, match=r"^the conversation did not end within num_rounds=2$"):
        Asker(rounds=3).start(grid(tmp_path, "amy"), num_rounds=2, timeout=5)


# -- sites that come and go -------------------------------------------------------------------------------------------


def at_round(number: int, sites: int, change: Callable[[Grid], object]) -> Callable[[int, Grid], None]:
    """`change` happens before this round, once; rounds are told by the messages that have crossed."""
    done: list[bool] = []

    def called(crossed: int, at: Grid) -> None:
        if crossed >= 2 * sites * (number - 1) and not done:
            done.append(True)
            change(at)

    return called


@pytest.mark.parametrize("by_name", [False, True])
def test_a_site_that_joins_after_the_start_is_not_taken_in(
    tmp_path: Path, log: pytest.LogCaptureFixture, by_name: bool
) -> None:
    at = grid(tmp_path, "amy", "max")
    at.change = at_round(2, 2, lambda each: add(each, 5000, "zoe", 0, 2))
    result = Asker(by_name=by_name).start(at, timeout=5)
    assert result.outcomes == [[["amy", "max"]] * 3]
    assert result.sites == ["amy", "max"]
    assert ("zoe connected after the run had begun: it takes no part" in log.text) is not by_name


@pytest.mark.parametrize("by_name", [False, True])
def test_a_restarted_supernode_takes_its_place(tmp_path: Path, by_name: bool) -> None:
    def restart(at: Grid) -> None:
        del at.contexts[1000]
        add(at, 5000, "amy", 0, 2)

    at = grid(tmp_path, "amy", "max")
    at.change = at_round(2, 2, restart)
    result = Asker(by_name=by_name).start(at, timeout=5)
    assert result.outcomes == [[["amy", "max"]] * 3]
    assert result.missing == {}


def test_a_restarted_supernode_takes_its_place_while_the_old_one_is_still_listed(tmp_path: Path) -> None:
    """A SuperLink lists a dead node until its heartbeat is overdue."""
    at = grid(tmp_path, "amy", "max", tamper=silent(0, [2, 3]))
    at.change = at_round(2, 2, lambda each: add(each, 1014, "amy", 0, 2))
    result = Asker().start(at, timeout=5)
    assert result.outcomes == [[["amy", "max"]] * 3]
    assert set(result.missing) == {"node 1000"}


@pytest.mark.parametrize("by_name", [False, True])
def test_a_node_that_is_gone_is_named(tmp_path: Path, by_name: bool) -> None:
    at = grid(tmp_path, "amy", "max")
    at.change = at_round(2, 2, lambda each: each.contexts.pop(1000))
    result = Asker(by_name=by_name).start(at, timeout=5)
    assert result.outcomes == [[["amy", "max"], ["max"], ["max"]]]
    assert result.missing == {"amy": [f"round {number}: its node is not connected" for number in (2, 3)]}


def test_a_stranger_is_greeted_once(tmp_path: Path) -> None:
    def exchange(at: Grid) -> None:
        del at.contexts[1000]
        add(at, 5000, "zoe", 0, 2)

    at = grid(tmp_path, "amy", "max")
    at.change = at_round(2, 2, exchange)
    result = Asker(rounds=5, by_name=True).start(at, timeout=5)
    assert result.outcomes == [[["amy", "max"], *[["max"]] * 4]]
    # Five rounds, and one greeting of the two nodes that are there.
    assert sum(direction == "to_site" for direction, _ in at.crossed) == 2 + 4 + 2


# -- sites that have lost their memory --------------------------------------------------------------------------------


def forgetful(name: str, place: int, number: int) -> Tamper:
    """The node at a place says in one round, and once, that it is this site and has lost its memory."""
    said: list[bool] = []

    def tamper(where: int, now: int, reply: Message) -> Message:
        if (where, now) == (place, number) and not said:
            said.append(True)
            return with_content(reply, write_answer(Answer(name, number, Fault.STALE_MEMORY, ())))
        return reply

    return tamper


def reminders(at: InProcessGrid) -> list[tuple[int, int]]:
    """Rounds of the asks with a history, and how many earlier ones each brings."""
    asks = [read_ask(content) for direction, content in at.crossed if direction == "to_site"]
    return [(ask.round, len(ask.history)) for ask in asks if ask.history]


@pytest.mark.parametrize("old", ["gone", "silent", "there"])
def test_what_a_site_was_asked_is_told_to_no_other_node_that_takes_its_name(tmp_path: Path, old: str) -> None:
    """Only where the site itself is no longer connected, it is that site, started anew."""
    lose, quiet = forgetful("amy", 100, 2), silent(0, [2, 3] if old == "silent" else [])

    def tamper(place: int, number: int, reply: Message) -> Message | None:
        return quiet(place, number, reply) and lose(place, number, reply)

    def join(at: Grid) -> None:
        if old == "gone":
            del at.contexts[1000]
        add(at, 1700, "amy", 0, 2)

    at = grid(tmp_path, "amy", "max", tamper=tamper)
    at.change = at_round(2, 2, join)
    if old == "there":
        with pytest.raises(FusionError, match="two sites call themselves 'amy'"):
            Asker().start(at, timeout=5)
    else:
        result = Asker().start(at, timeout=5)
        assert result.outcomes == [[["amy", "max"], ["amy", "max"] if old == "gone" else ["max"], ["amy", "max"]]]
        assert result.rebuilt == ({"amy": [2]} if old == "gone" else {})
    assert reminders(at) == ([(2, 1)] if old == "gone" else [])


@pytest.mark.parametrize("by_name", [False, True])
def test_sites_with_equal_histories_are_sent_one_encoding(tmp_path: Path, encoded: list[Ask], by_name: bool) -> None:
    """All machines of an institution may be restarted at once. A site that missed a round has another history."""
    names = [f"s{place}" for place in range(5)]
    lose = [forgetful(name, place, 3) for place, name in enumerate(names)]

    def tamper(place: int, number: int, reply: Message) -> Message | None:
        return None if (place, number) == (4, 2) else lose[place](place, number, reply)

    at = grid(tmp_path, *names, tamper=tamper)
    result = Asker(by_name=by_name).start(at, timeout=5)
    assert result.outcomes[0][2] == names
    assert result.rebuilt == {name: [3] for name in names}
    assert sorted(len(ask.history) for ask in encoded) == [0, 0, 0, 1, 2]
    assert sorted(reminders(at)) == [(3, 1), *[(3, 2)] * 4]


# -- sites that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.LOAD_CLIENT_APP_EXCEPTION, "its node failed (Flower error code 1)"),
        (
            ErrorCode.INVALID_FAB,
            "its SuperNode refuses the app of this run: no trusted entity has signed it (--trusted-entities)",
        ),
    ],
)
def test_errors_of_nodes_are_told_by_their_code(
    tmp_path: Path, log: pytest.LogCaptureFixture, code: int, told: str
) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        return with_error(reply, "secret 42", code) if (place, number) == (1, 2) else reply

    result = Asker().start(grid(tmp_path, "amy", "max", tamper=tamper), timeout=5)
    assert result.missing == {"max": [f"round 2: {told}"]}
    assert result.outcomes == [[["amy", "max"], ["amy"], ["amy", "max"]]]
    assert "secret" not in log.text


@pytest.mark.parametrize("code", [*Fault, 4711])
def test_fault_codes_are_told_by_their_fixed_messages(tmp_path: Path, code: int) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message:
        return with_content(reply, write_answer(Answer("max", number, code, ()))) if place == 1 else reply

    result = Asker(rounds=1).start(grid(tmp_path, "amy", "max", tamper=tamper), timeout=5)
    told = "unknown fault code 4711" if code == 4711 else f"{Fault(code).message} [{Fault(code).slug}]"
    assert result.missing == {"max": [f"round 1: {told}"]}


# -- what is said and sent --------------------------------------------------------------------------------------------


def test_a_line_of_progress_for_every_round(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    at = grid(tmp_path, "amy", "max", tamper=silent(1, [2]))
    result = Asker().start(at, timeout=5)
    lines = [record.getMessage() for record in log.records if record.getMessage().startswith("round ")]
    lines = [line for line in lines if "sites" in line]
    assert [line.split()[1] for line in lines] == ["1", "2", "3"]
    assert [line.split()[3] for line in lines] == ["2/2", "1/2", "2/2"]
    # The measure that a request carries is that of the round before it.
    assert "bound=-99" in lines[0]
    assert "bound=-98" in lines[1]
    assert all("down=" in line and "up=" in line and line.endswith(" s") for line in lines)
    assert [row["sites"] for row in result.convergence] == [2, 1, 2]
    for way in ("to_site", "from_site"):
        size = sum(encoded_bytes(content) for direction, content in at.crossed if direction == way)
        assert sum(row[f"bytes_{way}s"] for row in result.convergence) == size


@pytest.mark.parametrize("by_name", [False, True])
def test_what_is_the_same_for_all_is_encoded_once(tmp_path: Path, encoded: list[Ask], by_name: bool) -> None:
    Asker(by_name=by_name).start(grid(tmp_path, *(f"s{place}" for place in range(9))), timeout=5)
    assert [ask.round for ask in encoded] == [1, 2, 3]


def test_messages_of_a_broadcast_share_their_content(tmp_path: Path) -> None:
    strategy = Asker()
    strategy._begin()
    messages = list(strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid(tmp_path, "amy", "max", "zoe")))
    assert sorted(message.metadata.dst_node_id for message in messages) == [1000, 1007, 1014]
    assert len({id(message.content) for message in messages}) == 1


# -- sessions, and what is called after every round -------------------------------------------------------------------


def sessions_of(wire: InProcessGrid) -> list[str]:
    """The sessions of all asks that crossed, each once, in order."""
    return list(dict.fromkeys(read_ask(content).session for way, content in wire.crossed if way == "to_site"))


def test_every_start_without_a_session_takes_a_new_one_of_the_run(tmp_path: Path) -> None:
    wire, first, second = grid(tmp_path, "amy", "max"), Asker(session=""), Asker(session="")
    results = [each.start(wire, timeout=5) for each in (first, second, first)]
    assert all(not result.missing for result in results)
    assert sessions_of(wire) == ["7", "7-2", "7-3"]
    another = grid(tmp_path, "amy", "max")
    Asker(session="").start(another, timeout=5)
    assert sessions_of(another) == ["7"]


def test_a_session_that_is_named_is_kept(tmp_path: Path) -> None:
    wire = grid(tmp_path, "amy")
    Asker(session="mine").start(wire, timeout=5)
    assert sessions_of(wire) == ["mine"]


def test_the_members_of_a_table_have_its_session(tmp_path: Path) -> None:
    wire = grid(tmp_path, "amy")
    members = [Asker(session=""), Asker(session="mine")]
    table = Table(members)
    table.start(wire, timeout=5)
    table.start(wire, timeout=5)
    assert [each.session for each in members] == ["7-2", "mine"]


def test_on_round_is_called_with_the_row_of_every_round(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    result = Asker(on_round=rows.append).start(grid(tmp_path, "amy", "max"), timeout=5)
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert rows == result.convergence
    assert set(rows[0]) == {"round", "bound", "sites", "bytes_to_sites", "bytes_from_sites", "seconds"}
    rows[0]["round"] = 99
    assert result.convergence[0]["round"] == 1


def test_a_callback_that_fails_is_logged_once_and_costs_nothing(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def failing(row: Mapping[str, Any]) -> None:
        calls.append(row["round"])
        raise OSError("disk full")

    rows: list[Mapping[str, Any]] = []
    result = Asker(on_round=(failing, rows.append)).start(grid(tmp_path, "amy"), timeout=5)
    assert result.rounds == 3
    assert calls == [1, 2, 3]
    assert rows == result.convergence
    assert [record.message for record in log.records if record.levelno >= logging.ERROR] == [
        "round 1: on_round failed; the run goes on"
    ]


def test_on_round_is_called_with_the_saved_rounds_of_a_resumed_run(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(FusionError, match="num_rounds=2"):
        Asker(checkpoint=Checkpoint(folder, {}, "s")).start(grid(tmp_path, "amy"), num_rounds=2, timeout=5)
    rows: list[Mapping[str, Any]] = []
    Asker(checkpoint=Checkpoint(folder, {}, "s"), on_round=rows.append).start(grid(tmp_path, "amy"), timeout=5)
    assert [row["round"] for row in rows] == [1, 2, 3]
