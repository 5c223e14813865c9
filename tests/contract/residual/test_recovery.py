"""Residual with sites that are down for a while, files that change, agents without a part; and predictions later."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Message, RecordDict

import clients.dispatch
from clients.app import app as client_app
from clients.residual.model_store import restore
from numerics.residual.rules import LARGEST_OUTCOME, MOST_ROUNDS
from protocols.residual.payloads import Fit, Pass, Try
from protocols.wire.payload import Payload
from strategies.residual import from_config
from tests.support.grid import Tamper, config, prediction_config
from tests.support.parameters import few
from tests.support.residual_sites import (
    COLUMNS,
    N,
    customers,
    deployed_sites,
    learn,
    own_data_config,
    same_learning,
    write_world,
)
from tests.support.runs import outcome_of
from tests.support.tampering import silent

BANK, SHOP, TELECOM = range(3)
UNKEPT = "did not confirm that they stored a model"


pytestmark = pytest.mark.usefixtures("quick")


@contextmanager
def down(place: int, rounds: Iterable[int]) -> Iterator[Tamper]:
    """The site gets nothing of what it is sent in these rounds; `contract.silent` loses its answers only."""
    lost = set(rounds)

    def app(message: Message, context: Any) -> Message:
        if context.node_id == 1000 + 7 * place and int(message.metadata.group_id) in lost:
            return Message(RecordDict(), reply_to=message)
        reply = client_app(message, context)
        assert reply is not None
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("consilience.local_engine.grid.client_app", app)
        yield silent(place, lost)


def later(settings: Mapping[str, Any], path: Path, nodes: Any = 3, **changes: Any) -> Any:
    """The report of a run that predicts by the models of an earlier one; all sites must answer."""
    return learn({**prediction_config(settings, path), "min-sites": 3, **changes}, nodes)[0]


# -- agents without a part --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", few(["greedy", "sip"]))
@pytest.mark.parametrize("holder", few(["", "bank", "telecom"], 2))
def test_an_agent_without_a_step_predicts_nothing_and_is_not_missed(
    tmp_path: Path, algorithm: str, holder: str
) -> None:
    columns = {"bank": ("f",), "shop": ("c",), "telecom": ("e",)}
    folder = write_world(tmp_path / "files", columns=columns, holder=holder)
    settings = own_data_config(tmp_path, folder, residual__algorithm=algorithm, residual__rounds=1)
    report, arrays, path = learn(settings)
    assert arrays["beta"].sum() == 1
    assert not any(UNKEPT in note for note in report.notes)
    for name, beta in zip(columns, arrays["beta"], strict=True):
        kept = restore((path / "sites" / name / "models" / f"{report.session}.skops").read_bytes())
        assert len(kept["models"]) == beta
    again = later(settings, path)
    assert again.metrics["n_predicted"] == N
    assert not again.missing
    assert not any("gave no part" in note for note in again.notes)


@pytest.mark.parametrize("algorithm", few(["boosted", "parallel", "greedy", "sip", "meta-linear", "meta-boosting"], 2))
@pytest.mark.parametrize("holder", few(["bank", ""]))
def test_an_outcome_that_never_varies_is_predicted(tmp_path: Path, algorithm: str, holder: str) -> None:
    folder = write_world(tmp_path / "files", people=customers().assign(y=4.0), holder=holder)
    settings = own_data_config(tmp_path, folder, residual__algorithm=algorithm, residual__power="1", residual__rounds=3)
    again = later(settings, learn(settings)[2])
    assert again.metrics["n_predicted"] == N
    assert again.metrics.get("test_mse", 0.0) == pytest.approx(0, abs=1e-25)


@pytest.mark.parametrize("topology", ["center", "ring"])
def test_who_holds_the_outcome_alone_sums_up_predictions(tmp_path: Path, topology: str) -> None:
    columns = {"bank": (), "shop": ("c",), "telecom": ("d", "e")}
    folder = write_world(tmp_path / "files", columns=columns, holder="bank")
    settings = own_data_config(tmp_path, folder, residual__topology=topology)
    report, _, path = learn(settings)
    assert report.metrics["n_agents"] == 2
    pd.read_csv(folder / "bank.csv")[["customer"]].to_csv(folder / "bank.csv", index=False)
    again = later(settings, path)
    assert not again.missing
    assert again.metrics["n_predicted"] == N


@pytest.mark.parametrize("holder", ["", "bank"])
def test_a_column_that_the_model_does_not_take_may_have_gaps(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder)
    path = learn(settings)[2]
    shop = pd.read_csv(folder / "shop.csv")
    shop.assign(since=np.where(np.arange(N) % 3, 1.0, np.nan)).to_csv(folder / "shop.csv", index=False)
    again = later(settings, path)
    assert not again.missing
    assert again.metrics["n_predicted"] == N


# -- down for a while -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("holder", "lost"), [("", [5, 6, 7]), ("bank", [5, 7, 9])])
def test_who_was_asked_no_more_is_asked_to_keep_its_model(tmp_path: Path, holder: str, lost: list[int]) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder, residual__algorithm="parallel", residual__power="1")
    report, arrays, path = learn(settings, tamper=silent(SHOP, lost))
    assert [line.split(":")[0] for line in report.missing["shop"]] == [f"round {number}" for number in lost]
    assert arrays["beta"][SHOP] != 0
    assert not any(UNKEPT in note for note in report.notes)
    again = later(settings, path)
    if not holder:
        n_test = report.metrics["n_test"]
        expected = (report.metrics["train_mse"] * (N - n_test) + report.metrics["test_mse"] * n_test) / N
        assert again.metrics["test_mse"] == pytest.approx(expected, rel=1e-9)
    assert not any("gave no part" in note for note in again.notes)


@pytest.mark.parametrize(
    ("holder", "topology", "place"),
    few(
        [
            ("", "center", SHOP),
            ("bank", "center", SHOP),
            ("", "ring", SHOP),
            ("bank", "ring", SHOP),
            ("bank", "ring", BANK),
        ],
        2,
    ),
)
def test_who_was_down_when_models_were_kept_is_asked_once_more(
    tmp_path: Path, holder: str, topology: str, place: int
) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder, residual__topology=topology)
    whole = learn(settings)
    end = whole[0].rounds - (holder != "" and topology == "center")  # the holder has the last word
    with down(place, [end]) as tamper:
        report, arrays, path = learn(settings, tamper=tamper)
    same_learning((report, arrays), whole[:2])
    assert report.rounds > whole[0].rounds
    assert not any(UNKEPT in note for note in report.notes)
    assert later(settings, path).metrics["n_predicted"] == N


@pytest.mark.parametrize(("holder", "topology"), few([("", "center"), ("", "ring"), ("bank", "ring")], 2))
@pytest.mark.parametrize("place", few([SHOP, BANK]))
def test_an_answer_that_is_lost_at_the_end_is_given_again(
    tmp_path: Path, holder: str, topology: str, place: int
) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder, residual__topology=topology)
    end = learn(settings)[0].rounds
    report, _, path = learn(settings, tamper=silent(place, [end]))
    assert len(report.missing[list(COLUMNS)[place]]) == 1
    assert not any(UNKEPT in note for note in report.notes)
    assert later(settings, path).metrics["n_predicted"] == N


def test_the_holder_of_a_ring_without_columns_is_asked_once_more_too(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", columns={"bank": (), "shop": ("c",), "telecom": ("d",)}, holder="bank")
    settings = own_data_config(tmp_path, folder, residual__topology="ring")
    end = learn(settings)[0].rounds
    report, _, path = learn(settings, tamper=silent(BANK, [end]))
    assert report.rounds == end + 1
    assert not any(UNKEPT in note for note in report.notes)
    report = learn(settings, tamper=silent(BANK, [end, end + 1]))[0]
    assert any(note.startswith(f"bank: {UNKEPT}") for note in report.notes)
    assert later(settings, path).metrics["n_predicted"] == N


@pytest.mark.parametrize(("holder", "topology"), few([("", "center"), ("bank", "center"), ("bank", "ring")], 2))
def test_who_has_not_kept_its_model_is_named(tmp_path: Path, holder: str, topology: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder, residual__topology=topology)
    end = learn(settings)[0].rounds - (holder != "" and topology == "center")
    with down(SHOP, range(end, end + 4)) as tamper:
        report, _, path = learn(settings, tamper=tamper)
    assert any(note.startswith(f"shop: {UNKEPT}") for note in report.notes)
    again = learn(prediction_config(settings, path))[0]
    assert any(note.startswith("shop: gave no part of the prediction") for note in again.notes)


@pytest.mark.parametrize("holder", ["", "bank"])
def test_sites_without_a_place_to_keep_models_in_are_named_and_asked_once(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings, nodes = deployed_sites(tmp_path, folder, holder=holder)
    rounds = learn(settings, nodes)[0].rounds
    for node in nodes:
        del node["site-output-dir"]
    report = learn(settings, nodes)[0]
    assert any(note.startswith(f"bank, shop, telecom: {UNKEPT}") for note in report.notes)
    assert report.rounds == rounds


@pytest.mark.parametrize(
    ("holder", "changes"),
    few(
        [
            ("", {"residual__algorithm": "parallel", "residual__power": "1"}),
            ("", {"residual__algorithm": "greedy"}),
            ("", {"residual__algorithm": "sip"}),
            ("", {"residual__topology": "ring"}),
            ("bank", {"residual__algorithm": "parallel", "residual__power": "1"}),
            ("bank", {"residual__topology": "ring"}),
        ],
        3,
    ),
)
def test_who_is_down_when_the_order_is_told_joins(tmp_path: Path, holder: str, changes: dict[str, Any]) -> None:
    """As if only its answer of that round had been lost, where it was asked for one."""
    settings = own_data_config(tmp_path, write_world(tmp_path / "files", holder=holder), **changes)
    expected = learn(settings, tamper=silent(SHOP, [2]))
    with down(SHOP, [2]) as tamper:
        report, arrays, path = learn(settings, tamper=tamper)
    same_learning((report, arrays), expected[:2])
    assert [line.split(":")[0] for line in report.missing["shop"]] == ["round 2"]
    assert arrays["beta"][SHOP] != 0
    assert later(settings, path).metrics["n_predicted"] == N


@pytest.mark.parametrize("shrinkage", few([1.0, 0.5]))
@pytest.mark.parametrize("lost", few([2, 5]))
def test_a_late_answer_counts_once_in_the_ring(tmp_path: Path, shrinkage: float, lost: int) -> None:
    """bank has taken its step, and nobody knows: what it added to its sum is taken out again."""
    folder = write_world(tmp_path / "files")
    found = []
    for topology in ("center", "ring"):
        settings = own_data_config(tmp_path, folder, residual__topology=topology, residual__shrinkage=shrinkage)
        found.append(learn(settings, tamper=silent(BANK, [lost])))
    same_learning(found[1][:2], found[0][:2], but=("power", "reach"))
    np.testing.assert_allclose(found[1][1]["power"], found[0][1]["power"], rtol=1e-12)


def test_one_lost_answer_does_not_end_a_ring_of_one(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", columns={"bank": (), "shop": ("c", "d")}, holder="bank")
    settings = own_data_config(tmp_path, folder, residual__topology="ring", residual__shrinkage=0.5, residual__rounds=6)
    whole = learn(settings, 2)
    found = learn(settings, 2, tamper=silent(1, [4]))
    assert len(found[1]["curve_train"]) == 7
    same_learning(found[:2], whole[:2])


# -- files that change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"residual__algorithm": "parallel", "residual__power": "1"}, {}])
def test_a_file_written_anew_during_a_run_is_not_used(tmp_path: Path, changes: dict[str, Any]) -> None:
    """In another order of rows, its numbers would stand for other entities; the site counts as silent from then on."""
    folder = write_world(tmp_path / "files")
    settings = own_data_config(tmp_path, folder, **changes)
    expected = learn(settings, tamper=silent(SHOP, range(5, 100)))

    def nightly(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (TELECOM, 4):  # the last to answer in that round
            pd.read_csv(folder / "shop.csv").sort_values("c").to_csv(folder / "shop.csv", index=False)
        return reply

    report, arrays, _ = learn(settings, tamper=nightly)
    same_learning((report, arrays), expected[:2])
    assert all("[data-changed]" in line for line in report.missing["shop"])
    assert any(note.startswith(f"shop: {UNKEPT}") for note in report.notes)


def test_an_order_told_again_does_not_take_the_changed_rows_for_the_agreed_ones(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files")

    def tamper(place: int, number: int, reply: Message) -> Message | None:
        if (place, number) != (SHOP, 2):
            return reply
        pd.read_csv(folder / "shop.csv").sort_values("c").to_csv(folder / "shop.csv", index=False)
        return None

    report, arrays, _ = learn(own_data_config(tmp_path, folder), tamper=tamper)
    assert any("[data-changed]" in line for line in report.missing["shop"])
    assert arrays["beta"][SHOP] == 0


def test_outcomes_that_change_end_the_run_of_their_holder(tmp_path: Path) -> None:
    """Or rows that were cut off."""
    for place, change in enumerate((lambda frame: frame.assign(y=frame["y"][::-1].values), lambda frame: frame[:50])):
        folder = write_world(tmp_path / str(place), holder="bank")

        def tamper(at: int, number: int, reply: Message, folder: Path = folder, change: Any = change) -> Message:
            if number == 2:
                change(pd.read_csv(folder / "bank.csv")).to_csv(folder / "bank.csv", index=False)
            return reply

        settings = own_data_config(tmp_path, folder, residual__algorithm="greedy")
        told = outcome_of(settings, 3, tamper=tamper).refusal
        assert told.startswith(
            "bank, which holds the outcome, gave no answer that could be used: the run cannot go on without it (bank: "
        )
        assert told.endswith("[data-changed])")


# -- refused in one line ----------------------------------------------------------------------------------------------


def test_a_prediction_is_made_once(tmp_path: Path) -> None:
    settings = own_data_config(tmp_path, write_world(tmp_path / "files"), residual__rounds=2)
    path = learn(settings)[2]
    told = outcome_of(prediction_config(settings, path, repetitions=2), 3).refusal
    assert told == "repetitions: there is one prediction of a row; leave it out"


@pytest.mark.parametrize(("scale", "precision"), [(1e45, "float64"), (1e39, "float32"), (-1e16, "float64")])
def test_outcomes_without_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture, scale: float, precision: str) -> None:
    large = customers().assign(y=scale * customers()["y"])
    settings = own_data_config(tmp_path, write_world(tmp_path / "files", people=large), residual__precision=precision)
    told = outcome_of(settings, 3).refusal
    assert told == f"the outcomes go beyond {LARGEST_OUTCOME:g}: give them in another unit"
    settings = own_data_config(
        tmp_path, write_world(tmp_path / "held", people=large, holder="bank"), residual__precision=precision
    )
    with caplog.at_level(logging.WARNING, "flwr"):
        told = outcome_of(settings, 3).refusal
    assert told.startswith("bank, which holds the outcome, gave no answer that could be used")
    assert "[not-finite]" in caplog.text


@pytest.mark.parametrize("leaf", ["abc", 0, -2, 2.5, True])
def test_a_leaf_that_is_no_number_of_rows_is_told_at_once(tmp_path: Path, leaf: object) -> None:
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files"))
    nodes[SHOP]["min-leaf"] = leaf
    report = learn(settings, nodes)[0]
    assert all("[bad-configuration]" in line for line in report.missing["shop"])
    assert report.missing["shop"][0].startswith("round 2: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("residual.shrinkage", 1e-12), ("residual.ridge", 1e10), ("residual.validation", 1e-12),
        ("residual.patience", 10**10), ("residual.rounds", MOST_ROUNDS + 1), ("residual.steps", MOST_ROUNDS),
    ],
)  # fmt: skip
def test_what_a_holder_would_refuse_is_refused_by_the_center(tmp_path: Path, key: str, value: object) -> None:
    folder = write_world(tmp_path / "files", holder="bank")
    told = outcome_of({**own_data_config(tmp_path, folder), key: value}, 3).refusal
    assert key in told


def test_powers_are_tried_from_the_smallest(tmp_path: Path) -> None:
    """Of equal ones the first is chosen."""
    strategy = from_config(
        config(tmp_path, protocol="residual", residual__algorithm="parallel", residual__powers="5 1 3 1")
    )
    assert strategy.rules.powers == (1.0, 3.0, 5.0)


@pytest.mark.parametrize("refit", few([True, False]))
@pytest.mark.parametrize(
    "changes",
    few([{"residual__algorithm": "sip"}, {"residual__algorithm": "greedy"}, {"residual__topology": "ring"}], 2),
)
def test_steps_are_kept_of_the_course_that_counts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], refit: bool
) -> None:
    """Of that which only looks for the end, nothing is written."""
    original, seen = clients.dispatch.handler_of, []

    def recording(kind: type[Payload]) -> Any:
        def handler(payload: Any, site: Any) -> Payload:
            if isinstance(payload, Fit | Try | Pass):
                fitted = payload.target if isinstance(payload, Fit) else getattr(payload, "residual", ())
                rows = payload.n_fit if isinstance(payload, Pass) else len(fitted)
                seen.append((rows, payload.keep))
            return original(kind)(payload, site)

        return handler

    monkeypatch.setattr(clients.dispatch, "handler_of", recording)
    chosen = {"residual__stop": "held-out", "residual__validation": 0.25, "residual__refit": refit, **changes}
    report, _, _ = learn(own_data_config(tmp_path, write_world(tmp_path / "files"), **chosen), fresh=True)
    assert report.metrics["iterations"] > 0
    n_learn = N - int(report.metrics["n_test"])
    by_rows = {rows: {keep for at, keep in seen if at == rows} for rows, _ in seen}
    looked = n_learn - round(0.25 * n_learn)
    assert by_rows == ({looked: {False}, n_learn: {True}} if refit else {looked: {True}})
