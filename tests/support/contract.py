"""What every protocol of the framework promises, as tests: a protocol's own tests inherit `StrategyContract`.

The runs are whole ones, from the run configuration to the results directory, over the in-process grid of
`tests/support/grid.py`; only the figures are left out. Time is told by a clock that a sleeping fusion center moves on,
so that a silent site costs no waiting.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, RecordDict

import clients.dispatch
from consilience.local_engine.grid import node_configs
from protocols.wire.faults import Fault
from protocols.wire.message import ENVELOPE, Answer, encoded_bytes, find, write_answer
from protocols.wire.payload import Payload, specs
from server.results import load
from tests.support.grid import Clock, Tamper
from tests.support.parameters import few
from tests.support.runs import (
    InterruptibleGrid,
    Nodes,
    complete_results,
    make_grid,
    outcome_of,
    run,
    run_over,
    skip_waiting,
)
from tests.support.tampering import CANARY, Field, parcels_of, poisons, silent, with_content, with_error

ENVELOPE_KEYS = {"to_site": {"session", "round", "seed"}, "from_site": {"site", "round", "fault"}}

FEW, REST = "few", "rest"
"""How much a test tries: a few rounds and one field of every payload class, or all that these leave out."""

KINDS = ("shape", "finite", "name", "dtype")
"""Kinds of poison."""


def needs_rounds(n_rounds: int, least: int) -> None:
    """Skip a test of later rounds than a short protocol has."""
    if n_rounds < least:
        pytest.skip(f"the run has {n_rounds} of the rounds that it disturbs, and {least} are needed")


def selected(rounds: Sequence[int], extent: str) -> list[int]:
    """Return the first, the middle and the last of these rounds, or the others; skip the test without a round."""
    needs_rounds(len(rounds), 1)
    few = {rounds[0], rounds[len(rounds) // 2], rounds[-1]}
    return [number for number in rounds if (number in few) == (extent == FEW)]


def selected_fields(kind: str, fields: Sequence[Field], extent: str) -> list[Field]:
    """Return one of the fields that this kind of poison can break, another one for every kind, or the others."""
    breakable = [field for field in fields if poisons(kind, field)]
    few = breakable[KINDS.index(kind) % len(breakable)].name if breakable else ""
    return [field for field in breakable if (field.name == few) == (extent == FEW)]


@dataclass(frozen=True)
class Recording:
    """An undisturbed run.

    Attributes
    ----------
    path : Path
        Its results directory.
    grid : Wire
        Its grid, with all that crossed.
    replies : list of RecordDict
        The victim's replies by round, empty where it was not asked.
    """

    path: Path
    grid: InterruptibleGrid
    replies: list[RecordDict]

    @property
    def victim_rounds(self) -> list[int]:
        """The rounds in which the victim is asked anything."""
        return [number for number, content in enumerate(self.replies, 1) if content]

    def first_fields(self) -> dict[type[Payload], list[tuple[int, Field]]]:
        """Every field of the victim's first payload of every class, with its round."""
        fields: dict[type[Payload], list[tuple[int, Field]]] = {}
        for number, content in enumerate(self.replies, 1):
            for place, payload in enumerate(parcels_of(content)):
                if payload not in fields:
                    fields[payload] = [(number, Field(content, place, *each)) for each in specs(payload).items()]
        return fields


class WholeRun:
    """What is run, and its undisturbed run; a subclass says what that is.

    Attributes
    ----------
    protocol : str
        Its name: every payload that crosses is declared in its module ``payloads``.
    outputs : tuple of str
        Names of the files that a site writes for itself, compared after a resumed run.
    victim : int
        Place of the site that falls silent, fails or sends poison.
    """

    protocol: str
    outputs: tuple[str, ...] = ()
    victim = 0

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        """Return the run configuration; its output directory lies in `tmp_path`."""
        raise NotImplementedError

    def nodes(self) -> Nodes:
        """Return the number of simulated sites, or the node configurations."""
        raise NotImplementedError

    def named_nodes(self, names: list[str]) -> list[dict[str, Any]]:
        """Return the same nodes with these names of their own."""
        nodes = self.nodes()
        configs = node_configs(nodes) if isinstance(nodes, int) else nodes
        return [{**config, "site": name} for config, name in zip(configs, names, strict=True)]

    def n_sites(self) -> int:
        """Return the number of sites."""
        nodes = self.nodes()
        return nodes if isinstance(nodes, int) else len(nodes)

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def clock(cls) -> Iterator[Clock]:
        with pytest.MonkeyPatch.context() as patch:
            yield skip_waiting(patch)

    @pytest.fixture(scope="class")
    @classmethod
    def recording(cls, clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Recording:
        """An undisturbed run."""
        replies: list[RecordDict] = []

        def record(place: int, number: int, reply: Message) -> Message:
            if place == cls.victim:
                replies.extend(RecordDict() for _ in range(len(replies), number - 1))
                replies.append(reply.content)
            return reply

        contract = cls()
        config = contract.run_config(tmp_path_factory.mktemp("whole"))
        grid = make_grid(config, contract.nodes(), tamper=record)
        return Recording(run_over(grid, config), grid, replies)

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, recording: Recording) -> Path:
        """Results of an undisturbed run."""
        return recording.path

    def assert_same(self, path: Path, expected: Path, *, ledger: bool = True) -> None:
        """Compare metrics, table and arrays bit for bit."""
        (report, arrays), (wanted, wanted_arrays) = load(path), load(expected)
        assert report.metrics == wanted.metrics
        assert report.table == wanted.table
        assert report.rounds == wanted.rounds
        assert arrays.keys() == wanted_arrays.keys()
        for name, array in wanted_arrays.items():
            assert arrays[name].dtype == array.dtype
            assert arrays[name].tobytes() == array.tobytes(), name
        if ledger:
            assert report.ledger == wanted.ledger
            assert report.sites == wanted.sites
            assert report.missing == wanted.missing


class StrategyContract(WholeRun):
    """Tests that every strategy passes; a subclass says what is run.

    A test that disturbs a run in some round tries few rounds; the rest of them, and the rest of the fields that can
    be poisoned, are marked `slow`.
    """

    @pytest.fixture(params=[FEW, pytest.param(REST, marks=pytest.mark.slow)])
    @classmethod
    def extent(cls, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    # -- what the result may depend on --------------------------------------------------------------------------------

    def test_same_seed_same_report(self, tmp_path: Path, whole: Path) -> None:
        self.assert_same(run(self.run_config(tmp_path), self.nodes()), whole)

    @pytest.mark.parametrize("seed", few([1, 2, 3]))
    def test_reply_order_does_not_matter(self, tmp_path: Path, whole: Path, seed: int) -> None:
        self.assert_same(run(self.run_config(tmp_path), self.nodes(), order=random.Random(seed)), whole)

    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        names = [f"clinic-{letter}" for letter in "zebra-quail"[: self.n_sites()]]
        for order in (names, names[::-1]):
            path = run(self.run_config(tmp_path), self.named_nodes(order))
            self.assert_same(path, whole, ledger=False)
            assert load(path)[0].sites == sorted(names)

    # -- sites in trouble ---------------------------------------------------------------------------------------------

    def test_a_site_that_falls_silent(self, tmp_path: Path, recording: Recording, extent: str) -> None:
        config, site = self.run_config(tmp_path), load(recording.path)[0].sites[self.victim]
        for first in selected(recording.victim_rounds, extent):
            outcome = outcome_of(config, self.nodes(), tamper=silent(self.victim, range(first, 1000)))
            name = site if first > 1 else f"node {1000 + 7 * self.victim}"
            assert f"{name}: " in outcome.text
            assert f"no answer within {config['round-timeout']:g} s" in outcome.text
            if outcome.report:
                assert outcome.report.missing[name][0].startswith(f"round {first}: ")

    def test_too_few_sites_stop_the_run_with_a_line_that_names_them(self, tmp_path: Path, recording: Recording) -> None:
        config = {**self.run_config(tmp_path), "min-sites": self.n_sites()}
        site = load(recording.path)[0].sites[self.victim]
        for first in sorted({1, *recording.victim_rounds[1:2], recording.victim_rounds[-1]}):
            outcome = outcome_of(config, self.nodes(), tamper=silent(self.victim, range(first, 1000)))
            assert outcome.refusal.startswith(f"round {first}: ")
            assert f"min-sites is {self.n_sites()}" in outcome.refusal
            assert (site if first > 1 else "node ") in outcome.refusal

    @pytest.mark.parametrize("how", ["fault code", "exception at the site", "error of its node"])
    def test_a_site_that_fails(
        self,
        tmp_path: Path,
        recording: Recording,
        extent: str,
        how: str,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
        site = load(recording.path)[0].sites[self.victim]
        for failing in selected(recording.victim_rounds, extent):
            with monkeypatch.context() as patch:
                config = self.run_config(tmp_path / str(failing))
                if how == "exception at the site":
                    patch.setattr(clients.dispatch, "handler_of", _failing_handlers(site, failing))
                    outcome = outcome_of(config, self.nodes())
                else:
                    outcome = outcome_of(config, self.nodes(), tamper=_failing(self.victim, failing, how))
            name = f"node {1000 + 7 * self.victim}" if how.startswith("error") and failing == 1 else site
            reason = "Flower error code 1" if how.startswith("error") else Fault.HANDLER_FAILED.message
            assert f"{name}: " in outcome.text
            assert reason in outcome.text
            assert CANARY not in outcome.text
        assert CANARY not in caplog.text
        for path in tmp_path.rglob("*"):
            own = "sites" in path.parts and path.name == "errors.log"
            assert own or not path.is_file() or CANARY.encode() not in path.read_bytes(), path

    @pytest.mark.parametrize("kind", few(KINDS, 2))
    def test_poisoned_answers_are_refused(self, tmp_path: Path, recording: Recording, kind: str, extent: str) -> None:
        site = load(recording.path)[0].sites[self.victim]
        config = self.run_config(tmp_path)
        for payload, fields in recording.first_fields().items():
            number = fields[0][0] if fields else 0
            for field in selected_fields(kind, [each for _, each in fields], extent):
                for turn, (what, poison) in enumerate(poisons(kind, field)):

                    def tamper(at: int, now: int, reply: Message) -> Message:
                        if (at, now) == (self.victim, number):  # noqa: B023  (called before the loop goes on)
                            poison(replace(field, content=reply.content))  # noqa: B023
                        return reply

                    # Once per field the others go on; the other times the run may stop there, which takes less time.
                    needed = {} if turn == 0 else {"min-sites": self.n_sites()}
                    text = outcome_of({**config, **needed}, self.nodes(), tamper=tamper).text
                    case = f"{payload.title()}.{field.name} {what}"
                    assert f"{site}: " in text, case
                    assert f"payload {payload.title()}, field '" in text, f"{case}: {text}"
                    assert f"field '{field.name}" in text or kind == "shape", f"{case}: {text}"

    def test_envelope_and_parcels_are_checked(self, tmp_path: Path, recording: Recording) -> None:
        needs_rounds(len(recording.victim_rounds), 2)
        config, site = self.run_config(tmp_path), load(recording.path)[0].sites[self.victim]
        for turn, spoil in enumerate(_SPOILT):

            def tamper(at: int, now: int, reply: Message) -> Message:
                if (at, now) == (self.victim, recording.victim_rounds[1]):
                    spoil(reply.content)  # noqa: B023  (called before the loop goes on)
                return reply

            needed = {} if turn == 0 else {"min-sites": self.n_sites()}
            text = outcome_of({**config, **needed}, self.nodes(), tamper=tamper).text
            assert f"{site}: " in text
            assert "payload " in text

    def test_a_late_answer_is_ignored(self, tmp_path: Path, recording: Recording) -> None:
        """An answer of an earlier round counts no more than silence."""
        earlier: dict[int, RecordDict] = {}
        n_rounds = load(recording.path)[0].rounds
        rounds = [number for number in recording.victim_rounds if number < n_rounds]
        needs_rounds(len(rounds), 2)
        before, late = rounds[-2:]

        def replay(place: int, number: int, reply: Message) -> Message:
            if place == self.victim:
                earlier[number] = reply.content
                if number == late:
                    return with_content(reply, earlier[before])
            return reply

        config = self.run_config(tmp_path)
        replayed, lost = (
            run(config, self.nodes(), tamper=replay),
            run(config, self.nodes(), tamper=silent(self.victim, [late])),
        )
        self.assert_same(replayed, lost)
        assert load(replayed)[0].missing

    def test_a_reply_that_comes_twice_counts_once(self, tmp_path: Path, whole: Path) -> None:
        config = self.run_config(tmp_path)
        grid = make_grid(config, self.nodes())
        grid.twice = True
        self.assert_same(run_over(grid, config), whole)

    # -- what crosses the wire ----------------------------------------------------------------------------------------

    def test_the_ledger_counts_every_byte(self, recording: Recording) -> None:
        report = load(recording.path)[0]
        crossed = {
            way: sum(encoded_bytes(content) for direction, content in recording.grid.crossed if direction == way)
            for way in ("to_site", "from_site")
        }
        assert report.ledger["bytes_to_sites"] == crossed["to_site"]
        assert report.ledger["bytes_from_sites"] == crossed["from_site"]

    def test_nothing_crosses_that_protocols_does_not_declare(self, recording: Recording) -> None:
        for direction, content in recording.grid.crossed:
            parcels = parcels_of(content)
            names = {f"{place}.{part}" for place in range(len(parcels)) for part in ("scalars", "arrays")}
            assert set(content) == {ENVELOPE} | names
            assert set(content.config_records[ENVELOPE]) == ENVELOPE_KEYS[direction]
            for place, payload in enumerate(parcels):
                assert payload.title().partition(".")[0] == self.protocol
                fields = specs(payload)
                arrays = {name for name, spec in fields.items() if spec.kind == "array"}
                scalars = content.config_records[f"{place}.scalars"]
                several = {
                    f"{name}.{item}"
                    for name, spec in fields.items()
                    if spec.kind == "arrays"
                    for item in range(int(scalars[name]))  # type: ignore[arg-type]
                }
                assert set(scalars) == set(fields) - arrays | {"parcel"}
                assert set(content.array_records[f"{place}.arrays"]) == arrays | several

    def test_every_payload_of_the_ledger_is_declared(self, whole: Path) -> None:
        payloads = set(load(whole)[0].ledger["by_payload"]) - {ENVELOPE}
        assert payloads
        for title in payloads:
            assert find(title).title() == title
            assert title.partition(".")[0] == self.protocol

    # -- interruption -------------------------------------------------------------------------------------------------

    def interrupt(self, config: dict[str, Any], *, before: int | None = None, after: int | None = None) -> str:
        """A run that is interrupted; returns the path that its results would have had."""
        grid = make_grid(config, self.nodes())
        grid.stop_before, grid.stop_after = before, after
        grid.stop = KeyboardInterrupt if (before or after or 0) % 2 else SystemExit
        finished = complete_results(Path(config["output-dir"]))
        with pytest.raises(grid.stop):
            run_over(grid, config)
        assert complete_results(Path(config["output-dir"])) == finished
        run_id = next(iter(grid.contexts.values())).run_id
        [partial] = Path(config["output-dir"]).glob(f"*/.{run_id}.partial")
        return str(partial.parent / str(run_id))

    def output_files(self, path: Path) -> dict[tuple[str, str], bytes]:
        """The sites' own output files, by site and name."""
        folders = [folder for folder in (path / "sites").glob("*") if folder.is_dir()]
        return {
            (folder.name, name): (folder / name).read_bytes()
            for folder in folders
            for name in self.outputs
            if (folder / name).exists()
        }

    def assert_resumes(self, config: dict[str, Any], interrupted: str, whole: Path) -> None:
        path = run({**config, "resume-from": interrupted}, self.nodes())
        self.assert_same(path, whole, ledger=False)
        assert self.output_files(path) == self.output_files(whole)
        assert not (path / "checkpoint").exists()

    def test_interrupted_between_two_rounds(self, tmp_path: Path, whole: Path, extent: str) -> None:
        config = self.run_config(tmp_path)
        assert len(self.output_files(whole)) == self.n_sites() * len(self.outputs)
        for number in selected(range(2, load(whole)[0].rounds + 1), extent):
            self.assert_resumes(config, self.interrupt(config, before=number), whole)

    def test_interrupted_when_the_sites_had_answered_and_nothing_was_saved(
        self, tmp_path: Path, whole: Path, extent: str
    ) -> None:
        config = self.run_config(tmp_path)
        for number in selected(range(2, load(whole)[0].rounds + 1), extent):
            self.assert_resumes(config, self.interrupt(config, after=number), whole)

    def test_interrupted_again_after_it_was_resumed(self, tmp_path: Path, whole: Path) -> None:
        config, rounds = self.run_config(tmp_path), load(whole)[0].rounds
        needs_rounds(rounds, 2)
        first = self.interrupt(config, after=2)
        second = self.interrupt({**config, "resume-from": first}, after=rounds)
        self.assert_resumes(config, second, whole)

    def test_interrupted_before_the_first_round_leaves_nothing(self, tmp_path: Path) -> None:
        config = self.run_config(tmp_path)
        grid = make_grid(config, self.nodes())
        grid.stop_before = 1
        with pytest.raises(KeyboardInterrupt):
            run_over(grid, config)
        assert not [path for path in Path(config["output-dir"]).rglob("*") if path.is_file()]
        assert not list(Path(config["output-dir"]).glob("*/.*"))


_SPOILT: tuple[Callable[[Any], None], ...] = (
    lambda content: content.__delitem__(ENVELOPE),
    lambda content: content[ENVELOPE].__setitem__("site", 7),
    lambda content: content[ENVELOPE].__setitem__("age", 7),
    lambda content: content.__delitem__("0.arrays"),
    lambda content: content.__setitem__("99.arrays", content["0.arrays"]),
    lambda content: content["0.scalars"].__setitem__("parcel", ["0", f"{content['0.scalars']['parcel'][1]}s"]),
    lambda content: content["0.scalars"].__setitem__("parcel", ["0", "os.system"]),
    lambda content: content["0.scalars"].__setitem__("parcel", ["7", content["0.scalars"]["parcel"][1]]),
)
"""Ways to spoil a message as a whole: its envelope, its records, its lanes."""


def _failing(place: int, round_number: int, how: str) -> Tamper:
    def tamper(at: int, now: int, reply: Message) -> Message:
        if (at, now) != (place, round_number):
            return reply
        if how == "error of its node":
            return with_error(reply, CANARY)
        site = str(reply.content.config_records[ENVELOPE]["site"])
        return with_content(reply, write_answer(Answer(site, now, Fault.HANDLER_FAILED, ())))

    return tamper


def _failing_handlers(site: str, round_number: int) -> Callable[[type[Payload]], clients.dispatch.Handler]:
    """Handlers that raise at one site in one round, with the canary in the exception's text."""
    original = clients.dispatch.handler_of

    def handler_of(ask: type[Payload]) -> clients.dispatch.Handler:
        def handler(payload: Any, at: Any) -> Payload:
            if at.name == site and at.round == round_number:
                raise RuntimeError(CANARY)
            return original(ask)(payload, at)

        return handler

    return handler_of
