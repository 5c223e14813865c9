"""A site's own policy: what it does not answer it refuses by a code, and no restart gives a center a second share."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from typer.testing import CliRunner

from clients.commitments import MOST_RUNS, Commitments, run_lock
from clients.dispatch import handle
from clients.ledger import NAME
from clients.policy import FEWEST_ROWS, Policy, PolicyError, check_lines
from clients.site import Site
from consilience.cli import app
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e import payloads as bc3e
from protocols.bc3e.payloads import Holdings, Survey
from protocols.budget import DEFAULT, KINDS, Limit
from protocols.coreset import payloads as coreset
from protocols.gp import payloads as gp
from protocols.registry import names as protocol_names
from protocols.residual import payloads as residual
from protocols.sec import payloads as sec
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Answer, Ask, Parcel, asks_of, encoded_bytes, read_answer, write_ask
from protocols.wire.payload import Payload
from tests.support.fault_federations import WORLDS, at_home
from tests.support.grid import config
from tests.support.payloads import example, through_bytes
from tests.support.runs import outcome_of
from tests.support.site_client import RealSite

SURVEY = Survey("row", "salt")
E_STEP = bc3e.EStep(0, True, 0, np.zeros(0), np.ones(3), ("cluster_x",), (np.full((3, 3), 1 / 3),), 20, 1e-6, 1, 0.0)
DOCS = Path(__file__).parents[2] / "docs" / "privacy.md"


@pytest.fixture(autouse=True)
def _identity() -> None:
    """Flower asks who sends a message."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 5, 1


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_s_keys_are_the_policy_s(tmp_path: Path) -> None:
    text = """
    protocols = ["bc3e", "gp"]
    payloads = ["bc3e.*", "gp.Survey"]
    min-rows = 20
    max-bytes = 1_000_000
    max-rounds = 50
    secure-aggregation = true
    max-ask-mb = 2.5
    budget.runs.day = 7
    """
    assert Policy.read(write(tmp_path, text)) == Policy(
        protocols=("bc3e", "gp"),
        payloads=("bc3e.*", "gp.Survey"),
        min_rows=20,
        max_bytes=10**6,
        max_rounds=50,
        secure_aggregation=True,
        max_ask_mb=2.5,
        budget={**DEFAULT, "runs": Limit(7, DEFAULT["runs"].all)},
    )
    assert Policy.read(write(tmp_path, "")) == Policy()


def test_an_ask_may_have_the_size_that_the_policy_names_and_no_byte_more() -> None:
    policy = Policy(max_ask_mb=2.5)
    policy.admit_size(2_500_000)
    with pytest.raises(SiteFault, match=r"max-ask-mb is 2\.5"):
        policy.admit_size(2_500_001)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("min-row = 5", "unknown key 'min-row'; did you mean min-rows?"),
        ("colour = 5", "unknown key 'colour'; there are: protocols, payloads"),
        ("min-rows = 0", "min-rows must be a whole number, 1 or greater, not 0"),
        ('min-rows = "5"', "min-rows must be a whole number, 1 or greater, not '5'"),
        ("max-rounds = true", "max-rounds must be a whole number, 1 or greater, not True"),
        ("max-bytes = 1.5", "max-bytes must be a whole number"),
        ("max-ask-mb = inf", "max-ask-mb must be a number greater than 0"),
        ("secure-aggregation = 1", "secure-aggregation must be true or false, not 1"),
        ("budget = 3", "budget must be a table of lines such as runs = { day = 10, all = 100 }"),
        ("budget.runs = 3", "budget must be a table of lines such as runs = { day = 10, all = 100 }"),
        ("budget.rows.day = 3", "budget must have lines such as runs = { day = 10, all = 100 }, of runs, asks"),
        ("budget.runs.week = 3", "budget must have lines such as runs = { day = 10, all = 100 }"),
        ("budget.runs.day = -1", "budget must have whole numbers, 0 or greater, for runs"),
        ('protocols = "bc3e"', 'protocols must be a list of texts, such as ["bc3e"]'),
        ('protocols = ["bc4e"]', "protocols must name protocols (bc3e, coreset, gp, residual, sec)"),
        ("payloads = [3]", "payloads must be a list of texts"),
        ('payloads = ["EStep"]', 'payloads must hold titles of asks, such as "bc3e.*"'),
        ("min-rows = ", "is not TOML: "),
        ("min-rows = 1\nmin-rows = 2", "is not TOML: "),
    ],
)
def test_a_bad_policy_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PolicyError, match=re.escape(f"policy {path}: {says}")) as told:
        Policy.read(path)
    assert len(str(told.value).splitlines()) == 1


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.read(tmp_path / "none.toml")
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="is not TOML"):
        Policy.read(tmp_path / "policy.toml")


@pytest.mark.parametrize(
    ("policy", "ask", "fault"),
    [
        (Policy(), gp.Predict, None),
        (Policy(protocols=("gp",)), gp.Predict, None),
        (Policy(protocols=("bc3e",)), gp.Predict, Fault.PROTOCOL_NOT_ALLOWED),
        (Policy(protocols=()), bc3e.Survey, Fault.PROTOCOL_NOT_ALLOWED),
        (Policy(payloads=("gp.[!D]*",)), gp.Predict, None),
        (Policy(payloads=("gp.[!D]*",)), gp.Disclose, Fault.PAYLOAD_NOT_ALLOWED),
        (Policy(payloads=("gp.predict",)), gp.Predict, Fault.PAYLOAD_NOT_ALLOWED),
        (Policy(payloads=("*.Fit", "sec.*")), residual.Fit, None),
        (Policy(payloads=("*.Fit", "sec.*")), sec.Select, None),
        (Policy(payloads=("*.Fit", "sec.*")), coreset.Summarize, Fault.PAYLOAD_NOT_ALLOWED),
        (Policy(secure_aggregation=True), bc3e.EStep, Fault.UNMASKED),
        (Policy(secure_aggregation=True), bc3e.Survey, None),
        (Policy.unlimited(), gp.Disclose, None),
    ],
)
def test_what_a_policy_answers(policy: Policy, ask: type[Payload], fault: Fault | None) -> None:
    assert policy.refusal(ask) == fault


def test_what_is_summed_may_leave_masked_and_the_other_rules_still_hold() -> None:
    assert Policy(secure_aggregation=True).refusal(bc3e.EStep, masked=True) is None
    closed = Policy(secure_aggregation=True, protocols=("gp",))
    assert closed.refusal(bc3e.EStep, masked=True) == Fault.PROTOCOL_NOT_ALLOWED


# -- a site that is asked ---------------------------------------------------------------------------------------------


class Node:
    """A SuperNode with a site's own rows, asked through Flower's bytes."""

    def __init__(self, tmp_path: Path, policy: str | None = "", rows: int = 30, run_id: int = 1, **node: Any) -> None:
        self.home = tmp_path / "home"
        labels = np.arange(rows) % 3
        frame = pd.DataFrame({"class_a": labels, "class_b": labels[::-1], "cluster_x": labels})
        frame.to_csv(tmp_path / "rows.csv", index=False)
        about = {"site": "a", "data": str(tmp_path / "rows.csv"), "site-output-dir": str(self.home), **node}
        if policy is not None:
            about["policy"] = str(write(tmp_path, policy))
        self.context = Context(run_id, 5, about, RecordDict(), config(tmp_path, protocol="bc3e"))

    def asked(self, *asks: Payload, number: int = 1, past: Sequence[int] = ()) -> Answer:
        """`past`: earlier rounds in which it was asked what it holds."""
        history = [(earlier, [Parcel("0", SURVEY)]) for earlier in past]
        content = write_ask(Ask("1", number, 0, [Parcel("0", ask) for ask in asks], history))
        message = over_the_wire(Message(content, 5, "train", group_id=str(number)))
        self.reply = over_the_wire(handle(message, self.context)).content
        return read_answer(self.reply, [Parcel("0", ask) for ask in asks])

    def restarted(self) -> None:
        self.context.state = RecordDict()


def test_without_a_policy_a_site_answers(tmp_path: Path) -> None:
    answer = Node(tmp_path, None).asked(SURVEY)
    assert isinstance(answer.parcels[0].payload, Holdings)


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ('protocols = ["gp"]', Fault.PROTOCOL_NOT_ALLOWED),
        ('payloads = ["bc3e.Setup"]', Fault.PAYLOAD_NOT_ALLOWED),
        ("min-rows = 31", Fault.FEW_ROWS_FOR_POLICY),
        ("max-bytes = 100", Fault.TOO_MANY_BYTES),
        ("max-ask-mb = 1e-6", Fault.ASK_TOO_LARGE),
        ("min-rows = 0", Fault.BAD_CONFIGURATION),
        ("nonsense", Fault.BAD_CONFIGURATION),
    ],
)
def test_every_refusal_has_its_code_and_nothing_else_leaves(tmp_path: Path, policy: str, fault: Fault) -> None:
    node = Node(tmp_path, policy)
    assert node.asked(SURVEY) == Answer("a", 1, fault, ())
    lines = [json.loads(line) for line in (node.home / NAME).read_text().splitlines()]
    assert [line.get("fault") for line in lines] == [fault.slug]


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")
def test_a_policy_that_any_user_may_change_is_none(tmp_path: Path) -> None:
    """Also by a link to it, whose own permissions say nothing."""
    path, link = tmp_path / "policy.toml", tmp_path / "link.toml"
    path.write_text("max-rounds = 3")
    link.symlink_to(path)
    assert Policy.read(link).max_rounds == 3
    path.chmod(0o666)
    for each in (path, link):
        with pytest.raises(PolicyError, match="any user of this machine may change it; type: chmod o-w"):
            Policy.read(each)


def test_a_bad_policy_is_told_in_the_site_s_own_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path)
    (tmp_path / "policy.toml").unlink()
    assert node.asked(SURVEY).fault == Fault.BAD_CONFIGURATION
    assert f"policy {tmp_path / 'policy.toml'}: cannot be read" in caplog.text
    assert b"policy.toml" not in b"".join(record.deflate() for record in node.reply.values())


def test_one_part_that_is_not_answered_refuses_the_whole_ask(tmp_path: Path) -> None:
    node = Node(tmp_path, 'payloads = ["bc3e.Survey"]')
    assert node.asked(SURVEY, example(bc3e.EStep)).fault == Fault.PAYLOAD_NOT_ALLOWED
    assert node.asked(SURVEY).fault == 0


@pytest.mark.parametrize(
    ("rows", "node", "answered"),
    [(FEWEST_ROWS, {}, True), (FEWEST_ROWS - 1, {}, False), (3, {"min-rows": 3}, True), (3, {"min-rows": 9}, False)],
)
def test_rows_where_no_policy_says_otherwise(tmp_path: Path, rows: int, node: dict[str, int], answered: bool) -> None:
    assert (Node(tmp_path, None, rows, **node).asked(SURVEY).fault == 0) is answered


def test_a_policy_s_rows_raise_every_protocol_s_own(tmp_path: Path) -> None:
    node = Node(tmp_path, "min-rows = 20", **{"min-leaf": 7, "max-queries": 3})
    site = Site.open("a", node.context, Ask("1", 1, 0, ()))
    assert [site.consents.number(key, 5) for key in ("min-leaf", "min-rows", "min-weight")] == [20, 20, 20]
    assert site.consents.number("max-queries", 5) == 3
    assert (
        Site.open("a", Node(tmp_path, "min-rows = 2").context, Ask("1", 1, 0, ())).consents.number("min-weight", 5) == 5
    )


def test_rounds_and_bytes_are_counted_through_restarts_and_by_run(tmp_path: Path) -> None:
    node = Node(tmp_path, "max-rounds = 3")
    for number in (1, 2, 3):
        assert node.asked(SURVEY, number=number).fault == 0
        node.restarted()
    assert node.asked(SURVEY, number=1).fault == Fault.TOO_MANY_ROUNDS
    assert node.asked(number=1).fault == 0, "who only asks for the name asks for no data"
    assert Node(tmp_path, "max-rounds = 3", run_id=2).asked(SURVEY).fault == 0


def test_no_more_earlier_rounds_are_gone_through_again_than_may_be(tmp_path: Path) -> None:
    """They would cost the site time, and count as one ask; that one counts even if nothing is asked behind them."""
    node = Node(tmp_path, "max-rounds = 3")
    assert node.asked(SURVEY, number=9, past=range(1, 5)).fault == Fault.TOO_MANY_ROUNDS
    assert node.asked(SURVEY, number=9, past=range(1, 4)).fault == 0
    assert node.asked(number=9, past=[1]).fault == 0
    assert node.asked(number=9, past=[1]).fault == Fault.TOO_MANY_ROUNDS


def test_an_ask_that_a_policy_refuses_is_no_earlier_round_either(tmp_path: Path) -> None:
    """Else a center would hide it in the history of one that is allowed."""
    node = Node(tmp_path, 'payloads = ["bc3e.EStep"]')
    assert node.asked(E_STEP, number=2).fault == 0
    assert node.asked(E_STEP, number=3, past=[1]).fault == Fault.PAYLOAD_NOT_ALLOWED


@pytest.mark.parametrize("policy", ["max-rounds = 2", "max-ask-mb = 1e-4", 'payloads = ["bc3e.EStep"]'])
def test_an_ask_that_is_refused_takes_no_memory_with_it(tmp_path: Path, policy: str) -> None:
    """Though it says that the memory is lost, and brings all that is to be put in its place."""
    node = Node(tmp_path)
    assert [node.asked(E_STEP, number=number).fault for number in (1, 2)] == [0, 0]
    there, files = through_bytes(node.context.state), sorted(node.home.glob("memory-1/*"))
    assert len(files) == 2
    write(tmp_path, policy)
    node.context.node_config["policy"] = str(tmp_path / "policy.toml")
    assert node.asked(SURVEY, number=4, past=[1, 2, 3]).fault
    remembered = [name for name in there if name.startswith("memory-")]
    assert len(remembered) == 4
    assert all(node.context.state[name] == there[name] for name in remembered)
    assert sorted(node.home.glob("memory-1/*")) == files


def test_no_more_bytes_leave_than_may(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    node.asked(SURVEY)
    size = encoded_bytes(node.reply)
    node = Node(tmp_path, f"max-bytes = {2 * size}", run_id=2)
    assert [node.asked(SURVEY, number=number).fault for number in (1, 2, 3)] == [0, 0, Fault.TOO_MANY_BYTES]
    node.restarted()
    assert node.asked(SURVEY, number=3).fault == Fault.TOO_MANY_BYTES


@pytest.mark.parametrize("protocol", ["bc3e", "gp"])
def test_the_center_reports_who_refused_and_why(tmp_path: Path, protocol: str) -> None:
    """In whole runs: a site that takes no part in the protocol is named with its code; the run goes on or says so."""
    world = WORLDS[protocol](tmp_path)
    nodes = at_home(world.nodes, tmp_path / "homes")
    others = [name for name in protocol_names() if name != protocol]
    nodes[world.victim]["policy"] = str(write(tmp_path, f"protocols = {others}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.app.figures", lambda report, arrays: [])
        told = outcome_of(world.settings, nodes)
    assert world.name in told.text
    assert "[protocol-not-allowed]" in told.text


@pytest.mark.parametrize(
    ("policy", "masked", "code"),
    [
        ("secure-aggregation = true", False, "unmasked"),
        ("secure-aggregation = true", True, ""),
        ('payloads = ["bc3e.Survey", "bc3e.Setup"]', True, "payload-not-allowed"),
    ],
)
def test_what_is_summed_is_held_against_the_policy_in_the_clear_and_masked(
    tmp_path: Path, policy: str, masked: bool, code: str
) -> None:
    world = WORLDS["bc3e"](tmp_path)
    nodes = at_home(world.nodes, tmp_path / "homes")
    nodes[world.victim]["policy"] = str(write(tmp_path, policy))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.app.figures", lambda report, arrays: [])
        outcome_of({**world.settings, "secure-aggregation": masked, "bc3e.max-rounds": 2}, nodes)
    lines = map(json.loads, (tmp_path / "homes" / world.name / NAME).read_text().splitlines())
    assert {line["fault"] for line in lines if "fault" in line} == ({code} if code else set())


@pytest.mark.parametrize("masked", [False, True])
def test_a_run_with_masks_gets_no_sum_in_the_clear(tmp_path: Path, masked: bool) -> None:
    node = WORLDS["bc3e"](tmp_path).nodes[0]
    site = RealSite(node, config(tmp_path, protocol="bc3e", secure_aggregation=masked))
    assert (site.fault(1, E_STEP) == Fault.UNMASKED) is masked, "no policy, and a center that forgets the masks"


# -- commitments ------------------------------------------------------------------------------------------------------


def test_commitments_outlive_a_restart_with_a_directory_only(tmp_path: Path) -> None:
    for folder, kept in ((tmp_path, True), (None, False)):
        commitments = Commitments(RecordDict(), 1, folder)
        assert commitments.keeps("split", "one")
        assert commitments.count("queries", 7) == 7
        commitments.save()
        after = Commitments(RecordDict(), 1, folder)
        assert after.keeps("split", "other") is not kept
        assert after.count("queries", 1) == (8 if kept else 1)


def test_the_stricter_of_context_and_file_counts(tmp_path: Path) -> None:
    state = RecordDict()
    Commitments(state, 1).count("queries", 5)
    other = Commitments(RecordDict(), 1, tmp_path)
    other.count("queries", 9)
    other.keeps("split", "one")
    other.save()
    both = Commitments(state, 1, tmp_path)
    assert both.count("queries", 1) == 10
    assert not both.keeps("split", "another")
    state["commitments"] = ConfigRecord({"run": 1, "split": "another"})
    assert not any(Commitments(state, 1, tmp_path).keeps("split", digest) for digest in ("one", "another"))


def test_what_is_only_gone_through_again_is_held_to_and_not_counted(tmp_path: Path) -> None:
    commitments = Commitments(RecordDict(), 1, tmp_path)
    again = commitments.uncounted()
    assert commitments.keeps("split", "one")
    assert not again.keeps("split", "other")
    assert [again.count("queries", 5) for _ in range(2)] == [0, 0]
    assert commitments.count("queries", 5) == 5
    assert again.count("queries", 5) == 5, "what was answered at a limit of 5 may be gone through again"
    assert commitments.count("queries", 1) == 6


def test_the_last_runs_are_kept(tmp_path: Path) -> None:
    for run in range(MOST_RUNS + 5):
        commitments = Commitments(RecordDict(), run, tmp_path)
        commitments.count("queries", 1)
        commitments.save()
    kept = {int(path.stem) for path in (tmp_path / "commitments").iterdir()}
    assert kept == set(range(5, MOST_RUNS + 5))


@pytest.mark.parametrize("content", ["", "[]", '{"queries": 1.5}', '{"queries": ', "\x00"])
def test_commitments_that_cannot_be_read_do_not_begin_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "commitments").mkdir()
    (tmp_path / "commitments" / "1.json").write_text(content)
    with pytest.raises(SiteFault) as told:
        Commitments(RecordDict(), 1, tmp_path)
    assert told.value.fault == Fault.OUTPUT_NOT_WRITTEN


def test_what_cannot_be_committed_to_on_the_disk_is_not_answered(tmp_path: Path) -> None:
    node = Node(tmp_path, None)
    (node.home / "commitments" / "1.json").mkdir(parents=True)
    assert node.asked(SURVEY).fault == Fault.OUTPUT_NOT_WRITTEN


# -- consilience check ------------------------------------------------------------------------------------------------


def test_check_names_every_ask_that_is_refused() -> None:
    lines = "\n".join(check_lines(Policy(payloads=("bc3e.Survey",), min_rows=9), asks_of("bc3e"), 8))
    assert "every ask: there are 8 rows, and min-rows is 9" in lines
    refused = {ask.title() for ask in asks_of("bc3e")} - {"bc3e.Survey"}
    assert refused
    assert all(f"{title}: " in lines for title in refused)
    assert "bc3e.Survey" not in lines
    assert "nothing that this protocol asks" in "\n".join(check_lines(Policy(), asks_of("bc3e"), 8))


@pytest.mark.parametrize(("text", "code"), [('protocols = ["gp"]', 0), ("rows = 3", 1)])
def test_check_tells_what_a_policy_refuses(tmp_path: Path, text: str, code: int) -> None:
    Node(tmp_path, text)
    arguments = ["check", str(tmp_path / "rows.csv"), "--protocol", "bc3e", "--policy", str(tmp_path / "policy.toml")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    if code:
        assert len(result.stderr.strip().splitlines()) == 1
        assert "unknown key 'rows'" in result.stderr
    else:
        assert "bc3e.EStep: its own policy does not let it take part" in result.stdout


@pytest.mark.parametrize(
    ("least", "policy", "told"), [("", "", True), ("3", "", False), ("9", "", True), ("3", "min-rows = 5", True)]
)
def test_check_counts_rows_as_the_site_does(tmp_path: Path, least: str, policy: str, told: bool) -> None:
    """A smaller `min-rows` of the node configuration holds where the policy says nothing; a larger one asks no more."""
    pd.DataFrame({"a": [1.0, 2.0, 4.0, 8.0], "y": [1.0, 3.0, 5.0, 8.0]}).to_csv(tmp_path / "rows.csv", index=False)
    own = ["--set", f"min-rows={least}"] if least else []
    arguments = ["check", str(tmp_path / "rows.csv"), "--protocol", "gp", "--set", "target=y", *own]
    result = CliRunner().invoke(app, [*arguments, "--policy", str(write(tmp_path, policy))])
    assert result.exit_code == 0, result.output
    assert ("every ask: there are 4 rows, and min-rows is 5" in result.stdout) is told


@pytest.mark.parametrize(
    ("protocol", "keys", "told"),
    [
        ("coreset", {"sensitive": "sex"}, "A point is the mean of 20 or more"),
        ("sec", {"target": "y"}, "(20 rows or more in a leaf)"),
    ],
)
def test_check_shows_numbers_of_rows_as_the_policy_raises_them(
    tmp_path: Path, protocol: str, keys: dict[str, str], told: str
) -> None:
    rng = np.random.default_rng(0)
    rows = {"a": rng.normal(size=60), "y": rng.normal(size=60), "sex": np.tile(["f", "m"], 30)}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    own = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    arguments = ["check", str(tmp_path / "rows.csv"), "--protocol", protocol, *own]
    assert told not in CliRunner().invoke(app, arguments).stdout
    assert told in CliRunner().invoke(app, [*arguments, "--policy", str(write(tmp_path, "min-rows = 20"))]).stdout


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_s_policy_can_be_read_and_its_defaults_are_true(tmp_path: Path) -> None:
    text = DOCS.read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert Policy.read(write(tmp_path, shown)) != Policy()
    defaults = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|[^|]+\|[^|]+\|$", text, re.MULTILINE))
    assert defaults["max-bytes"].strip() == f"{Policy().max_bytes:_}"
    assert defaults["max-rounds"].strip() == f"{Policy().max_rounds:_}"
    assert defaults["max-ask-mb"].strip() == f"{Policy().max_ask_mb:g}"
    assert defaults["min-rows"].strip().startswith(str(FEWEST_ROWS))
    assert set(defaults) - set(KINDS) == {
        "protocols",
        "payloads",
        "min-rows",
        "new-rows",
        "max-bytes",
        "max-rounds",
        "secure-aggregation",
        "max-ask-mb",
        "budget",
    }
    assert all(
        f"[{fault.slug}]" in text
        for fault in (*(each for each in Fault if 46 <= each <= 52), Fault.BUDGET_SPENT, Fault.FEW_NEW_ROWS)
    )
    budget = re.findall(r"^\| `([a-z-]+)` \| ([\d_]+) \| ([\d_]+) \| ([^|]+) \|$", text, re.MULTILINE)
    assert {kind: (int(day), int(total)) for kind, day, total, _ in budget} == DEFAULT
    assert {kind: about for kind, _, _, about in budget} == KINDS


# -- two asks at once -------------------------------------------------------------------------------------------------


def test_of_two_asks_of_a_run_the_second_waits_for_the_first(tmp_path: Path) -> None:
    """Else both would find what had been counted before either; those of another run do not wait."""
    entered, leave = threading.Event(), threading.Event()

    def second() -> None:
        with run_lock(tmp_path, 7):
            entered.set()

    with ExitStack() as first:
        first.enter_context(run_lock(tmp_path, 7))
        with run_lock(tmp_path, 8), run_lock(None, 7):
            leave.set()
        other = threading.Thread(target=second)
        other.start()
        assert leave.is_set()
        assert not entered.wait(0.1)
    other.join(30)
    assert entered.is_set()


def test_a_site_that_cannot_write_cannot_wait_and_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "commitments").write_text("a file in the place of a folder")
    with pytest.raises(SiteFault) as caught, run_lock(tmp_path, 7):
        pass
    assert caught.value.fault is Fault.OUTPUT_NOT_WRITTEN
