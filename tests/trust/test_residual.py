"""What a fusion center learns in the sealed ways if it departs from the protocol, and what a run leaves at a site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from clients.residual.agent import Agent
from clients.site import Site
from numerics.residual.rules import FEWEST_ROWS, MOST_ROUNDS, Rules
from protocols.residual.payloads import (
    Conclude,
    Enrol,
    Fit,
    FusionStep,
    Holdings,
    KeepEnsemble,
    Lead,
    NextResidual,
    Order,
    Pass,
    Predict,
    Present,
    Ready,
    Receipt,
    Residual,
    SealedAnswer,
    SealedAsk,
)
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask, Parcel
from protocols.wire.packing import pack
from protocols.wire.payload import decode_array
from protocols.wire.record_file import read_records
from strategies.conversation import Tell
from strategies.errors import FusionError
from strategies.residual.execution import relayed
from tests.support.grid import prediction_config
from tests.support.residual_sites import (
    COLUMNS,
    N,
    ask,
    assert_refused,
    customers,
    deployed_sites,
    enrolled_sites,
    learn,
    write_world,
)
from tests.support.runs import outcome_of
from tests.support.site_client import RealSite

NOTHING = np.zeros(0, np.uint8)
AGENTS = tuple(COLUMNS)


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def bank(tmp_path: Path) -> Site:
    """The site that holds the outcome, after an honest beginning."""
    return enrolled_sites(tmp_path, "bank")["bank"]


def turn(n_fit: int, n_validation: int = 0, **changes: Any) -> Pass:
    """The ring's first ask: the outcome as it is, handed on; the mean squares come back in the clear."""
    return replace(Pass("", NOTHING, "shop", n_fit, n_validation, 1.0, 0, 0, False, True), **changes)


def lead(n_learn: int, **rules: Any) -> Lead:
    chosen: dict[str, Any] = {"algorithm": "sip", "stop": "rounds", "rounds": 2, **rules}
    return Lead(AGENTS, n_learn, Rules(**chosen).to_json(), "float64")


def order(rows: np.ndarray, holder: str = "bank", names: tuple[str, ...] = AGENTS) -> Order:
    return Order(rows, "tree", 8, holder, names, (np.full(32, 9, np.uint8),) * len(names))


# -- mean squares of rows of its choice -------------------------------------------------------------------------------


def test_errors_of_growing_parts_of_the_rows_are_not_told(bank: Site) -> None:
    """Differences of such mean squares are the outcomes, squared."""
    assert isinstance(ask(bank, turn(100)), NextResidual)
    for n_fit in (99, 101, 50, N):
        assert_refused(bank, turn(n_fit))
    assert_refused(bank, turn(80, 20))  # validation rows that the run has not had
    assert_refused(bank, turn(100, intercept=False))  # with the mean, signs
    assert isinstance(ask(bank, turn(100)), NextResidual)


def test_the_two_splits_of_an_honest_run_are_told(bank: Site) -> None:
    assert isinstance(ask(bank, turn(80, 20)), NextResidual)
    assert isinstance(ask(bank, turn(100)), NextResidual)
    for n_fit, n_validation in ((80, 0), (81, 19), (79, 20), (100, 20)):
        assert_refused(bank, turn(n_fit, n_validation))


@pytest.mark.parametrize(
    ("n_fit", "n_validation"), [(1, 0), (FEWEST_ROWS - 1, 0), (N - 1, 0), (N - 4, 0), (100, 1), (100, 4), (100, 46)]
)
def test_a_kind_of_few_rows_is_not_told(bank: Site, n_fit: int, n_validation: int) -> None:
    assert_refused(bank, turn(n_fit, n_validation), fault=Fault.TOO_FEW_ROWS)


@pytest.mark.parametrize("n_learn", [2, FEWEST_ROWS - 1, N - 1, N - FEWEST_ROWS + 1])
def test_nor_by_a_plan(bank: Site, n_learn: int) -> None:
    assert_refused(bank, lead(n_learn, rounds=0), fault=Fault.TOO_FEW_ROWS)
    assert isinstance(ask(bank, lead(N - FEWEST_ROWS)), FusionStep)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_amounts_are_not_taken_for_classes(bank: Site, n_classes: int) -> None:
    """Log losses of amounts as if they were places of classes would be other sums over them."""
    assert_refused(bank, lead(100, algorithm="boosted", n_classes=n_classes))
    assert isinstance(ask(bank, lead(100, algorithm="boosted")), FusionStep)


@pytest.mark.parametrize(
    ("target", "n_fit", "n_classes"),
    [
        ([0.0, 1.0, 2.0], 2, 2),
        ([0.0, 0.5, 1.0], 2, 2),
        ([0.0, 1.0, 1.0], 2, 101),
        ([0.0, 1.0, 1.0], 2, 1),
        ([0.0, 1.0, 1.0], 0, 2),
        ([0.0, 1.0, 1.0], 4, 2),
        ([0.0] * (N + 1), 2, 2),
    ],
)
def test_a_site_alone_fits_classes_only_by_places_of_its_rows(
    tmp_path: Path, target: list[float], n_fit: int, n_classes: int
) -> None:
    agent = Agent.of(enrolled_sites(tmp_path, "bank")["shop"])
    with pytest.raises(SiteFault) as told:
        agent.boosted_alone(np.array(target), n_fit, n_classes, balanced=False)
    assert told.value.fault is Fault.MALFORMED_ASK


@pytest.mark.parametrize("rows", [[3], [3, 4, 5, 6]])
def test_nor_by_an_order_of_few_rows(tmp_path: Path, rows: list[int]) -> None:
    bank = enrolled_sites(tmp_path, "bank", ordered=False)["bank"]
    ask(bank, order(np.array(rows)))
    assert_refused(bank, turn(len(rows)), fault=Fault.TOO_FEW_ROWS)


def test_a_second_order_is_another_one(bank: Site) -> None:
    assert isinstance(ask(bank, order(np.arange(N))), Ready)  # the same again, since its answer was lost
    for rows in (np.arange(N - 1), np.arange(N)[::-1], np.arange(1, N)):
        assert_refused(bank, order(rows))
    assert_refused(bank, order(np.arange(N), holder=""))
    assert_refused(bank, order(np.arange(N), holder="shop"))
    assert_refused(bank, order(np.arange(N), names=()))  # what follows could be asked in the clear
    assert_refused(bank, Fit(np.zeros((N, 1))), fault=Fault.SEALED_ONLY)
    assert_refused(bank, Enrol("another salt", "", True))


def test_a_run_has_one_plan_or_goes_round_a_ring(tmp_path: Path) -> None:
    """Errors of rows up to 100 by the one and up to 101 by the other would tell the outcome of one row."""
    bank = enrolled_sites(tmp_path / "plan", "bank")["bank"]
    ask(bank, lead(100), 2)
    assert_refused(bank, lead(101), 2)
    assert_refused(bank, lead(100), 2)
    assert_refused(bank, turn(101), 2)
    bank = enrolled_sites(tmp_path / "ring", "bank")["bank"]
    ask(bank, turn(100), 2)
    assert_refused(bank, lead(101), 2)


@pytest.mark.parametrize("end", [lead(100, rounds=0), KeepEnsemble((), 100, True)])
def test_a_run_that_is_over_does_not_begin_anew(tmp_path: Path, end: Lead | KeepEnsemble) -> None:
    """Else one message could hold many runs, each with a row more."""
    bank = enrolled_sites(tmp_path, "bank")["bank"]
    ask(bank, end, 2)
    if isinstance(end, KeepEnsemble):
        ask(bank, Conclude(np.zeros(0), np.zeros(0, np.int64)), 2)
    assert_refused(bank, Enrol("salt", "", True), 2)
    assert isinstance(ask(bank, order(np.arange(N - 1)), 2), Ready)  # which is not remembered
    assert_refused(bank, lead(N - 10), 2, Fault.STALE_MEMORY)
    assert_refused(bank, turn(N - 10), 2, Fault.STALE_MEMORY)
    assert list(bank.memory) == ["concluded"]


# -- the same run under another name, or behind a history -----------------------------------------------------------

ENROL = Enrol("salt", "", True)
ORDER = order(np.arange(N))
PAST = ((1, ENROL), (2, ORDER))


@pytest.fixture
def holder(tmp_path: Path) -> RealSite:
    """The site that holds the outcome, after an honest beginning, asked as a whole message is."""
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files", holder="bank"), holder="bank")
    site = RealSite(nodes[list(COLUMNS).index("bank")], settings)
    begin(site, "x")
    return site


def begin(site: RealSite, session: str) -> None:
    assert [site.fault(number, each, session=session) for number, each in PAST] == [0, 0]


def test_another_split_is_not_told_under_another_name_of_the_run(holder: RealSite) -> None:
    """The memory is the session's, which the center names: errors of two splits would tell of single rows."""
    assert holder.fault(3, turn(80, 20)) == 0
    for session in ("y", "z"):
        begin(holder, session)
        for wrong in (turn(101), turn(79, 20), turn(81, 19), turn(99), turn(100, intercept=False), lead(100)):
            assert holder.fault(4, wrong, session=session) == Fault.MALFORMED_ASK
        assert holder.fault(4, turn(100), session=session) == 0
        holder.restart()


def test_nor_another_plan(holder: RealSite) -> None:
    assert holder.fault(3, lead(100)) == 0
    for session in ("y", "z"):
        begin(holder, session)
        for wrong in (lead(101), lead(100, rounds=3), replace(lead(100), precision="float32"), turn(100)):
            assert holder.fault(4, wrong, session=session) == Fault.MALFORMED_ASK
        assert holder.fault(4, lead(100), session=session) == 0
        holder.restart()


def test_nor_behind_a_history(holder: RealSite) -> None:
    """Its keys are gone by then; and an ask that fails takes nothing of the memory with it."""
    assert holder.fault(3, turn(100)) == 0
    for past in (PAST, PAST[:1], ((2, ORDER),), ((2, order(np.arange(N - 1))),)):
        for wrong in (turn(101), lead(101)):
            assert holder.fault(4, wrong, past=past)
    assert holder.fault(4, turn(101)) == Fault.MALFORMED_ASK
    assert holder.fault(4, turn(100)) == 0, "it has forgotten nothing"


@pytest.mark.parametrize("end", [lead(100, rounds=0), KeepEnsemble((), 100, True)])
def test_a_run_that_is_over_does_not_begin_anew_either(
    holder: RealSite, tmp_path: Path, end: Lead | KeepEnsemble
) -> None:
    asks = [end] if isinstance(end, Lead) else [end, Conclude(np.zeros(0), np.zeros(0, np.int64))]
    assert holder.fault(3, *asks) == 0
    for _ in range(2):
        for past in ((), PAST, PAST[1:]):
            for wrong in (lead(101, rounds=0), turn(101), ENROL):
                assert holder.fault(5, wrong, past=past)
        assert holder.fault(6, ENROL, session="z") == Fault.MALFORMED_ASK
        assert holder.fault(6, lead(100), past=PAST, session="z")
        holder.restart()
    newest = sorted((tmp_path / "home" / "bank" / "memory-x").glob("round-*.zip"))[-1]
    assert list(read_records(newest)[1][0]["arrays"]) == ["0/concluded"]


def test_lanes_are_not_many_runs_in_one(tmp_path: Path) -> None:
    bank = enrolled_sites(tmp_path, "bank")["bank"].in_lane("1")
    ask(bank, Enrol("salt", "", True))
    assert_refused(bank, order(np.arange(N - 1)))
    assert_refused(bank, turn(100), fault=Fault.STALE_MEMORY)


def test_numbers_of_the_center_s_choice_are_not_fitted_where_a_site_holds_the_outcome(tmp_path: Path) -> None:
    """The mean square of the step that fits one row's indicator would tell of that row's columns."""
    sites = enrolled_sites(tmp_path, "bank")
    forged = turn(100, body=np.frombuffer(pack(Residual(np.eye(N)[3])), np.uint8), receiver="telecom", steps=1)
    for name in AGENTS:
        assert_refused(sites[name], forged, fault=Fault.SEALED_ONLY)


# -- what was sealed is not told later --------------------------------------------------------------------------------


def test_sites_that_are_told_different_holders_open_nothing_of_each_other(tmp_path: Path) -> None:
    """Told that the center holds the outcome, they would later answer it in the clear."""
    sites = enrolled_sites(tmp_path, "bank", ordered=False)
    keys = tuple(ask(site, Enrol("salt", "", True)).public_key for site in sites.values())
    for name, site in sites.items():
        ask(site, Order(np.arange(N), "tree", 8, "bank" if name == "bank" else "", AGENTS, keys))
    passed = ask(sites["bank"], turn(100), 2)
    onward = turn(100, sender="bank", body=passed.body, receiver="telecom", steps=1)
    assert_refused(sites["shop"], onward, 3, Fault.BROKEN_SEAL)
    fused = enrolled_sites(tmp_path / "other", "bank", ordered=False)
    keys = tuple(ask(site, Enrol("salt", "", True)).public_key for site in fused.values())
    for site in fused.values():
        ask(site, Order(np.arange(N), "tree", 8, "", AGENTS, keys))
    assert_refused(fused["bank"], turn(100), 2)  # nor does it hand the outcome on itself
    assert_refused(fused["bank"], lead(100), 2)
    assert_refused(fused["bank"], KeepEnsemble(AGENTS, 100, True), 2)


@pytest.mark.parametrize("topology", ["center", "ring"])
def test_a_model_learned_sealed_predicts_for_its_reader_alone(tmp_path: Path, topology: str) -> None:
    folder = write_world(tmp_path / "files", holder="bank")
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__topology=topology)
    report, _, path = learn(settings, nodes)
    for node in nodes:
        context = Context(10, 5, node, RecordDict(), settings)
        site = Site.open(node["site"], context, Ask("later", 1, 0, [Parcel("0", Enrol("s"))])).in_lane("0")
        assert_refused(site, Predict(report.session, "salt", ""), fault=Fault.SEALED_ONLY)
    # Nor may another site read them.
    sites = enrolled_sites(tmp_path, "bank")
    assert_refused(sites["shop"], Present(report.session, "telecom"), 2, Fault.SEALED_ONLY)
    again = learn(prediction_config(settings, path), nodes)[0]
    assert again.metrics["n_predicted"] == N
    assert not again.missing


def test_a_ring_with_the_center_s_outcome_is_predicted_by_the_center(tmp_path: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files"), residual__topology="ring")
    report, _, path = learn(settings, nodes)
    again, arrays, _ = learn(prediction_config(settings, path), nodes)
    assert not again.missing
    said = dict(zip(arrays["entity"].tolist(), arrays["prediction"].tolist(), strict=True))
    left = customers()["y"] - customers()["customer"].map(said)
    n_test = int(report.metrics["n_test"])
    expected = (report.metrics["train_mse"] * (N - n_test) + report.metrics["test_mse"] * n_test) / N
    assert np.mean(left**2) == pytest.approx(expected, rel=1e-9)


def test_a_site_that_answers_sealed_only(tmp_path: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files"), residual__rounds=3)
    path = learn(settings, nodes)[2]
    nodes[1]["sealed-only"] = True
    told = outcome_of(settings, nodes)
    assert told.report is not None
    assert told.report.sites == ["bank", "telecom"]
    assert "[sealed-only]" in told.text
    told = outcome_of(prediction_config(settings, path), nodes)
    assert "[sealed-only]" in told.text
    holder = write_world(tmp_path / "held", holder="bank")
    settings, nodes = deployed_sites(tmp_path, holder, holder="bank", residual__rounds=3)
    for node in nodes:
        node["sealed-only"] = True
    assert learn(settings, nodes)[0].sites == list(AGENTS)
    shop = enrolled_sites(tmp_path / "one", "bank", ordered=False, **{"sealed-only": True})["shop"]
    assert_refused(shop, order(np.arange(N), holder="", names=()), fault=Fault.SEALED_ONLY)
    assert_refused(shop, Fit(np.zeros((N, 1))), fault=Fault.STALE_MEMORY)


@pytest.mark.parametrize("key", ["agent", "min-leaf", "sealed-only", "align-key-file"])
def test_what_a_site_says_of_itself_is_not_told_by_the_run(tmp_path: Path, key: str) -> None:
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files"))
    given = {**settings, key: "sklearn.tree.ExtraTreeRegressor"}
    enrol = Enrol("salt")
    site = Site.open("shop", Context(9, 5, nodes[1], RecordDict(), given), Ask("x", 1, 0, [Parcel("0", enrol)]))
    assert key not in site.config
    shown = ask(site.in_lane("0"), enrol)
    assert isinstance(shown, Holdings)
    assert shown.agent == ""


# -- what a run leaves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holder", "changes"),
    [
        ("", {"residual__algorithm": "greedy"}),
        ("bank", {"residual__algorithm": "parallel", "residual__power": "1"}),
        ("bank", {"residual__algorithm": "greedy"}),
        ("bank", {"residual__topology": "ring"}),
        ("", {"residual__topology": "ring", "residual__stop": "held-out"}),
    ],
)
def test_with_its_last_answer_a_site_forgets_keys_residuals_and_steps(
    tmp_path: Path, holder: str, changes: dict[str, Any]
) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    report, _, _ = learn(*deployed_sites(tmp_path, folder, holder=holder, residual__rounds=4, **changes))
    assert not any("stored" in note for note in report.notes)
    for site in COLUMNS:
        files = sorted((tmp_path / "home" / site).glob("memory-*/round-*.zip"))
        assert len(files) == 2  # and the state before, from which the last round could be repeated
        newest = read_records(files[-1])[1][0].array_records["arrays"]
        assert list(newest) == ["0/concluded"]
        assert decode_array(newest["0/concluded"])
        [model] = (tmp_path / "home" / site / "models").glob(f"{report.session}.skops")
        assert model.stat().st_size


def test_predictions_leave_no_key_either(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", holder="bank")
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__rounds=3)
    path = learn(settings, nodes)[2]
    report = learn(prediction_config(settings, path), nodes)[0]
    for site in COLUMNS:
        newest = sorted((tmp_path / "home" / site).glob(f"memory-{report.session}/round-*.zip"))[-1]
        assert list(read_records(newest)[1][0]["arrays"]) == ["0/concluded"]


def test_a_model_is_kept_once_and_said_to_be_kept_again(tmp_path: Path) -> None:
    sites = enrolled_sites(tmp_path, "")
    nothing = Conclude(np.zeros(0), np.zeros(0, np.int64))
    for _ in range(2):
        answer = ask(sites["shop"], nothing, 3)
        assert isinstance(answer, Receipt)
        assert answer.stored
    assert_refused(sites["shop"], SealedAsk("bank", np.zeros(60, np.uint8)), 3, Fault.STALE_MEMORY)


# -- nobody is kept busy for ever --------------------------------------------------------------------------------------


def test_rules_do_not_keep_a_site_busy_for_days(tmp_path: Path) -> None:
    text = Rules(algorithm="sip", rounds=MOST_ROUNDS, stop="rounds").to_json()
    assert Rules.from_json(text).rounds == MOST_ROUNDS
    longer = text.replace('"steps": 1', '"steps": 2')
    assert longer != text
    with pytest.raises(ValueError, match="out of range"):
        Rules.from_json(longer)
    assert_refused(enrolled_sites(tmp_path, "bank")["bank"], Lead(("bank",), 100, longer, "float64"))


@pytest.mark.parametrize("algorithm", ["parallel", "greedy", "sip"])
def test_a_holder_that_never_ends_is_left(algorithm: str) -> None:
    bytes_ = np.zeros(28, np.uint8)
    going_on = FusionStep(("shop",), (bytes_,), refused=(), train=1.0, validation=0.0, test=1.0, last=False)
    rules = Rules(algorithm=algorithm, rounds=5)
    course = relayed("bank", ("bank", "shop"), 100, 80, rules, "float64")
    rounds = 0

    def go_on() -> None:
        nonlocal rounds
        request = next(course)
        while rounds < 10_000:
            assert isinstance(request, Tell)
            request = course.send({"bank": going_on} if "bank" in request.asks else {"shop": SealedAnswer(bytes_)})
            rounds += 1

    with pytest.raises(FusionError, match="bank, which holds the outcome, has not come to an end after"):
        go_on()
    # No honest one takes so long: greedy asks twice an iteration, and once more for every agent that is silent then.
    assert rounds > 2 * 2 * (rules.rounds + 1) * len(("bank", "shop"))
