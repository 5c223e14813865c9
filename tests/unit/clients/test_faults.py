"""What a site says when it cannot answer: a code with a fixed message, and never what its data or its errors hold."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

import clients.bc3e.handlers
from clients import dispatch
from clients.bc3e import results as telling
from clients.data import Code, DataError
from clients.dispatch import handle
from clients.shards import logged_fault
from clients.site import Site
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e.payloads import Conclude, EStep, Holdings, Statistics, Survey, Tally
from protocols.coreset.payloads import Summarize
from protocols.wire.faults import Fault, SiteFault, describe
from protocols.wire.message import Answer, Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload, PayloadError
from tests.support.examples import examples
from tests.support.grid import config
from tests.support.payloads import example

CANARY = "canary-4711"
NODE = 77
SURVEY = Survey("row", "salt")


# -- codes and messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_has_a_message(fault: Fault) -> None:
    assert len(fault.message) > 20
    assert "\n" not in fault.message
    assert describe(int(fault)) == f"{fault.message} [{fault.slug}]"
    assert str(SiteFault(fault)) == fault.message


def test_codes_and_messages_are_unique_and_zero_means_none() -> None:
    assert len(Fault.__members__) == len(Fault), "two names for one code"
    assert len({fault.message for fault in Fault}) == len(Fault)
    assert all(fault > 0 for fault in Fault)


@given(code=st.integers().filter(lambda code: code not in set(Fault)))
def test_an_unknown_code_is_shown_as_a_number(code: int) -> None:
    assert describe(code) == f"unknown fault code {code}"


def test_every_code_of_bad_data_has_a_fault_of_its_own() -> None:
    faults = {code: logged_fault(DataError(f"the file: {CANARY}", code)).fault for code in get_args(Code)}
    slugs = {code: fault.slug for code, fault in faults.items()}
    assert slugs == {code: "unreadable-data" if code == "unreadable" else code for code in get_args(Code)}


# -- a site that is asked ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _identity() -> None:
    """Flower asks who sends a message."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, NODE, 1


class Node:
    """One SuperNode that is asked through Flower's bytes."""

    def __init__(self, tmp_path: Path, **node: Any) -> None:
        self.directory = tmp_path / "site"
        node_config = {
            "partition-id": 0, "num-partitions": 2, "site": "a", "site-output-dir": str(self.directory), **node
        }  # fmt: skip
        self.context = Context(1, NODE, node_config, RecordDict(), config(tmp_path))
        self.reply: Message | None = None

    def asked(self, *asks: Payload, number: int = 1) -> Answer:
        return self.answer(write_ask(Ask("1", number, 0, [Parcel("0", ask) for ask in asks])), asks, number)

    def answer(self, content: RecordDict, asks: tuple[Payload, ...] = (), number: int = 1) -> Answer:
        message = over_the_wire(Message(content, NODE, "train", group_id=str(number)))
        self.reply = over_the_wire(handle(message, self.context))
        answer = read_answer(self.reply.content, [Parcel("0", ask) for ask in asks])
        assert bool(answer.fault) != bool(answer.parcels) or not asks
        return answer

    @property
    def sent_bytes(self) -> bytes:
        assert self.reply is not None
        return b"".join(each.deflate() for each in get_all_nested_objects(self.reply).values())

    @property
    def errors(self) -> str:
        return (self.directory / "errors.log").read_text()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def replace_handler(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Payload], Callable[..., Any]], None]:
    """Puts another handler in the place of an ask's own."""

    def replace(ask: type[Payload], handler: Callable[..., Any]) -> None:
        assert clients.bc3e.handlers  # its handlers are registered
        monkeypatch.setitem(dispatch._HANDLERS, ask, handler)

    return replace


ReplaceHandler = Callable[[type[Payload], Callable[..., Any]], None]


def test_a_site_that_can_answer_does(node: Node) -> None:
    answer = node.asked(SURVEY)
    assert (answer.site, answer.fault) == ("a", 0)
    assert isinstance(answer.parcels[0].payload, Holdings)
    assert not (node.directory / "errors.log").exists()


def test_a_missing_library_is_a_fault_at_the_first_ask_and_named_in_the_site_s_own_log(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)  # needed for the last ask of the run, and not for this one
    answer = node.asked(example(Summarize))
    assert answer == Answer("a", 1, Fault.MISSING_LIBRARY, ())
    assert b"ortools" not in node.sent_bytes
    assert "fair clustering needs ortools: pip install 'consilience[coreset]'" in node.errors


class CanaryError(Exception):
    pass


def raising(error: BaseException) -> Callable[..., Any]:
    def handler(ask: Payload, site: Any) -> Payload:
        secret = np.array([CANARY])  # local variables do not travel either
        site.memory["secret"] = np.frombuffer(CANARY.encode(), np.uint8)
        assert secret.size
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (CanaryError(CANARY), Fault.HANDLER_FAILED),
        (KeyError(CANARY), Fault.HANDLER_FAILED),
        (MemoryError(CANARY), Fault.HANDLER_FAILED),
        (PayloadError(CANARY, CANARY, CANARY), Fault.HANDLER_FAILED),
        (SiteFault(Fault.LABEL_OUT_OF_RANGE, CANARY), Fault.LABEL_OUT_OF_RANGE),
        (OSError(28, CANARY), Fault.HANDLER_FAILED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_s_text_stays_at_the_site(
    node: Node, replace_handler: ReplaceHandler, error: Exception, fault: Fault
) -> None:
    replace_handler(Survey, raising(error))
    answer = node.asked(SURVEY, number=5)
    assert answer == Answer("a", 5, fault, ())
    assert CANARY.encode() not in node.sent_bytes
    assert type(error).__name__.encode() not in node.sent_bytes
    assert "round 5" in node.errors
    assert CANARY in node.errors


def test_a_failed_ask_leaves_no_memory_and_the_next_is_answered(
    node: Node, replace_handler: ReplaceHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(dispatch._HANDLERS, Survey, raising(CanaryError(CANARY)))
        assert node.asked(SURVEY).fault
    assert not [name for name in node.context.state if name.startswith("memory")]
    assert not list(node.directory.glob("memory-*"))
    assert node.asked(SURVEY, number=2).fault == 0


def test_one_failing_lane_fails_the_whole_answer(node: Node, replace_handler: ReplaceHandler) -> None:
    replace_handler(EStep, raising(CanaryError(CANARY)))
    answer = node.asked(SURVEY, example(EStep))
    assert answer == Answer("a", 1, Fault.HANDLER_FAILED, ())


def answer_of_another_ask(ask: Payload, site: Any) -> Payload:
    return example(Tally)


def no_answer(ask: Payload, site: Any) -> None:
    return None


def answer_that_breaks_its_contract(ask: Payload, site: Any) -> Payload:
    return Statistics(1, (), [CANARY], 0)  # type: ignore[arg-type]


def answer_of_wrong_dtype(ask: Payload, site: Any) -> Payload:
    return Holdings(1, 1, (), (), np.zeros(0), np.zeros(0, np.uint64), False)


@pytest.mark.parametrize(
    ("ask", "handler"),
    [
        (SURVEY, answer_of_another_ask),
        (SURVEY, no_answer),
        (SURVEY, answer_of_wrong_dtype),
        (example(EStep), answer_that_breaks_its_contract),
    ],
)
def test_a_handler_that_answers_something_else_failed(
    node: Node, replace_handler: ReplaceHandler, ask: Payload, handler: Callable[..., Any]
) -> None:
    replace_handler(type(ask), handler)
    assert node.asked(ask).fault == Fault.HANDLER_FAILED
    assert CANARY.encode() not in node.sent_bytes


# -- asks that are not in order ---------------------------------------------------------------------------------------


def empty() -> RecordDict:
    return RecordDict()


def without_round() -> RecordDict:
    return RecordDict({"envelope": ConfigRecord({"session": "1", "seed": 0})})


def outside_session() -> RecordDict:
    return write_ask(Ask("../../etc", 3, 0, ()))


def unknown_payload() -> RecordDict:
    content = write_ask(Ask("1", 3, 0, [Parcel("0", SURVEY)]))
    content.config_records["0.scalars"]["parcel"] = ["0", "os.path"]
    return content


def bad_field() -> RecordDict:
    content = write_ask(Ask("1", 3, 0, [Parcel("0", SURVEY)]))
    content.config_records["0.scalars"]["salt"] = 1
    return content


@pytest.mark.parametrize("content", [empty, without_round, outside_session, unknown_payload, bad_field])
def test_a_malformed_ask_is_refused_under_the_site_s_name(node: Node, content: Callable[[], RecordDict]) -> None:
    """In round 0: the site could not read of which round the ask is."""
    assert node.answer(content(), number=3) == Answer("a", 0, Fault.MALFORMED_ASK, ())
    assert [path.name for path in node.directory.iterdir()] == ["ledger.jsonl"]


@pytest.mark.parametrize("ask", [example(Statistics), example(Tally), example(Holdings)], ids=lambda ask: ask.title())
def test_an_answer_is_not_an_ask(node: Node, ask: Payload) -> None:
    assert node.asked(ask).fault == Fault.UNKNOWN_ASK


def test_an_ask_without_a_handler_is_unknown(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(dispatch._HANDLERS, Survey)
    assert node.asked(SURVEY).fault == Fault.UNKNOWN_ASK


def test_a_handler_of_a_payload_without_an_answer_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"bc3e\.Tally declares no answer"):
        dispatch.answers(Tally)


# -- names and outputs ------------------------------------------------------------------------------------------------

BAD_NAMES = ["", "../x", "a/b", "a\\b", "x" * 65, "a\0b", ".", "..", "...", " ", "a b", "a\n", "ä", "<b>", "a:b", "*"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    node = Node(tmp_path, site=name)
    assert node.asked(SURVEY) == Answer("", 0, Fault.BAD_SITE_NAME, ())


@examples(50)
@given(name=st.text(max_size=70))
def test_no_text_gets_a_site_out_of_its_directory(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("results")
    context = Context(1, NODE, {"site": name}, RecordDict(), config(folder))
    message = over_the_wire(Message(write_ask(Ask("1", 1, 0, ())), NODE, "train", group_id="1"))
    answer = read_answer(handle(message, context).content, ())
    plain = set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    usable = plain and 1 <= len(name) <= 64 and set(name) != {"."}
    assert (answer.site, answer.fault) == ((name, 0) if usable else ("", Fault.BAD_SITE_NAME))
    assert not list(folder.iterdir())


def e_step() -> EStep:
    return EStep(
        step=0, accepted=True, start=0, weights=np.ones(1), alpha=np.ones(3), clusterings=(), beta=(), grid_bits=20,
        tolerance=1e-6, max_sweeps=10, smoothing=0.0,
    )  # fmt: skip


def remember(ask: Payload, site: Any) -> Payload:
    site.memory["gamma"] = np.ones((3, 2))
    return Statistics(1, (), np.zeros(3, np.int64), 0)


def write_output(ask: Payload, site: Any) -> Payload:
    telling.write_theta(site, site.shard, np.full((site.shard.n, 3), 1 / 3), "theta.csv")
    return example(Tally)


def no_folder(self: Path, *args: Any, **kwargs: Any) -> None:
    raise PermissionError(13, CANARY)


@pytest.mark.parametrize(("ask", "handler"), [(e_step(), remember), (example(Conclude), write_output)])
def test_a_directory_that_cannot_be_made(
    node: Node, replace_handler: ReplaceHandler, monkeypatch: pytest.MonkeyPatch, ask: Payload, handler: Any
) -> None:
    replace_handler(type(ask), handler)
    monkeypatch.setattr(Path, "mkdir", no_folder)
    assert node.asked(ask).fault == Fault.OUTPUT_NOT_WRITTEN
    assert CANARY.encode() not in node.sent_bytes


@pytest.mark.parametrize(("ask", "handler"), [(e_step(), remember), (example(Conclude), write_output)])
def test_a_directory_that_cannot_be_written_to(
    node: Node, replace_handler: ReplaceHandler, monkeypatch: pytest.MonkeyPatch, ask: Payload, handler: Any
) -> None:
    def no_rename(self: Path, target: Path) -> Path:
        raise PermissionError(13, CANARY)

    replace_handler(type(ask), handler)
    monkeypatch.setattr(Path, "replace", no_rename)
    assert node.asked(ask).fault == Fault.OUTPUT_NOT_WRITTEN
    assert CANARY.encode() not in node.sent_bytes
    assert CANARY in node.errors
    assert not [name for name in node.context.state if name.startswith("memory")]
    assert not list(node.directory.glob("theta*")), "half a file is worse than none"


def site_of(tmp_path: Path, lane: str = "0", **node: Any) -> Site:
    context = Context(1, NODE, {"site": "a", **node}, RecordDict(), {"scenario": "bc3e-wine"})
    return Site.open("a", context, Ask("1", 1, 0, ())).in_lane(lane)


@pytest.mark.parametrize(
    ("lane", "name", "written"),
    [
        ("0", "theta.csv", "theta.csv"),
        ("0.3", "theta.csv", "theta.csv"),
        ("2", "theta.csv", "theta-2.csv"),
        ("2.0", "theta.csv.gz", "theta-2.csv.gz"),
        ("11", "models/b.skops", "models-11/b.skops"),
        ("1", "README", "README-1"),
    ],
)
def test_an_output_file_has_its_repetition_in_its_name(tmp_path: Path, lane: str, name: str, written: str) -> None:
    site_of(tmp_path, lane, **{"site-output-dir": str(tmp_path / "out")}).write(name, lambda to: to.write_text("all"))
    assert [path.relative_to(tmp_path / "out").as_posix() for path in files(tmp_path)] == [written]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_site_that_set_no_directory_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site_of(tmp_path).write("theta.csv", lambda to: pytest.fail("it was asked to write"))
    assert not files(tmp_path)


def full_disk(to: Path) -> None:
    to.write_text("half of ")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("before", [None, "the whole of an earlier run"])
def test_an_output_file_is_there_whole_or_not_at_all(tmp_path: Path, before: str | None) -> None:
    site = site_of(tmp_path, **{"site-output-dir": str(tmp_path / "out")})
    if before is not None:
        site.write("theta.csv", lambda to: to.write_text(before))
    with pytest.raises(SiteFault, match="No space left on device") as caught:
        site.write("theta.csv", full_disk)
    assert caught.value.fault == Fault.OUTPUT_NOT_WRITTEN
    assert [path.read_text() for path in files(tmp_path)] == ([] if before is None else [before])


def test_a_directory_that_is_a_file_is_an_output_not_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("taken")
    site = site_of(tmp_path, **{"site-output-dir": str(tmp_path / "out")})
    with pytest.raises(SiteFault) as caught:
        site.write("theta.csv", lambda to: to.write_text("x"))
    assert caught.value.fault == Fault.OUTPUT_NOT_WRITTEN


@pytest.fixture
def lax_umask() -> Iterator[None]:
    """That of most systems, under which others may read what is written."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("lax_umask")
def test_what_a_real_site_writes_nobody_else_may_read(node: Node, replace_handler: ReplaceHandler) -> None:
    def remember_and_promise(ask: Payload, site: Site) -> Payload:
        site.commitments.count("queries", 1)
        site.write("theta.csv", lambda to: to.write_text("all"))
        return remember(ask, site)

    replace_handler(EStep, remember_and_promise)
    replace_handler(Survey, raising(CanaryError(CANARY)))
    assert node.asked(e_step()).fault == 0
    assert node.asked(SURVEY, number=2).fault == Fault.HANDLER_FAILED
    found = files(node.directory)
    assert {"errors.log", "ledger.jsonl", "theta.csv", "1.json", "round-00001.zip"} <= {path.name for path in found}
    for path in (*found, node.directory, *(path.parent for path in found)):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.usefixtures("lax_umask")
def test_a_simulated_site_leaves_the_process_as_it_is(tmp_path: Path) -> None:
    """Its process is the user's own, and so are all files."""
    context = Context(1, NODE, {"partition-id": 0, "num-partitions": 2}, RecordDict(), config(tmp_path))
    message = over_the_wire(Message(write_ask(Ask("1", 1, 0, [Parcel("0", SURVEY)])), NODE, "train", group_id="1"))
    assert read_answer(handle(message, context).content, [Parcel("0", SURVEY)]).fault == 0
    assert os.umask(0o022) == 0o022


def test_a_package_that_is_missing_at_the_site_is_a_code(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an exception that is not caught Flower sends the text."""
    monkeypatch.setitem(sys.modules, "clients.site", None)
    message = over_the_wire(Message(write_ask(Ask("1", 1, 0, [Parcel("0", SURVEY)])), NODE, "train", group_id="1"))
    reply = over_the_wire(handle(message, node.context))
    assert not reply.has_error()
    answer = read_answer(reply.content, ())
    assert answer.fault
    assert answer.parcels == ()
    assert b"clients" not in b"".join(each.deflate() for each in get_all_nested_objects(reply).values())


def test_an_error_of_what_is_written_is_no_error_of_the_disk(tmp_path: Path) -> None:
    def wrong(to: Path) -> None:
        to.write_text("half of ")
        raise ArithmeticError("no")

    site = site_of(tmp_path, **{"site-output-dir": str(tmp_path / "out")})
    with pytest.raises(ArithmeticError):
        site.write("theta.csv", wrong)
    assert not files(tmp_path)


def test_a_failure_without_a_directory_is_said_all_the_same(tmp_path: Path, replace_handler: ReplaceHandler) -> None:
    replace_handler(Survey, raising(CanaryError(CANARY)))
    context = Context(1, NODE, {"site": "a"}, RecordDict(), {**config(tmp_path), "output-dir": ""})
    message = over_the_wire(Message(write_ask(Ask("1", 1, 0, [Parcel("0", SURVEY)])), NODE, "train", group_id="1"))
    assert read_answer(handle(message, context).content, ()).fault == Fault.HANDLER_FAILED
