"""Whom residual has to trust: what the center can read, what a site refuses whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

import clients.dispatch
from clients.residual import sealed_handlers, sealing
from clients.residual.sealing import new_private_key, public_key_of
from clients.site import Site
from numerics.residual.rules import Rules
from protocols.residual.payloads import (
    Conclude,
    Enrol,
    Fit,
    FittedValues,
    Fuse,
    FusionStep,
    KeepEnsemble,
    Lead,
    NextResidual,
    Order,
    Pass,
    Predict,
    Present,
    Residual,
    SealedAnswer,
    SealedAsk,
    Show,
    Sum,
    TrialFit,
    Try,
)  # fmt: skip
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask, Parcel
from protocols.wire.packing import pack
from protocols.wire.payload import Payload, encode_array
from tests.support.parameters import few
from tests.support.residual_sites import (
    COLUMNS,
    N,
    ask,
    assert_refused,
    deployed_sites,
    enrolled_sites,
    learn,
    own_data_config,
    write_world,
)
from tests.support.runs import make_grid, outcome_of, run_over

pytestmark = pytest.mark.usefixtures("quick")


# -- what crosses -----------------------------------------------------------------------------------------------------


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Every float array of what the sites seal and open, as it is in the clear, while this test runs."""
    seen: list[np.ndarray] = []

    def packing(payload: Payload) -> bytes:
        seen.extend(each for each in vars(payload).values() if isinstance(each, np.ndarray) and each.dtype.kind == "f")
        return pack(payload)

    monkeypatch.setattr(sealing, "pack", packing)
    monkeypatch.setattr(sealed_handlers, "pack", packing)
    return seen


def crossed_bytes(grid: Any) -> bytes:
    return b"".join(
        array.data
        for _, content in grid.crossed
        for arrays in content.array_records.values()
        for array in arrays.values()
    )


@pytest.mark.parametrize(
    "changes",
    few(
        [
            {"residual__algorithm": "parallel", "residual__power": "2"},
            {"residual__algorithm": "greedy"},
            {"residual__algorithm": "sip"},
            {"residual__algorithm": "meta-boosting"},
            {"residual__algorithm": "boosted", "residual__baselines": True},
            {"residual__topology": "ring"},
        ],
        4,
    ),
)
def test_the_center_reads_no_outcome_residual_or_prediction_of_any_entity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    clear = recorded(monkeypatch)
    folder = write_world(tmp_path / "files", holder="bank")
    settings = own_data_config(tmp_path, folder, residual__rounds=4, **changes)
    grid = make_grid(settings, 3)
    run_over(grid, settings)
    crossed = crossed_bytes(grid)
    outcome = pd.read_csv(folder / "bank.csv")["y"].to_numpy()
    secret = [outcome, *(each.ravel() for each in clear if each.size)]
    assert sum(each.size for each in secret) > 4 * N
    # A single number may be there by chance or as a measure; two entities' in a row nowhere.
    for values in secret:
        for kind in (np.float64, np.float32):
            for start in range(0, len(values) - 1, 7):
                pair = values[start : start + 2]
                if pair[0] != 0 and pair[0] != pair[1]:
                    assert pair.astype(kind).tobytes() not in crossed


def test_what_the_center_relays_in_the_clear_is_found_by_the_same_search(tmp_path: Path) -> None:
    """The search above would find it: where the center holds the outcome, predictions cross for it to read."""
    settings = own_data_config(tmp_path, write_world(tmp_path / "files"), residual__rounds=2)
    grid = make_grid(settings, 3)
    run_over(grid, settings)
    [fitted, *_] = [
        np.frombuffer(arrays["fitted"].data, np.float64)
        for direction, content in grid.crossed
        for arrays in content.array_records.values()
        if direction == "from_site" and "fitted" in arrays
    ]
    assert fitted[:2].tobytes() in crossed_bytes(grid)


# -- a center that is not honest --------------------------------------------------------------------------------------


def swapping(monkeypatch: pytest.MonkeyPatch, change: Callable[[Payload], Payload]) -> None:
    """Every ask reaches its handler as `change` makes it: what the center says instead of what it should."""
    original = clients.dispatch.handler_of

    def handler(ask: type[Payload]) -> Any:
        return lambda payload, site: original(ask)(change(payload), site)

    monkeypatch.setattr(clients.dispatch, "handler_of", handler)


@pytest.mark.parametrize("topology", ["center", "ring"])
def test_public_keys_that_the_center_swaps_break_the_seal_where_sites_share_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> None:
    """The center is in the middle with keys of its own, and opens nothing that was sealed with the secret."""
    private = new_private_key()
    mine = np.frombuffer(public_key_of(private), np.uint8)

    def change(payload: Payload) -> Payload:
        return replace(payload, public_keys=(mine,) * len(payload.names)) if isinstance(payload, Order) else payload

    folder = write_world(tmp_path / "files", holder="bank")
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__topology=topology)
    swapping(monkeypatch, change)
    told = outcome_of(settings, nodes).text
    assert "[broken-seal]" in told


@pytest.mark.parametrize("topology", ["center", "ring"])
def test_a_real_site_seals_nothing_without_a_secret(tmp_path: Path, topology: str) -> None:
    """The center could hand out keys of its own, and nobody would notice."""
    folder = write_world(tmp_path / "files", holder="bank", shuffle=None)
    settings, nodes = deployed_sites(tmp_path, folder, holder="bank", residual__topology=topology)
    for node in nodes:
        del node["align-key-file"]
    assert "set align-key-file in its node configuration [no-secret]" in outcome_of(settings, nodes).text


# -- one site, asked by anybody ---------------------------------------------------------------------------------------


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, Site]:
    """bank holds the outcome."""
    return enrolled_sites(tmp_path, "bank")


@pytest.fixture
def ring(tmp_path: Path) -> dict[str, Site]:
    """The fusion center does, and gives it to the ring's first agent."""
    return enrolled_sites(tmp_path, "")


@pytest.fixture
def shop(tmp_path: Path) -> Site:
    """A site in a run that is not sealed, before it is told the order."""
    settings, nodes = deployed_sites(tmp_path / "open", write_world(tmp_path / "open" / "files", shuffle=None))
    context = Context(9, 6, nodes[1], RecordDict(), settings)
    site = Site.open("shop", context, Ask("x", 1, 0, [Parcel("0", Enrol("salt"))])).in_lane("0")
    ask(site, Enrol("salt"))
    return site


@pytest.fixture
def told(shop: Site) -> Site:
    """And after."""
    ask(shop, Order(np.arange(N), "tree", 8))
    return shop


@pytest.mark.parametrize("rows", [[-1], [N], [3, 3], [0, 10**15], [-(2**63)], [*range(N), 0]])
def test_an_order_of_rows_that_are_not_there_or_twice(shop: Site, rows: list[int]) -> None:
    assert_refused(shop, Order(np.array(rows), "tree", 5))


def test_an_order_with_other_names_than_keys_or_of_no_method(shop: Site) -> None:
    assert_refused(shop, Order(np.arange(5), "tree", 5, "bank", ("bank",), ()))
    assert_refused(shop, Order(np.arange(5), "sklearn.svm.SVR", 5), fault=Fault.BAD_AGENT)
    assert_refused(shop, Order(np.arange(5), "forest of all", 5), fault=Fault.BAD_AGENT)


@pytest.mark.parametrize(
    "payload",
    [
        Fit(np.zeros((N + 1, 1))),
        Fit(np.zeros((0, 1))),
        Fit(np.zeros((N, 1001))),
        Fit(np.zeros((N, 2)), 1.0, 501),
        Fit(np.zeros((N, 0)), 1.0),
        Fit(np.zeros((N, 1)), 1.0, 10**9),
        Fit(np.zeros((N, 1)), 1.0, 0),
        Fit(np.zeros((N, 1)), 1.0, -3),
        Try(np.zeros(N + 1), 1.0, 1.0),
        Try(np.zeros(0), 1.0, 1.0),
        Try(np.zeros(N), 1.0, 1.0, 10**9),
        Conclude(np.zeros(N + 1), np.zeros(0, np.int64)),
    ],
)
def test_what_cannot_be_fitted_is_refused(told: Site, payload: Payload) -> None:
    assert_refused(told, payload)


def test_what_was_never_asked_before_is_stale(sites: dict[str, Site], told: Site) -> None:
    assert_refused(told, Show(), fault=Fault.STALE_MEMORY)
    assert_refused(told, Conclude(np.zeros(0), np.array([7])), fault=Fault.STALE_MEMORY)
    assert_refused(sites["bank"], Fuse((), ()), fault=Fault.STALE_MEMORY)
    for site in (sites["shop"], told):
        for name in list(site.memory):
            del site.memory[name]
        for payload in (Fit(np.zeros((3, 1))), Try(np.zeros(3), 1.0, 1.0), SealedAsk("bank", np.zeros(40, np.uint8))):
            assert_refused(site, payload, fault=Fault.STALE_MEMORY)


@pytest.mark.parametrize("payload", [Fit(np.zeros((N, 1))), Try(np.zeros(N), 1.0, 1.0), Show()])
def test_what_is_asked_in_the_clear_is_refused_in_a_sealed_run(sites: dict[str, Site], payload: Payload) -> None:
    for site in sites.values():
        assert_refused(site, payload, fault=Fault.SEALED_ONLY)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a/b", ".", "x" * 300, "a\0b"])
def test_a_run_s_name_leads_nowhere_else(sites: dict[str, Site], name: str) -> None:
    with pytest.raises(SiteFault) as told:
        ask(sites["shop"], Predict(name, "salt", ""))
    assert told.value.fault in (Fault.MALFORMED_ASK, Fault.NO_SAVED_MODEL)
    with pytest.raises(SiteFault) as told:
        ask(sites["bank"], Sum(name, (), ()))
    assert told.value.fault in (Fault.MALFORMED_ASK, Fault.NO_SAVED_MODEL)
    assert_refused(sites["shop"], Predict("another-run", "salt", ""), fault=Fault.NO_SAVED_MODEL)


# -- asks to the site that holds the outcome --------------------------------------------------------------------------

AGENTS = tuple(COLUMNS)


def lead(n_learn: int = 100, agents: tuple[str, ...] = AGENTS, **rules: Any) -> Lead:
    return Lead(agents, n_learn, replace(Rules(algorithm="sip", stop="rounds"), **rules).to_json(), "float64")


@pytest.mark.parametrize(
    "payload",
    [
        lead(1), lead(0), lead(-5), lead(N + 1), lead(10**15), lead(agents=("bank", "bank")), lead(rounds=10**9),
        lead(steps=10**9), lead(algorithm="exec"), lead(shrinkage=-1.0), lead(powers=(1.0,) * 1000),
        Lead(AGENTS, 100, "not rules", "float64"), Lead(AGENTS, 100, "[" * 5000, "float64"),
    ],
)  # fmt: skip
def test_nobody_leads_it_astray(sites: dict[str, Site], payload: Lead) -> None:
    assert_refused(sites["bank"], payload)


def test_only_who_holds_the_outcome_leads(sites: dict[str, Site]) -> None:
    assert_refused(sites["shop"], lead(), fault=Fault.NO_OUTCOME)
    assert_refused(
        sites["shop"], Pass("", np.zeros(0, np.uint8), "bank", 100, 0, 1.0, 0, 0, False, True), fault=Fault.NO_OUTCOME
    )
    assert_refused(sites["shop"], KeepEnsemble(AGENTS, 100, True), fault=Fault.NO_OUTCOME)


def test_agents_whose_keys_nobody_told_are_refused(sites: dict[str, Site]) -> None:
    assert_refused(sites["bank"], lead(agents=("stranger", "shop")))
    assert_refused(sites["shop"], SealedAsk("stranger", np.zeros(60, np.uint8)))
    assert_refused(sites["shop"], Present("a-run", "stranger"), fault=Fault.NO_SAVED_MODEL)


def started(sites: dict[str, Site], **rules: Any) -> FusionStep:
    """bank has begun, in round 2."""
    fused = ask(sites["bank"], lead(algorithm="parallel", powers=(1.0,), rounds=4, **rules), 2)
    assert isinstance(fused, FusionStep)
    assert fused.agents == ("shop", "telecom")
    return fused


def test_sealed_bodies_open_for_their_receiver_in_their_round_only(sites: dict[str, Site]) -> None:
    fused = started(sites)
    to_shop, to_telecom = fused.bodies
    answer = ask(sites["shop"], SealedAsk("bank", to_shop), 3)
    assert isinstance(answer, SealedAnswer)
    assert_refused(sites["shop"], SealedAsk("bank", to_telecom), 3, Fault.BROKEN_SEAL)  # redirected
    assert_refused(sites["shop"], SealedAsk("bank", to_shop), 5, Fault.BROKEN_SEAL)  # replayed
    assert_refused(sites["shop"], SealedAsk("telecom", to_shop), 3, Fault.BROKEN_SEAL)  # said to come from another
    assert_refused(sites["shop"].in_lane("1"), SealedAsk("bank", to_shop), 3, Fault.STALE_MEMORY)  # in another lane
    changed = to_shop.copy()
    changed[40] ^= 1
    assert_refused(sites["shop"], SealedAsk("bank", changed), 3, Fault.BROKEN_SEAL)
    assert_refused(sites["shop"], SealedAsk("bank", to_shop[:20]), 3, Fault.BROKEN_SEAL)
    assert_refused(sites["shop"], SealedAsk("bank", np.zeros(0, np.uint8)), 3, Fault.BROKEN_SEAL)


def sealed_by(site: Site, payload: Payload, receiver: str, number: int) -> np.ndarray:
    """What an agent seals if it says what it should not."""
    site.round = number
    return sealing.Seals.of(site).close(payload, receiver)


def test_a_seal_holds_only_what_belongs_there(sites: dict[str, Site]) -> None:
    for payload in (FittedValues(np.zeros((3, 1)), np.zeros((3, 1))), lead(), Enrol("salt"), Predict("x", "y", "")):
        assert_refused(sites["shop"], SealedAsk("bank", sealed_by(sites["bank"], payload, "shop", 2)), 3)


def test_answers_of_who_was_not_asked_and_bodies_without_owner(sites: dict[str, Site]) -> None:
    started(sites)
    answer = FittedValues(np.zeros((100, 1)), np.zeros((N - 100, 1)))
    body = sealed_by(sites["shop"], answer, "bank", 3)
    with pytest.raises(SiteFault):
        ask(sites["bank"], Fuse(("shop", "telecom"), (body,)), 4)


@pytest.mark.parametrize(
    "wrong",
    [
        FittedValues(np.zeros((99, 1)), np.zeros((N - 100, 1))),
        FittedValues(np.zeros((100, 2)), np.zeros((N - 100, 2))),
        TrialFit(-1.0, np.zeros(100), np.zeros(N - 100)),
        lead(),
        None,
    ],
)
def test_an_answer_that_does_not_fit_counts_as_none(sites: dict[str, Site], wrong: Payload | None) -> None:
    """The others' go on: a site that answers nonsense has the part of one that is silent."""
    fused = started(sites)
    right = ask(sites["telecom"], SealedAsk("bank", fused.bodies[1]), 3)
    body = np.zeros(60, np.uint8) if wrong is None else sealed_by(sites["shop"], wrong, "bank", 3)
    later = ask(sites["bank"], Fuse(("shop", "telecom"), (body, right.body)), 4)
    assert isinstance(later, FusionStep)
    assert "telecom" in later.agents


def passing(**changes: Any) -> Pass:
    there = Pass("bank", np.zeros(60, np.uint8), "telecom", 100, 0, 1.0, 1, 0, False, True)
    return replace(there, **changes)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"n_fit": 0}, Fault.MALFORMED_ASK),
        ({"n_fit": N + 1}, Fault.MALFORMED_ASK),
        ({"n_fit": 10**15}, Fault.MALFORMED_ASK),
        ({"n_validation": -1}, Fault.MALFORMED_ASK),
        ({"n_validation": 10**15}, Fault.MALFORMED_ASK),
        ({"sender": "", "body": np.zeros(9, np.uint8)}, Fault.SEALED_ONLY),
        ({"sender": "shop", "body": np.zeros(0, np.uint8)}, Fault.STALE_MEMORY),
        ({}, Fault.BROKEN_SEAL),
        ({"sender": "stranger"}, Fault.MALFORMED_ASK),
    ],
)
def test_nobody_passes_on_what_does_not_fit(sites: dict[str, Site], changes: dict[str, Any], fault: Fault) -> None:
    assert_refused(sites["shop"], passing(**changes), 3, fault)


def test_a_residual_of_other_rows_and_steps_without_end(ring: dict[str, Site]) -> None:
    assert_refused(ring["shop"], passing(sender="", body=np.zeros(9, np.uint8)), 3)
    for size in (0, 1, N - 1, N + 1):
        body = np.frombuffer(pack(Residual(np.zeros(size))), np.uint8)
        assert_refused(ring["shop"], passing(sender="", body=body), 3)
    body = np.frombuffer(pack(Residual(np.ones(N))), np.uint8)
    for steps in (10**9, -1):
        assert_refused(ring["shop"], passing(sender="", body=body, steps=steps), 3)
    assert_refused(ring["shop"], passing(sender="", body=body, receiver="stranger"), 3)
    assert isinstance(ask(ring["shop"], passing(sender="", body=body), 3), NextResidual)


# -- forged answers in the clear --------------------------------------------------------------------------------------


def forging(place: int, number: int, at: int, change: Callable[[Any, Any], None]) -> Any:
    """A site's answer of a round, whose parcel `at` is changed."""

    def tamper(where: int, now: int, reply: Any) -> Any:
        if (where, now) == (place, number):
            content = reply.content
            change(content.config_records[f"{at}.scalars"], content.array_records[f"{at}.arrays"])
        return reply

    return tamper


def set_array(name: str, value: np.ndarray) -> Callable[[Any, Any], None]:
    return lambda scalars, arrays: arrays.__setitem__(name, encode_array(value))


def set_scalar(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda scalars, arrays: scalars.__setitem__(name, value)


@pytest.mark.parametrize(
    ("algorithm", "change"),
    [
        ("parallel", set_array("fitted", np.zeros((7, 1)))),
        ("parallel", set_array("held", np.zeros((7, 1)))),
        ("parallel", set_array("fitted", np.full((120, 1), np.nan))),
        ("greedy", set_scalar("error", -1.0)),
        ("greedy", set_scalar("error", float("nan"))),
        ("greedy", set_array("fitted", np.zeros(3))),
    ],
)
def test_forged_answers_are_refused_and_named(tmp_path: Path, algorithm: str, change: Any) -> None:
    settings = own_data_config(
        tmp_path, write_world(tmp_path / "files"), residual__algorithm=algorithm, residual__power="1"
    )
    report, _, _ = learn(settings, tamper=forging(1, 3, 0, change))
    assert report.missing["shop"][0].startswith("round 3: refused: payload residual.")


@pytest.mark.parametrize("change", [set_scalar("agents", ["stranger"]), set_scalar("iteration", 10**6)])
def test_a_holder_that_asks_strangers_or_ends_nowhere_is_named(tmp_path: Path, change: Any) -> None:
    settings = own_data_config(tmp_path, write_world(tmp_path / "files", holder="bank"), residual__algorithm="average")
    rounds = learn(settings)[0].rounds
    number = 2 if change.__closure__[0].cell_contents == "agents" else rounds
    told = outcome_of(settings, 3, tamper=forging(0, number, 1 if number == 2 else 0, change)).text
    assert "bank" in told


def test_a_holder_that_forges_how_well_sites_predict_alone_is_named(tmp_path: Path) -> None:
    settings = own_data_config(
        tmp_path, write_world(tmp_path / "files", holder="bank"), residual__algorithm="average",
        residual__baselines=True,
    )  # fmt: skip
    rounds = learn(settings)[0].rounds
    for value in (np.zeros((2, 3)), np.full((3, 3), -1.0)):
        told = outcome_of(settings, 3, tamper=forging(0, rounds, 0, set_array("alone_errors", value))).text
        assert "alone_errors" in told
