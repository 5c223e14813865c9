"""What a fusion center learns of bc3e's sums if it departs from the protocol: nothing of a single instance."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.bc3e.consent import FEWEST_PRIVATE, MOST_STEPS
from protocols.bc3e.payloads import Conclude, EStep, Holdings, Setup, Shares, Statistics, Sweep, Tally
from protocols.wire.faults import Fault
from protocols.wire.payload import PayloadError
from server.results import load
from strategies.bc3e.checks import check_number, check_shares, check_statistics
from strategies.bc3e.layout import agree_layout
from tests.support.grid import config
from tests.support.payloads import same
from tests.support.runs import run_with_grid
from tests.support.site_client import RealSite

N = 30
E_STEP = EStep(
    step=0, accepted=True, start=0, weights=np.zeros(0), alpha=np.ones(3), clusterings=("cluster_x",),
    beta=(np.full((3, 3), 1 / 3),), grid_bits=30, tolerance=1e-6, max_sweeps=5, smoothing=0.0,
)  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> RealSite:
    return real_site(tmp_path)


def real_site(tmp_path: Path, **node: Any) -> RealSite:
    labels = np.random.default_rng(0).integers(0, 3, (N, 3))
    np.savetxt(tmp_path / "own.csv", labels, "%d", ",", header="class_a,class_b,cluster_x", comments="")
    about = {"site": "a", "data": str(tmp_path / "own.csv"), "site-output-dir": str(tmp_path / "home")}
    return RealSite({**about, "allow-shared-instances": True, **node}, config(tmp_path, protocol="bc3e"))


def setup(shared: Sequence[int]) -> Setup:
    """The agreement that these of the site's instances are other sites' too: it sums over all others."""
    none = np.zeros(0, np.int64)
    return Setup(3, 30, ("cluster_x",), np.array([3]), none, np.array(shared, np.int64))


def test_sums_with_an_instance_and_without_it_are_not_told(site: RealSite) -> None:
    """Their difference is what the one instance holds."""
    assert site.fault(1, setup([])) == site.fault(2, E_STEP) == 0
    for shared in ([7], range(5), range(N)):
        assert site.fault(3, setup(shared), E_STEP) == Fault.MALFORMED_ASK
    site.restart()
    assert site.fault(3, setup([7]), E_STEP) == Fault.MALFORMED_ASK
    assert site.fault(3, setup([]), E_STEP) == 0, "the same again"


@pytest.mark.parametrize(
    "how",
    [{"session": "another"}, {"lane": "1"}, {"past": [(1, setup([7]))]}, {"past": [(1, setup([]))], "session": "y"}],
    ids=str,
)
def test_nor_in_another_session_or_repetition_or_behind_a_history(site: RealSite, how: dict[str, Any]) -> None:
    assert site.fault(1, setup([]), E_STEP) == 0
    assert site.fault(2, setup([7]), E_STEP, **how) == Fault.MALFORMED_ASK


def test_nor_where_the_setup_is_left_out(tmp_path: Path) -> None:
    """Then all instances count as the site's own."""
    first = real_site(tmp_path)
    told = first.answer(1, E_STEP).parcels[0].payload
    assert isinstance(told, Statistics)
    assert told.n == N
    assert first.fault(2, setup([7]), E_STEP) == Fault.MALFORMED_ASK
    second = real_site(tmp_path, **{"site-output-dir": str(tmp_path / "second")})
    assert second.fault(1, setup([7]), E_STEP) == 0
    for how in ({"session": "another"}, {"lane": "1"}):
        assert second.fault(2, E_STEP, **how) == Fault.STALE_MEMORY


@pytest.mark.parametrize("lost", ["memory-x", "."])
def test_a_site_that_lost_its_memory_is_told_the_same_setup(site: RealSite, tmp_path: Path, lost: str) -> None:
    """With or without what it was held to; and what it answers before does not keep it from that."""
    before = site.answer(1, setup([7, 9]), E_STEP).parcels[1].payload
    site.restart()
    shutil.rmtree(tmp_path / "home" / lost)
    assert site.fault(2, replace(E_STEP, step=1)) == Fault.STALE_MEMORY
    after = site.answer(2, E_STEP, past=[(1, setup([7, 9]))]).parcels[0].payload
    assert isinstance(before, Statistics)
    assert before.n == N - 2
    assert same(before, after)


@pytest.mark.usefixtures("quick")
def test_an_honest_run_keeps_to_one_setup_in_all_repetitions(tmp_path: Path) -> None:
    nodes = []
    for place, name in enumerate(("east", "north", "west")):
        case = np.arange(20) + 7 * place
        labels = np.random.default_rng(place).integers(0, 3, (20, 2))
        path = tmp_path / f"{name}.csv"
        columns = f"case,class_{name},cluster_{name}"
        np.savetxt(path, np.column_stack([case, labels]), "%d", ",", header=columns, comments="")
        home = str(tmp_path / "homes" / name)
        nodes.append(
            {"site": name, "data": str(path), "id": "case", "site-output-dir": home, "allow-shared-instances": True}
        )
    changes: dict[str, Any] = {"bc3e__distribution": "arbitrary", "bc3e__max_rounds": 2, "repetitions": 3}
    path, _ = run_with_grid(config(tmp_path, protocol="bc3e", **changes), nodes)
    assert load(path)[0].missing == {}
    assert "bc3e.Shares" in (path / "ledger.jsonl").read_text()


@pytest.mark.parametrize(("policy", "fewest"), [("", FEWEST_PRIVATE), ("min-rows = 20", 20)])
def test_sums_over_few_instances_are_not_told(tmp_path: Path, policy: str, fewest: int) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    site = real_site(tmp_path, policy=str(tmp_path / "policy.toml"))
    assert site.fault(1, setup(range(N - fewest + 1))) == Fault.TOO_FEW_ROWS
    assert site.fault(1, setup(range(N - 1))) == Fault.TOO_FEW_ROWS
    assert site.fault(1, setup(range(N - fewest))) == 0, "what was refused is not agreed on"
    every = real_site(tmp_path, **{"site-output-dir": str(tmp_path / "every"), "policy": str(tmp_path / "policy.toml")})
    assert every.fault(1, setup(range(N))) == 0, "there is nothing to sum over"


# -- cells and steps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fewest", [1, 5])
def test_labels_of_few_instances_are_withheld_and_it_is_said(tmp_path: Path, fewest: int) -> None:
    labels = np.random.default_rng(0).integers(0, 3, (N, 3))
    labels[:, 2] = np.repeat([0, 1, 2], [N - 4, 4, 0])
    np.savetxt(tmp_path / "own.csv", labels, "%d", ",", header="class_a,class_b,cluster_x", comments="")
    about = {"site": "a", "data": str(tmp_path / "own.csv"), "site-output-dir": str(tmp_path / "home")}
    site = RealSite({**about, "min-combination": fewest}, config(tmp_path, protocol="bc3e"))
    told = site.answer(1, E_STEP).parcels[0].payload
    assert isinstance(told, Statistics)
    columns = told.mass[0].sum(axis=0) / 2.0**E_STEP.grid_bits
    counts = np.array([*Counter(map(tuple, labels[labels[:, 2] == 0].tolist())).values()])
    assert (counts < 5).any()
    if fewest == 1:
        np.testing.assert_allclose(columns, [N - 4, 0, 0], atol=1e-6)
    else:
        assert columns[0] < N - 4
        np.testing.assert_allclose(columns[1:], 0, atol=1e-6)
    tally = site.answer(2, Conclude(True, np.zeros((3, 0)), np.zeros(0, np.int64))).parcels[0].payload
    assert isinstance(tally, Tally)
    assert tally.withheld == 0 if fewest == 1 else tally.withheld in range(10, 101, 10)


def test_right_decisions_of_further_repetitions_count_as_runs(tmp_path: Path) -> None:
    """A center may name any number of repetitions: each would be an equation for the known classes."""
    (tmp_path / "policy.toml").write_text("[budget]\nruns = { day = 3, all = 9 }")
    site = real_site(tmp_path, truth="class_b", policy=str(tmp_path / "policy.toml"))
    conclude = Conclude(True, np.zeros((3, 0)), np.zeros(0, np.int64))
    faults = []
    for lane in range(5):
        step = replace(E_STEP, alpha=np.full(3, 1.0 + lane))
        faults.append(site.fault(lane + 1, step, lane=str(lane)) or site.fault(lane + 10, conclude, lane=str(lane)))
    assert faults == [0, 0, 0, Fault.BUDGET_SPENT, Fault.BUDGET_SPENT]


@pytest.mark.parametrize("abstain", [0.5, 0.55, 0.6])
def test_numbers_of_sure_and_unsure_instances_tell_of_no_few(tmp_path: Path, abstain: float) -> None:
    """By a table of a crafted clustering, only instances with certain labels are unsure."""
    site = real_site(tmp_path, truth="class_b", **{"min-combination": 1})
    table = np.array([[0.98, 0.01, 0.01], [0.01, 0.49, 0.5], [0.01, 0.5, 0.49]])
    assert site.fault(1, replace(E_STEP, beta=(table,))) == 0
    conclude = Conclude(True, np.zeros((3, 0)), np.zeros(0, np.int64), abstain=abstain)
    tally = site.answer(2, conclude).parcels[0].payload
    assert isinstance(tally, Tally)
    counts = np.array([tally.unsure, *tally.sure, *tally.sure_correct])
    assert tally.unsure > 0
    assert (counts[counts < N] % 5 == 0).all()


def test_steps_of_a_fit_only_rise_each_with_one_set_of_parameters(site: RealSite) -> None:
    assert site.fault(1, E_STEP) == site.fault(2, replace(E_STEP, step=1)) == 0
    assert site.fault(3, replace(E_STEP, step=1)) == 0, "the same again"
    assert site.fault(4, E_STEP) == Fault.MALFORMED_ASK
    for session in ("x", "another"):
        other = replace(E_STEP, step=1, alpha=np.full(3, 0.5))
        assert site.fault(5, other, session=session) in (Fault.MALFORMED_ASK, Fault.STALE_MEMORY)
    site.restart()
    assert site.fault(6, E_STEP) == Fault.MALFORMED_ASK
    assert site.fault(7, replace(E_STEP, step=3)) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": np.full(2, 1e308)},
        {"weights": np.array([1.0, -1e16])},
        {"beta": (np.full((3, 3), -1.0),)},
        {"clusterings": ("confusion:class_a",), "beta": (np.eye(3),), "draws": 3},
        {"smoothing": 1e19},
        {"smoothing": -1.0},
    ],
    ids=str,
)
def test_parameters_whose_sums_leave_the_grid_are_refused(site: RealSite, wrong: dict[str, Any]) -> None:
    assert site.fault(1, E_STEP, replace(E_STEP, step=1)) == 0
    assert site.fault(2, replace(E_STEP, step=2, **wrong)) == Fault.MALFORMED_ASK


@pytest.mark.parametrize(("node", "most"), [({}, MOST_STEPS), ({"max-steps": 7}, 7)])
def test_steps_of_a_fit_are_bounded(tmp_path: Path, node: dict[str, Any], most: int) -> None:
    site = real_site(tmp_path, **node)
    assert site.fault(1, E_STEP, replace(E_STEP, step=most - 1)) == 0
    assert site.fault(2, replace(E_STEP, step=most)) == Fault.TOO_MANY_ROUNDS


# -- confusion matrices ------------------------------------------------------------------------------------------------

CONFUSION = replace(
    E_STEP,
    clusterings=("cluster_x", "confusion:class_a", "confusion:class_b"),
    beta=(np.full((3, 3), 1 / 3), np.full((3, 3), 1 / 3), np.full((3, 3), 1 / 3)),
    draws=3,
)


def test_rare_labels_of_a_classifier_are_withheld_where_its_matrix_is_told(tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, 3, (N, 3))
    labels[:, 0] = np.repeat([0, 1, 2], [N - 4, 4, 0])
    np.savetxt(tmp_path / "own.csv", labels, "%d", ",", header="class_a,class_b,cluster_x", comments="")
    about = {"site": "a", "data": str(tmp_path / "own.csv"), "site-output-dir": str(tmp_path / "home")}
    site = RealSite(about, config(tmp_path, protocol="bc3e"))
    told = site.answer(1, CONFUSION).parcels[0].payload
    assert isinstance(told, Statistics)
    columns = told.mass[1].sum(axis=0) / 2.0**E_STEP.grid_bits
    np.testing.assert_allclose(columns, [N - 4, 0, 0], atol=1e-6)
    assert 0 <= told.changed <= N


def test_asks_about_confusion_matrices_that_do_not_fit_are_refused(site: RealSite) -> None:
    for ask in (
        replace(CONFUSION, draws=-1),
        replace(CONFUSION, draws=10**6),
        replace(CONFUSION, clusterings=("cluster_x",), beta=(np.full((3, 3), 1 / 3),)),
    ):
        assert site.fault(1, ask) in (Fault.MALFORMED_ASK, Fault.STALE_MEMORY)
    assert site.fault(1, CONFUSION) == 0
    assert site.fault(2, replace(CONFUSION, draws=2)) == Fault.MALFORMED_ASK, "a second set of parameters for a step"
    for alpha in (np.ones(2), np.array([1.0, -1.0, 1.0])):
        end = Conclude(True, np.zeros((3, 0)), np.zeros(0, np.int64), alpha)
        assert site.fault(3, end) == Fault.MALFORMED_ASK


def test_evidence_and_counts_that_no_labels_have_are_refused() -> None:
    held = Holdings(4, 3, ("a", "b"), ("x",), np.array([2]), np.arange(4, dtype=np.uint64), True)
    layout = agree_layout({"one": held, "two": held}, "arbitrary", 3, confusion=True)
    names, step, k, s = layout.common_of("one"), 2**layout.bits, 3, 4
    ask = Sweep(np.arange(s), np.zeros((k, s)), first=True)
    mass = tuple(np.zeros((k, layout.n_clusters[name]), np.int64) for name in names)
    none = np.zeros(0, np.int64)
    good = Shares(np.zeros((k, s), np.int64), mass, 0, none, np.full((k, s), -step))
    check_shares(layout, names, ask, 1, "one", good)
    for evidence in (np.full((k, s), step), np.full((k, s), -(2**61)), np.zeros((0, 0), np.int64)):
        with pytest.raises(PayloadError, match="evidence"):
            check_shares(layout, names, ask, 1, "one", replace(good, evidence=evidence))
    ask = replace(ask, classes=np.zeros((k, s), np.int64))
    alone = replace(good, squares=np.zeros(len(names), np.int64))
    check_shares(layout, names, ask, 1, "one", alone, alone=True)
    for false in (
        replace(alone, gains=np.array([0.5])),  # no clustering is the site's own
        replace(alone, squares=alone.squares + 5 * step),  # of 4 instances
        replace(alone, squares=alone.squares - 1),
        good,
    ):
        with pytest.raises(PayloadError, match=r"gains|squares"):
            check_shares(layout, names, ask, 1, "one", false, alone=True)
    own = agree_layout(
        {"one": held, "two": replace(held, clusterings=(), n_clusters=none)}, "arbitrary", 3, confusion=True
    )
    told = replace(alone, mass=mass[:-1], products=np.zeros(1, np.int64), squares=alone.squares[:-1])
    for value in (-0.1, 1.1, np.nan):
        with pytest.raises(PayloadError, match="gains"):
            check_shares(own, names[:-1], ask, 1, "one", replace(told, gains=np.array([value])), alone=True)
    statistics = Statistics(4, mass, np.full(k, -step), -step, 5)
    for n in (0, -1, 5):
        with pytest.raises(PayloadError, match="1 to 4 instances"):
            check_number(4, replace(statistics, n=n))
    with pytest.raises(PayloadError, match="changed"):
        check_statistics(layout, np.ones(k), names, 4, statistics)
