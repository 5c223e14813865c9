"""What leaves a site of Gaussian process experts and what does not, whatever the center asks; what the center takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from numerics.gp.gates.network import Network
from protocols.gp.payloads import (
    LARGEST,
    MOST_ANSWERS,
    MOST_CANDIDATES,
    MOST_LANDMARKS,
    MOST_SHARED,
    NO_VALUE,
    Calibrate,
    Disclose,
    Errors,
    Evaluate,
    Inputs,
    Likelihood,
    Moments,
    Predict,
    PredictAlone,
    Predictions,
    Residuals,
    Rows,
    Share,
    Slope,
    Survey,
    Train,
    Validate,
)
from protocols.gp.settings import MOST_TRIED, Settings
from protocols.wire.faults import Fault
from protocols.wire.payload import Payload, decode_array
from server.results import load
from tests.support.gp_sites import (
    FEATURES,
    SITES,
    TARGET,
    agreed_fields,
    ask,
    assert_refused,
    context_of,
    deployed_sites,
    forgery,
    gate_settings,
    later_config,
    own_data_config,
    points,
    predict,
    rows_of,
    site_at,
    site_of,
    soundings,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.parameters import few
from tests.support.runs import outcome_of
from tests.support.tampering import silent

DELTA = 1
CANARY = {"east": 12_345.678901234567, "depth": 2.3456789012345678, TARGET: 333.44455566677788}
"""A row that nobody else has."""
UNUSED = "canary-operator-5c1"

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


# -- every byte that crosses ------------------------------------------------------------------------------------------


def numbers_of(contents: Iterable[RecordDict]) -> np.ndarray:
    """Every floating-point number that crossed."""
    found = [
        np.ravel(decode_array(array))
        for content in contents
        for records in content.array_records.values()
        for array in records.values()
    ]
    return np.unique(np.concatenate([each.astype(np.float64) for each in found if each.dtype.kind == "f"]))


def seen(rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Which of these coordinates crossed, to the accuracy of a double."""
    place = np.clip(np.searchsorted(numbers, rows), 1, len(numbers) - 1)
    near = np.minimum(np.abs(numbers[place] - rows), np.abs(numbers[place - 1] - rows))
    return np.asarray(near <= 1e-12 * np.abs(rows))


@pytest.mark.parametrize(
    "changes", [{}, {"gp__gate": "dnn", "gp__gate_rounds": 3}, {"gp__aggregation": "rbcm"}, {"gp__gate": "ggm"},
                {"gp__max_expert_rows": 20}],
)  # fmt: skip
def test_no_row_crosses_or_is_kept_at_the_center(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Not one coordinate and not one output of any row, in whatever units, in whatever message."""
    frame = soundings().copy()
    frame.loc[3, list(CANARY)] = list(CANARY.values())
    frame["operator"] = UNUSED
    parts = split_over_sites(frame)
    settings, nodes = deployed_sites(tmp_path, write_files(tmp_path / "files", parts), **changes)
    found = predict(settings, [{**node, "min-rows": 5} for node in nodes])
    assert not found.report.missing
    contents = [content for _, content in found.crossed]
    numbers = numbers_of(contents)
    names = [*FEATURES, TARGET]
    rows = frame[names].to_numpy()
    mean = np.append(found.arrays["input_mean"], found.arrays["output_mean"])
    scale = np.append(found.arrays["input_scale"], found.arrays["output_scale"])
    assert not seen(rows.ravel(), numbers).any()
    assert not seen(((rows - mean) / scale).ravel(), numbers).any()
    kept = np.sort(np.concatenate([np.ravel(a) for a in found.arrays.values() if a.dtype.kind == "f"]))
    assert not seen(rows.ravel(), kept).any()
    crossed = b"".join(each.deflate() for content in contents for each in get_all_nested_objects(content).values())
    stored = b"".join(path.read_bytes() for path in found.path.rglob("*") if path.is_file())
    assert b"delta" in crossed
    assert b"east" in crossed
    for text in (UNUSED, "operator", *frame["well"][:20], *(repr(value) for value in CANARY.values())):
        assert text.encode() not in crossed
        assert text.encode() not in stored


def test_what_is_disclosed_on_consent_is_seen(tmp_path: Path, folder: Path) -> None:
    """The search above finds what is there: inputs without outputs, and the rows of a communication expert."""
    for changes, outputs in [({"gp__covariance": "inputs"}, 0), ({"gp__aggregation": "grbcm"}, 24)]:
        settings, nodes = deployed_sites(tmp_path / str(outputs), folder, **changes)
        found = predict(settings, nodes)
        raw = soundings()[[*FEATURES, TARGET]].to_numpy()
        mean = np.append(found.arrays["input_mean"], found.arrays["output_mean"])
        scale = np.append(found.arrays["input_scale"], found.arrays["output_scale"])
        crossed = seen(((raw - mean) / scale).ravel(), numbers_of(c for _, c in found.crossed)).reshape(raw.shape)
        assert crossed[:, 0].sum() == (outputs or len(raw))
        assert crossed[:, 2].sum() == outputs
        told = "all sites got rows of coast, delta, hills, plain" if outputs else "sites disclosed the inputs"
        assert any(note.startswith(told) for note in found.report.notes)


@pytest.mark.parametrize("changes", [{"gp__covariance": "inputs"}, {"gp__aggregation": "grbcm"}])
def test_nothing_is_disclosed_where_nothing_is_predicted(tmp_path: Path, folder: Path, changes: dict[str, Any]) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    found = predict({**settings, "gp.queries": ""}, nodes)
    assert not [*found.said(Share), *found.said(Disclose), *found.said(Predict)]
    assert found.metrics["fit_rounds"] == found.report.rounds - 1 - any(found.said(Calibrate))


# -- consent ----------------------------------------------------------------------------------------------------------

PROTECTED: dict[str, tuple[dict[str, Any], str, type[Payload]]] = {
    "allow-inputs": (
        {"gp__covariance": "inputs"}, "without the experts of delta, which disclose no inputs (allow-inputs)", Inputs
    ),
    "allow-rows": ({"gp__aggregation": "grbcm"}, "all sites got rows of coast, hills, plain", Rows),
    "allow-gate-training": (
        gate_settings("dnn"), "the gate was trained without the rows of delta (allow-gate-training)", Slope
    ),
}  # fmt: skip
"""By key what needs it, what is said of a run without it at one site, and what that site then does not answer."""


@pytest.mark.parametrize("key", PROTECTED)
def test_a_real_site_gives_nothing_away_without_consent(tmp_path: Path, folder: Path, key: str) -> None:
    """It is not asked for it, and fails nothing else; the others go on without."""
    changes, note, answer = PROTECTED[key]
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    del nodes[DELTA][key]
    found = predict(settings, nodes)
    assert not found.report.missing
    assert {heard.site for heard in found.heard(answer)} == {"coast", "hills", "plain"}
    assert {heard.site for heard in found.heard(Likelihood)} == set(SITES)
    assert any(line.startswith(note) for line in found.report.notes)
    assert np.isfinite(found.arrays["mean"]).all()
    # The run's configuration is the center's, and consents to nothing.
    assert f"unknown key '{key}'" in outcome_of({**settings, key: True}, nodes).refusal


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("allow-inputs", "gp.covariance=inputs needs the inputs of rows, and no site discloses them: set allow-inputs"),
        (
            "allow-rows",
            "gp.aggregation=grbcm needs rows for a communication expert, and no site shares any",
        ),
    ],
)
def test_where_no_site_consents_the_run_ends_in_one_line(tmp_path: Path, folder: Path, key: str, line: str) -> None:
    changes, _, _ = PROTECTED[key]
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    unwilling = [{**node, key: False} for node in nodes]
    assert outcome_of(settings, unwilling).refusal.startswith(line)
    # A saved model does not know what a site is willing to do: it asks, and is refused.
    before = predict({**settings, "output-dir": str(tmp_path / "before")}, nodes)
    told = outcome_of(later_config(settings, before.path), unwilling).refusal
    assert f"set {key}=true in its node configuration" in told


@pytest.mark.parametrize("key", ["allow-inputs", "allow-rows"])
def test_a_saved_model_does_not_know_who_is_willing(tmp_path: Path, folder: Path, key: str) -> None:
    """It asks everybody, and goes on with those that consent."""
    changes, _, answer = PROTECTED[key]
    settings, nodes = deployed_sites(tmp_path, folder, **changes)
    before = predict({**settings, "output-dir": str(tmp_path / "before")}, nodes)
    nodes[DELTA][key] = False
    found = predict(later_config(settings, before.path), nodes)
    assert {heard.site for heard in found.heard(answer)} == {"coast", "hills", "plain"}
    assert not any("delta" in note and "shown" in note for note in found.report.notes)
    assert "-not-allowed]" in found.report.missing["delta"][0]


def test_a_network_that_one_site_teaches_is_a_gate_all_the_same(tmp_path: Path, folder: Path) -> None:
    """It begins with what the moments say, which goes on standing for all others; where none teaches it, for all."""
    settings, nodes = deployed_sites(tmp_path, folder, gp__gate="dnn")
    unwilling = [{**node, "allow-gate-training": False} for node in nodes]
    for teachers in (1, 0):
        found = predict(settings, [*nodes[:teachers], *unwilling[teachers:]])
        assert {heard.site for heard in found.heard(Slope)} == set(SITES[:teachers])
        assert not found.report.missing
        assert found.metrics["smse"] < 0.1


@pytest.mark.parametrize("key", PROTECTED)
@pytest.mark.parametrize("bad", ["false", 1])
def test_consent_is_true_or_false(tmp_path: Path, folder: Path, key: str, bad: Any) -> None:
    """Else the site says so before anything else, whether the run would need it or not."""
    changes, _, _ = PROTECTED[key]
    for needed in (changes, {}):
        settings, nodes = deployed_sites(tmp_path, folder, gp__fit_rounds=1, **needed)
        nodes[DELTA][key] = bad
        found = predict(settings, nodes)
        [line] = found.report.missing["delta"]
        assert line.startswith("round 1: ")
        assert line.endswith("[bad-configuration]")
        assert "delta" not in found.arrays["expert_site"].tolist()


def asks_that_disclose() -> list[tuple[Payload, Fault]]:
    return [
        (Share(**agreed_fields(), rows=3), Fault.ROWS_NOT_ALLOWED),
        (Disclose(**agreed_fields()), Fault.INPUTS_NOT_ALLOWED),
        (trained(), Fault.GATE_NOT_ALLOWED),
    ]


def test_every_ask_for_more_is_refused_by_a_site_that_says_nothing(tmp_path: Path) -> None:
    consents = dict.fromkeys(PROTECTED, False)
    for payload, fault in asks_that_disclose():
        assert_refused(site_of(tmp_path, **consents), payload, fault)
        assert ask(site_of(tmp_path, **dict.fromkeys(PROTECTED, True)), payload)


# -- how much a site says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "rows", "takes_part"), [(None, 10, True), (None, 9, False), (30, 29, False), (2, 3, True)]
)
def test_too_few_rows_take_no_part(tmp_path: Path, least: int | None, rows: int, takes_part: bool) -> None:
    """Ten where a site says nothing; a scenario's site may have fewer."""
    parts = split_over_sites(soundings())
    parts["delta"] = parts["delta"][:rows]
    folder = write_files(tmp_path / "files", parts)
    settings, nodes = deployed_sites(tmp_path / "real", folder)
    if least is not None:
        nodes[DELTA]["min-rows"] = least
    found = predict(settings, nodes)
    assert ("delta" in found.arrays["expert_site"].tolist()) is takes_part
    if not takes_part:
        assert found.report.missing["delta"][0].endswith("[few-rows-for-expert]")
    assert "delta" in predict(own_data_config(tmp_path / "simulated", folder)).arrays["expert_site"].tolist()


def test_a_center_cannot_have_a_site_split_into_experts_of_few_rows(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, gp__max_expert_rows=4, gp__local=0)
    told = outcome_of(settings, nodes).text
    assert "[few-rows-for-expert]" in told
    assert_refused(site_of(tmp_path), Survey(2, "se", fit=False), Fault.FEW_ROWS_FOR_EXPERT)


def test_the_rows_left_out_for_an_outlier_are_min_rows(tmp_path: Path) -> None:
    """Moments with and without them, of two runs, differ by the sums over so many rows."""
    parts = {site: frame.copy() for site, frame in split_over_sites(soundings()).items()}
    frame = parts[SITES[0]]
    clean = write_files(tmp_path / "clean" / "files", parts).parent
    frame.loc[frame.index[3], TARGET] = 1e6
    dirty = write_files(tmp_path / "dirty" / "files", parts).parent
    survey = Survey(2000, "se", fit=False, robust=True)
    moments = ask(site_of(dirty), survey)
    assert (moments.left_out, moments.counts.sum()) == (10, len(frame) - 10)
    assert moments.y_variances[0] < 1e4
    assert ask(site_of(clean), survey).left_out == 0


def test_a_site_that_splits_its_rows_leaves_no_outlier_out_of_an_expert(tmp_path: Path) -> None:
    frame = soundings(90)
    frame.loc[3, TARGET] = 1e4
    site = site_of(write_files(tmp_path / "files", {SITES[0]: frame}).parent)
    counts = [ask(site, Survey(60, "se", fit=False, robust=robust)).counts.tolist() for robust in (False, True)]
    assert counts[0] == counts[1]
    assert len(counts[0]) > 1


def test_a_small_site_with_an_outlier_takes_part_with_all_rows(tmp_path: Path) -> None:
    frame = soundings().iloc[:15].copy()
    frame.loc[frame.index[3], TARGET] = 1e6
    site = site_of(write_files(tmp_path / "files", {SITES[0]: frame}).parent)
    moments = ask(site, Survey(2000, "se", fit=False, robust=True))
    assert (moments.left_out, moments.counts.tolist()) == (0, [15])


@pytest.mark.parametrize("key", ["min-rows", "max-queries"])
@pytest.mark.parametrize("bad", [0, 2.5, "many"])
def test_a_limit_that_is_none_costs_its_site(tmp_path: Path, folder: Path, key: str, bad: Any) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, gp__fit_rounds=1)
    nodes[DELTA][key] = bad
    found = predict(settings, nodes)
    assert any("[bad-configuration]" in line for line in found.report.missing["delta"])


def test_a_site_answers_so_many_points_in_a_run(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, gp__gate="all")
    answers = len(points()) * (1 + Settings().n_landmarks(2))
    enough = predict(settings, [{**node, "max-queries": answers} for node in nodes])
    assert not enough.report.missing
    nodes[DELTA]["max-queries"] = answers - 1
    found = predict(settings, nodes)
    assert found.report.missing["delta"][0].endswith("[too-many-queries]")
    assert found.metrics["n_dropped"] == 1


# -- one site, asked by a center that means ill -----------------------------------------------------------------------

THETA = np.log([1.0, 1.0, 1.0, 0.3])


def evaluated(**changes: Any) -> Evaluate:
    return replace(Evaluate(**agreed_fields(), kernel="se", thetas=THETA[np.newaxis]), **changes)


def calibrated(**changes: Any) -> Calibrate:
    return replace(Calibrate(**agreed_fields(), kernel="se", theta=THETA), **changes)


def validated(**changes: Any) -> Validate:
    return replace(Validate(**agreed_fields(), kernel="se", thetas=THETA[np.newaxis]), **changes)


def predicted(**changes: Any) -> Predict:
    """At three points, with two landmarks, and without shared rows."""
    honest = Predict(
        **agreed_fields(),
        kernel="se",
        theta=THETA,
        points=(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),),
        landmarks=2,
        seed=0,
        varies=np.ones(2, bool),
        shared_rows=0,
        shared_x=np.zeros((0, 2)),
        shared_y=np.zeros(0),
    )
    return replace(honest, **changes)


def predicted_alone(**changes: Any) -> PredictAlone:
    """Eight test points in two groups."""
    points = np.random.default_rng(0).normal(size=(8, 2))
    return replace(
        PredictAlone(**agreed_fields(), kernel="se", points=points, outputs=np.zeros(8), groups=2), **changes
    )


def trained(**changes: Any) -> Train:
    """As the first of three sites."""
    weights = np.zeros(Network(2, 3, 5).size)
    honest = Train(**agreed_fields(), hidden=5, n_experts=3, experts=np.array([0]), weights=weights)
    return replace(honest, **changes)


MALFORMED: dict[str, Callable[[], Payload]] = {
    "an expert of no row": lambda: Survey(0, "se", fit=False),
    "hardly any nearest rows": lambda: Survey(20, "se", fit=False, local=3),
    "less than no nearest row": lambda: Survey(20, "se", fit=False, local=-1),
    "shared rows for an expert of nearest rows": lambda: predicted(
        max_rows=20, local=50, shared_x=np.zeros((1, 2)), shared_y=np.zeros(1)
    ),
    "no kernel": lambda: Survey(2000, "banana", fit=True),
    "a kernel that is a program": lambda: Survey(2000, "__import__('os').system('true')", fit=False),
    "units of other inputs": lambda: evaluated(mean=np.zeros(3), scale=np.ones(3)),
    "a unit of nothing": lambda: evaluated(scale=np.array([0.0, 1.0])),
    "a negative unit": lambda: predicted(scale=-np.ones(2)),
    "an output's unit of nothing": lambda: evaluated(y_scale=0.0),
    "a negative unit of outputs": lambda: predicted(y_scale=-1.0),
    "no candidate": lambda: evaluated(thetas=np.zeros((0, 4))),
    "too many candidates": lambda: evaluated(thetas=np.tile(THETA, (MOST_CANDIDATES + 1, 1))),
    "hyperparameters of another kernel": lambda: evaluated(thetas=THETA[np.newaxis, :3]),
    "more hyperparameters": lambda: predicted(theta=np.append(THETA, 0.0)),
    "lengths of almost nothing": lambda: predicted(theta=THETA - [20, 0, 0, 0]),
    "noise of almost nothing": lambda: predicted(theta=THETA - [0, 0, 0, 20]),
    "a candidate with noise of almost nothing": lambda: evaluated(thetas=np.stack([THETA, THETA - [0, 0, 0, 20]])),
    "another kernel than there is": lambda: predicted(kernel="nothing"),
    "no candidate to validate": lambda: validated(thetas=np.zeros((0, 4))),
    "too many candidates to validate": lambda: validated(thetas=np.tile(THETA, (MOST_CANDIDATES + 1, 1))),
    "residuals of other hyperparameters": lambda: calibrated(theta=THETA[:3]),
    "residuals of almost no noise": lambda: calibrated(theta=THETA - [0, 0, 0, 20]),
    "points of other inputs": lambda: predicted(points=(np.zeros((3, 3)),)),
    "points beyond all measure": lambda: predicted(points=(np.full((1, 2), 1e60),)),
    "points for more experts": lambda: predicted(points=(np.zeros((1, 2)), np.zeros((1, 2)))),
    "points for no expert": lambda: predicted(points=()),
    "landmarks of other inputs": lambda: predicted(varies=np.ones(3, bool)),
    "landmarks of no seed": lambda: predicted(seed=-1),
    "less than no landmark": lambda: predicted(landmarks=-1),
    "answers about no landmark": lambda: predicted(landmarks=0, joint=True),
    "answers about too many landmarks": lambda: predicted(landmarks=MOST_ANSWERS + 1, joint=True),
    "too many landmarks": lambda: predicted(landmarks=MOST_LANDMARKS + 1),
    "test points of other inputs": lambda: predicted_alone(points=np.zeros((8, 3))),
    "test points beyond all measure": lambda: predicted_alone(points=np.full((8, 2), 1e60)),
    "test outputs beyond all measure": lambda: predicted_alone(outputs=np.full(8, 1e60)),
    "test points without outputs": lambda: predicted_alone(outputs=np.zeros(0)),
    "the error at a single test point": lambda: predicted_alone(groups=8),
    "far too many groups of test points": lambda: predicted_alone(
        points=np.zeros((400, 2)), outputs=np.zeros(400), groups=100
    ),
    "shared rows of other inputs": lambda: predicted(shared_x=np.zeros((1, 3)), shared_y=np.zeros(1)),
    "shared rows beyond all measure": lambda: predicted(shared_x=np.full((1, 2), 1e60), shared_y=np.zeros(1)),
    "shared outputs beyond all measure": lambda: predicted(shared_x=np.zeros((1, 2)), shared_y=np.full(1, 1e60)),
    "less than no shared row": lambda: predicted(shared_rows=-1),
    "far too many shared rows": lambda: predicted(
        shared_x=np.zeros((MOST_SHARED + 1, 2)), shared_y=np.zeros(MOST_SHARED + 1)
    ),
    "less than no row to share": lambda: Share(**agreed_fields(), rows=-1),
    "more than half of the rows to share": lambda: Share(**agreed_fields(), rows=16),
    "a network of no experts": lambda: trained(n_experts=0),
    "a network of far too many experts": lambda: trained(n_experts=10**9),
    "a network without hidden units": lambda: trained(hidden=0),
    "a network of far too many hidden units": lambda: trained(hidden=10**9),
    "weights of another network": lambda: trained(weights=np.zeros(7)),
    "an expert beyond the last": lambda: trained(experts=np.array([3])),
    "an expert before the first": lambda: trained(experts=np.array([-1])),
    "more experts than the site has": lambda: trained(experts=np.array([0, 1])),
    "no expert": lambda: trained(experts=np.zeros(0, np.int64)),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_asks_that_are_none_are_refused(tmp_path: Path, what: str) -> None:
    assert_refused(site_of(tmp_path, **dict.fromkeys(PROTECTED, True)), MALFORMED[what]())


def test_the_honest_asks_are_answered(tmp_path: Path) -> None:
    """Those that the malformed ones differ from."""
    context = context_of(tmp_path, **dict.fromkeys(PROTECTED, True))
    for payload in (Survey(2000, "se", fit=True), evaluated(), validated(), calibrated(), predicted(),
                    predicted_alone(), trained(),
                    Share(**agreed_fields(), rows=3), Disclose(**agreed_fields())):  # fmt: skip
        assert type(ask(site_at(context), payload)) is type(payload).answer


def test_other_rows_than_were_told_of_are_refused(tmp_path: Path) -> None:
    for counts in (np.array([29]), np.array([15, 15]), np.zeros(0, np.int64)):
        assert_refused(site_of(tmp_path), evaluated(counts=counts), Fault.DATA_CHANGED)


WORDS: dict[str, tuple[Callable[..., Payload], dict[str, Any]]] = {
    "split": (
        lambda **changes: Survey(**{"max_rows": 2000, "kernel": "se", "fit": False, **changes}),
        {"max_rows": 25},
    ),
    "split, asked otherwise": (evaluated, {"max_rows": 2500}),
    "nearest rows": (evaluated, {"local": 60}),
    "noise": (predicted, {"own_noise": True}),
    "units": (evaluated, {"mean": np.array([1.0, 0.0])}),
    "unit of the output": (predicted, {"y_scale": 1.0}),
    "hyperparameters": (predicted, {"theta": THETA + 0.1}),
    "hyperparameters of the residuals": (calibrated, {"theta": THETA + 0.1}),
    "kernel of the residuals": (calibrated, {"kernel": "matern12"}),
    "kernel": (predicted, {"kernel": "matern12"}),
    "number of landmarks": (predicted, {"landmarks": 3}),
    "landmarks": (predicted, {"seed": 1}),
    "answers about landmarks": (predicted, {"joint": True}),
    "inputs that vary": (predicted, {"varies": np.array([True, False])}),
    "shared rows": (predicted, {"shared_x": np.zeros((1, 2)), "shared_y": np.zeros(1)}),
    "test points": (predicted_alone, {"points": np.zeros((8, 2))}),
    "outputs of test points": (predicted_alone, {"outputs": np.ones(8)}),
    "groups of test points": (predicted_alone, {"points": np.zeros((12, 2)), "outputs": np.zeros(12), "groups": 3}),
    "number of rows to share": (lambda **changes: Share(**{**agreed_fields(), "rows": 3, **changes}), {"rows": 4}),
}


@pytest.mark.parametrize("what", WORDS)
def test_a_center_is_held_to_its_word(tmp_path: Path, what: str) -> None:
    """In every session and lane of a run: what two answers about the same rows differ by can be one row."""
    said, changes = WORDS[what]
    context = context_of(tmp_path, **dict.fromkeys(PROTECTED, True))
    first = ask(site_at(context), said())
    for site in (site_at(context), site_at(context, session="another"), site_at(context, lane="1.0")):
        assert_refused(site, said(**changes))
        again = ask(site, said())
        for name, value in vars(first).items():
            np.testing.assert_array_equal(getattr(again, name), value)


def test_residuals_are_counted_with_the_hyperparameters_of_the_predictions_only(tmp_path: Path) -> None:
    """So a run has one histogram: two of them, with lengths of nothing, would be the outputs at two scales."""
    for first, second in [(calibrated(), predicted(theta=THETA + 0.1)), (predicted(), calibrated(theta=THETA + 0.1))]:
        context = context_of(tmp_path / type(first).__name__)
        ask(site_at(context), first)
        assert_refused(site_at(context, session="another"), second)


def test_a_run_tries_so_many_hyperparameters_and_points(tmp_path: Path) -> None:
    many = evaluated(thetas=THETA + np.linspace(-1, 1, MOST_CANDIDATES)[:, np.newaxis] * [1, 0, 0, 0])
    context = context_of(tmp_path)
    for _ in range(MOST_TRIED // MOST_CANDIDATES):
        ask(site_at(context), many)
    assert_refused(site_at(context, session="another"), many, Fault.TOO_MANY_QUERIES)
    context = context_of(tmp_path, **{"max-queries": 7})
    ask(site_at(context), predicted())
    ask(site_at(context, lane="1"), predicted())
    assert_refused(site_at(context, session="another"), predicted(), Fault.TOO_MANY_QUERIES)


def test_shared_rows_that_were_not_asked_for_are_not_the_site_s_own(tmp_path: Path) -> None:
    """A site that shares none leaves none of its own out of an expert, whatever the center says it shared: what an
    expert says with a row of its own and without it would tell of the row."""
    settings: dict[str, Any] = {"shared_x": np.zeros((1, 2)), "shared_y": np.zeros(1)}
    site, another = (site_of(tmp_path, **{"allow-rows": False}) for _ in range(2))
    expected = ask(site, predicted(**settings))
    found = ask(another, predicted(shared_rows=10, **settings))
    np.testing.assert_array_equal(found.mean[0], expected.mean[0])


def test_shared_rows_are_among_the_site_s_own_and_the_same_every_time(tmp_path: Path) -> None:
    allowed = {"allow-rows": True}
    first, second = (ask(site_of(tmp_path, **allowed), Share(**agreed_fields(), rows=5)) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    x, y = rows_of(split_over_sites(soundings())["coast"])
    units = agreed_fields()
    every = np.column_stack([(x - units["mean"]) / units["scale"], (y - units["y_mean"]) / units["y_scale"]])
    for row in np.column_stack([first.x, first.y]):
        assert (np.abs(every - row).max(axis=1) < 1e-12).sum() == 1
    half = ask(site_of(tmp_path, **allowed), Share(**agreed_fields(), rows=len(y) // 2))
    assert len(half.y) == len(y) // 2


def test_a_site_that_shared_some_rows_is_not_taken_to_have_shared_others(tmp_path: Path) -> None:
    """Experts without this or that number of their own rows would tell of the rows that they differ by. None is what
    the center says of a site whose rows were lost on their way."""
    context = context_of(tmp_path, **{"allow-rows": True})
    given = ask(site_at(context), Share(**agreed_fields(), rows=3))
    settings: dict[str, Any] = {"shared_x": given.x, "shared_y": given.y}
    for n_rows in (2, 29):
        assert_refused(site_at(context), predicted(shared_rows=n_rows, **settings))
    for n_rows in (3, 0):
        assert ask(site_at(context), predicted(shared_rows=n_rows, **settings))


def test_a_site_knows_its_shared_rows_in_units_that_were_rounded_otherwise(tmp_path: Path) -> None:
    """A resumed run may be on another processor; each run holds the center to its own units."""
    allowed = {"allow-rows": True}
    given = ask(site_of(tmp_path, **allowed), Share(**agreed_fields(), rows=5))
    settings: dict[str, Any] = {"shared_x": given.x, "shared_y": given.y, "shared_rows": 5}
    expected = ask(site_of(tmp_path, **allowed), predicted(**settings))
    units = agreed_fields(scale=agreed_fields()["scale"] * (1 + 1e-14))
    redrawn = ask(site_of(tmp_path, **allowed), Share(**units, rows=5))
    assert np.abs(redrawn.x - given.x).max() > 0.1, "the draw follows from the last digits"
    found = ask(site_of(tmp_path, **allowed), predicted(**settings, scale=units["scale"]))
    np.testing.assert_allclose(found.mean[0], expected.mean[0], rtol=1e-9)
    np.testing.assert_allclose(found.explained[0], expected.explained[0], rtol=1e-9)


@pytest.mark.parametrize("rows", [31, 29, 11])
def test_no_site_is_asked_for_more_rows_than_it_may_share(tmp_path: Path, rows: int) -> None:
    """Half of an odd number of rows, rounded, would be more than half."""
    parts = {site: frame[:rows] for site, frame in split_over_sites(soundings(160)).items()}
    settings, nodes = deployed_sites(
        tmp_path, write_files(tmp_path / "files", parts), gp__aggregation="grbcm", gp__communication=0.5,
        gp__fit_rounds=1,
    )  # fmt: skip
    found = predict(settings, nodes)
    assert not found.report.missing
    assert [len(given.y) for given in found.said(Rows)] == [rows // 2] * len(SITES)


# -- answers that no honest site gives --------------------------------------------------------------------------------


def changed(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


def of_first(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], dict[str, Any]]:
    """The first expert's array of this name after `change`."""
    return lambda answer: {name: (change(getattr(answer, name)[0]), *getattr(answer, name)[1:])}


MOMENTS: dict[str, tuple[str, Callable[[Moments], dict[str, Any]]]] = {
    "no inputs": (
        "features",
        lambda m: {"features": (), "means": m.means[:, :0], "covariances": m.covariances[:, :0, :0]},
    ),
    "an input twice": ("features", lambda m: {"features": ("east", "east")}),
    "an input without a name": ("features", lambda m: {"features": ("depth", "")}),
    "a name of control characters": ("features", lambda m: {"features": ("depth", "ea\x1b[2Jst")}),
    "a name of two lines": ("features", lambda m: {"features": ("depth", "ea\nst")}),
    "a name without end": ("features", lambda m: {"features": ("depth", "e" * 10_000)}),
    "inputs that are not named": ("means", lambda m: {"features": ("depth",)}),
    "an expert without rows": ("counts", lambda m: {"counts": m.counts * 0}),
    "less than no rows": ("counts", lambda m: {"counts": -m.counts}),
    "more rows than there can be": ("counts", lambda m: {"counts": m.counts * 10**12}),
    "no expert": (
        "counts",
        lambda m: {name: getattr(m, name)[:0] for name in ("counts", "means", "covariances", "y_means", "y_variances")},
    ),
    "a mean beyond all measure": ("means", lambda m: {"means": m.means + 1e60}),
    "an output beyond all measure": ("y_means", lambda m: {"y_means": m.y_means - 1e60}),
    "a negative variance": ("y_variances", lambda m: {"y_variances": -m.y_variances}),
    "a variance beyond all measure": ("y_variances", lambda m: {"y_variances": m.y_variances + 1e120}),
    "a negative variance of an input": ("covariances", lambda m: {"covariances": -m.covariances}),
    "covariances that are not symmetric": (
        "covariances",
        lambda m: {"covariances": changed(m.covariances, (0, 0, 1), 0.5 * m.covariances[0, 0, 1] + 1e-3)},
    ),
    "correlations beyond one": (
        "covariances",
        lambda m: {"covariances": np.diag(np.diag(m.covariances[0]))[np.newaxis]
                   + 2 * np.sqrt(m.covariances[0, 0, 0] * m.covariances[0, 1, 1]) * (1 - np.eye(2))},
    ),
    "nearest rows that nobody asks for": ("nearest", lambda m: {"nearest": 50}),
    "less than no nearest row": ("nearest", lambda m: {"nearest": -1}),
    "consent to what nobody asks": ("consents", lambda m: {"consents": ("allow-everything",)}),
    "hyperparameters beyond all measure": ("theta", lambda m: {"theta": m.theta + 1e6}),
    "hyperparameters of another kernel": (
        "theta",
        lambda m: {"theta": m.theta[:2], "information": m.information[:3]},
    ),
    "more hyperparameters": ("theta", lambda m: {"theta": np.append(m.theta, 0.0)}),
    "knowledge of other hyperparameters": ("information", lambda m: {"information": m.information[1:]}),
    "knowledge of more than all rows": ("information", lambda m: {"information": np.full_like(m.information, 1e27)}),
    "knowledge of less than nothing": ("information", lambda m: {"information": -m.information - 1}),
    "a likelihood more than there are kernels": ("likelihoods", lambda m: {"likelihoods": np.zeros(2)}),
    "a likelihood beyond all measure": ("likelihoods", lambda m: {"likelihoods": m.likelihoods + 1e60}),
    "gains of more than all rows": ("outliers", lambda m: {"outliers": np.array([1e9, 1.0])}),
    "gains whose squares are below nothing": ("outliers", lambda m: {"outliers": np.array([0.0, -1.0])}),
    "gains beyond all measure": ("outliers", lambda m: {"outliers": np.array([0.0, 1e200])}),
    "gains without a model of its own": (
        "outliers",
        lambda m: {
            "outliers": np.ones(2), "theta": m.theta[:0], "information": m.information[:0],
            "likelihoods": np.zeros(0),
        },
    ),
}  # fmt: skip
LIKELIHOODS: dict[str, tuple[str, Callable[[Likelihood], dict[str, Any]]]] = {
    "another number of candidates": (
        "values",
        lambda v: {name: getattr(v, name)[:1] for name in ("values", "gradients", "informations")},
    ),
    "other hyperparameters": ("gradients", lambda v: {"gradients": v.gradients[:, :2]}),
    "a matrix of another size": ("informations", lambda v: {"informations": v.informations[:, 1:]}),
    "a value beyond all measure": ("values", lambda v: {"values": v.values + 1e60}),
    "slopes beyond all measure": ("gradients", lambda v: {"gradients": v.gradients - 1e60}),
    "slopes of no value": ("gradients", lambda v: {"gradients": np.full_like(v.gradients, NO_VALUE)}),
    "curvatures beyond all measure": ("informations", lambda v: {"informations": v.informations + 1e60}),
    "curvatures the wrong way": ("informations", lambda v: {"informations": -1 - v.informations}),
    "outputs likelier than any": ("values", lambda v: {"values": np.abs(v.values) + 1e4}),
}
PREDICTIONS: dict[str, tuple[str, Callable[[Predictions], dict[str, Any]]]] = {
    "less than nothing explained": ("explained", of_first("explained", lambda v: v - 10)),
    "more explained than there can be": ("explained", of_first("explained", lambda v: v + 1e60)),
    "means beyond all measure": ("mean", of_first("mean", lambda v: v - 1e60)),
    "fewer means": ("mean", of_first("mean", lambda v: v[1:])),
    "more variances": ("explained", of_first("explained", lambda v: np.append(v, 0.1))),
    "features of fewer points": ("features", of_first("features", lambda v: v[1:])),
    "features of fewer landmarks": ("features", of_first("features", lambda v: v[:, 1:])),
    "means around points beyond all measure": ("further_mean", of_first("further_mean", lambda v: v - 1e30)),
    "means of fewer places": ("further_mean", of_first("further_mean", lambda v: v[:, 1:])),
    "more left around points than there was": ("further_unknown", of_first("further_unknown", lambda v: v + 1)),
    "less than nothing left": ("further_unknown", of_first("further_unknown", lambda v: -np.abs(v))),
    "no answers around points": ("further_unknown", lambda p: {"further_unknown": ()}),
    "more experts": ("mean", lambda p: {"mean": (*p.mean, np.zeros(0))}),
    "fewer experts": ("mean", lambda p: {"mean": ()}),
}
SLOPES: dict[str, tuple[str, Callable[[Slope], dict[str, Any]]]] = {
    "another network": ("gradient", lambda s: {"gradient": s.gradient[1:]}),
    "a negative loss": ("loss", lambda s: {"loss": -1.0}),
    "a loss beyond all measure": ("loss", lambda s: {"loss": 1e60}),
    "slopes beyond all measure": ("gradient", lambda s: {"gradient": s.gradient + 1e60}),
}
ROWS: dict[str, tuple[str, Callable[[Rows], dict[str, Any]]]] = {
    "more rows than asked": ("y", lambda r: {"x": np.tile(r.x, (9, 1)), "y": np.tile(r.y, 9)}),
    "rows of other inputs": ("x", lambda r: {"x": r.x[:, :1]}),
    "rows beyond all measure": ("x", lambda r: {"x": r.x + 1e60}),
    "outputs beyond all measure": ("y", lambda r: {"y": r.y + 1e60}),
}
INPUTS: dict[str, tuple[str, Callable[[Inputs], dict[str, Any]]]] = {
    "fewer rows": ("x", of_first("x", lambda x: x[1:])),
    "other inputs": ("x", of_first("x", lambda x: x[:, :1])),
    "more experts": ("x", lambda i: {"x": (*i.x, i.x[0])}),
    "inputs beyond all measure": ("x", of_first("x", lambda x: x + 1e60)),
}
RESIDUALS: dict[str, tuple[str, Callable[[Residuals], dict[str, Any]]]] = {
    "less than no residual": ("counts", lambda r: {"counts": r.counts - 1}),
    "more residuals than rows": ("counts", lambda r: {"counts": r.counts + 1}),
    "so many that their sum overflows": ("counts", lambda r: {"counts": np.full_like(r.counts, 2**62)}),
}
NEAREST = {"gp__max_expert_rows": 20, "gp__local": 50}
ERRORS: dict[str, tuple[str, Callable[[Errors], dict[str, Any]]]] = {
    "another number of candidates": ("squares", lambda e: {"squares": e.squares[1:]}),
    "less than no error": ("squares", lambda e: {"squares": e.squares - 1e9}),
}
FORGED = [
    (Moments, MOMENTS, {}),
    (Likelihood, LIKELIHOODS, {}),
    (Predictions, PREDICTIONS, {}),
    (Residuals, RESIDUALS, {}),
    (Errors, ERRORS, NEAREST),
    (Slope, SLOPES, {"gp__gate": "dnn", "gp__gate_rounds": 2}),
    (Rows, ROWS, {"gp__aggregation": "grbcm"}),
    (Inputs, INPUTS, {"gp__covariance": "inputs"}),
]


@pytest.mark.parametrize(("kind", "cases", "changes"), FORGED, ids=[kind.__name__ for kind, _, _ in FORGED])
def test_answers_that_cannot_be_are_refused(
    tmp_path: Path, folder: Path, kind: type[Payload], cases: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Their site is named with the payload and the field, and the others go on."""
    for what, (field, change) in cases.items():
        settings = own_data_config(tmp_path, folder, gp__fit_rounds=2, gp__candidates=3, **changes)
        found = predict(settings, tamper=forgery(DELTA, kind, after(change)))
        line = found.report.missing["delta"][0]
        assert f"refused: payload gp.{kind.__name__}, field '{field}': " in line, (what, line)
        assert line.isprintable()
        assert np.isfinite(found.arrays["mean"]).all(), what
        assert found.metrics["smse"] < 0.6, what


def after(change: Callable[[Any], dict[str, Any]]) -> Callable[[Any], Any]:
    """An answer with other fields."""
    return lambda answer: replace(answer, **change(answer))


def full_like(answer: Any, **values: float) -> Any:
    """An answer with these fields filled with one number."""

    def filled(array: Any, value: float) -> Any:
        if isinstance(array, tuple):
            return tuple(filled(each, value) for each in array)
        return np.full_like(array, value) if isinstance(array, np.ndarray) else value

    return replace(answer, **{name: filled(getattr(answer, name), value) for name, value in values.items()})


EXTREME: dict[str, tuple[type[Payload], dict[str, Any], Callable[[Any], Any]]] = {
    "a site at the end of the world": (Moments, {}, lambda m: full_like(m, means=LARGEST)),
    "inputs that vary beyond all others": (
        Moments, {}, lambda m: replace(m, covariances=LARGEST**2 * np.eye(2)[np.newaxis])
    ),
    "an expert of a point": (Moments, {}, lambda m: full_like(m, covariances=0.0, y_variances=0.0)),
    "outputs at the end of the world": (Moments, {}, lambda m: full_like(m, y_means=-LARGEST)),
    "outputs that vary beyond all others": (Moments, {}, lambda m: full_like(m, y_variances=LARGEST**2)),
    "all rows of the world": (Moments, {}, lambda m: full_like(m, counts=10**9)),
    "hyperparameters at the end": (Moments, {}, lambda m: full_like(m, theta=115.0)),
    "hyperparameters at the other": (Moments, {}, lambda m: full_like(m, theta=-115.0)),
    "no value at any candidate": (Likelihood, {}, lambda v: full_like(v, values=NO_VALUE)),
    "the best value at every candidate": (Likelihood, {}, lambda v: full_like(v, values=LARGEST)),
    "slopes of the largest size": (Likelihood, {}, lambda v: full_like(v, gradients=LARGEST)),
    "slopes of nothing": (Likelihood, {}, lambda v: full_like(v, gradients=0.0, informations=0.0)),
    "curvatures of the largest size": (Likelihood, {}, lambda v: full_like(v, informations=LARGEST)),
    "curvatures the wrong way": (Likelihood, {}, lambda v: full_like(v, informations=-1e6)),
    "huge directions": (Predictions, {}, lambda p: full_like(p, features=65504.0)),
    "no directions": (Predictions, {}, lambda p: full_like(p, features=0.0)),
    "shared rows far away": (Rows, {"gp__aggregation": "grbcm"}, lambda r: full_like(r, x=LARGEST, y=-LARGEST)),
    "a loss of the largest size": (
        Slope, {"gp__gate": "dnn", "gp__gate_rounds": 3}, lambda s: replace(s, loss=LARGEST)
    ),
    "a gate's slopes of the largest size": (
        Slope, {"gp__gate": "dnn", "gp__gate_rounds": 3}, lambda s: full_like(s, gradient=-LARGEST)
    ),
    "inputs far away": (Inputs, {"gp__covariance": "inputs"}, lambda i: full_like(i, x=LARGEST)),
    "inputs all in one place": (Inputs, {"gp__covariance": "inputs"}, lambda i: full_like(i, x=0.0)),
}  # fmt: skip


def arrays_of(settings: dict[str, Any]) -> list[np.ndarray]:
    """Arrays of numbers of the newest results."""
    newest = max(Path(settings["output-dir"]).glob("*/[!.]*"), key=lambda path: int(path.name))
    return [array for array in load(newest)[1].values() if array.dtype.kind == "f"]


@pytest.mark.parametrize("rule", ["poe", "gpoe", "bcm", "rbcm", "grbcm"])
def test_nobody_explains_more_than_there_is_to_know(tmp_path: Path, folder: Path, rule: str) -> None:
    """Who says so counts as one that knows the function itself, and is as sure of an output as its noise allows."""
    settings = {"gp__aggregation": rule, "gp__gate": "all", "gp__fit_rounds": 1, "gp__candidates": 1}
    prior = float(np.exp(2 * predict(own_data_config(tmp_path / "honest", folder, **settings)).theta[-2]))
    forger = forgery(DELTA, Predictions, lambda p: full_like(p, mean=7.0, explained=prior))
    found = predict(own_data_config(tmp_path / "sure", folder, **settings), tamper=forger)
    assert not found.report.missing
    _, variance = found.predictions
    assert (variance >= np.exp(2 * found.theta[-1]) / 20).all()
    assert np.abs(found.predictions[0]).max() < 10
    assert found.metrics["msll"] < 1e4


@pytest.mark.parametrize("what", few(list(EXTREME), 6))
def test_what_could_be_true_is_survived(tmp_path: Path, folder: Path, what: str) -> None:
    """It may ruin what its run predicts; then the numbers are still numbers, or the run ends in one line."""
    kind, changes, change = EXTREME[what]
    settings = own_data_config(tmp_path, folder, **{"gp__fit_rounds": 3, "gp__gate": "all", **changes})
    for sites in ((DELTA,), range(len(SITES))):
        tampers = [forgery(place, kind, change) for place in sites]

        def tamper(at: int, now: int, reply: Any) -> Any:
            for each in tampers:  # noqa: B023  (called before the loop goes on)
                reply = each(at, now, reply)
            return reply

        with np.errstate(all="ignore"):
            found = outcome_of(settings, len(SITES), tamper=tamper)
        if found.report is not None:
            assert np.isfinite(list(found.report.metrics.values())).all()
            assert all(np.isfinite(array).all() for array in arrays_of(settings))
        elif len(sites) == 1:
            pytest.fail(f"one site ends the run: {found.refusal}")


def test_inputs_on_one_line_beyond_all_others_are_survived(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, folder, gp__fit_rounds=1, gp__gate="gaussian")
    found = predict(settings, tamper=forgery(DELTA, Moments, lambda m: full_like(m, covariances=LARGEST**2)))
    assert any(note.startswith("delta: depth") or note.startswith("delta: east") for note in found.report.notes)
    assert found.metrics["smse"] < 0.6


def in_two_classes(answer: Moments) -> Moments:
    """An answer of a site with amounts, as if it had two classes."""
    counts = np.stack([answer.counts - 5, np.full_like(answer.counts, 5)], axis=1)
    nothing = np.zeros_like(answer.y_means)
    return replace(answer, classes=("a", "b"), class_counts=counts, y_means=nothing, y_variances=nothing)


def test_a_site_with_classes_among_amounts_does_not_stop_the_run(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, folder, gp__fit_rounds=1)
    found = predict(settings, tamper=forgery(DELTA, Moments, in_two_classes))
    assert found.report.missing["delta"] == [
        "left out: its target 'grade' holds classes; most sites have amounts: set task there"
    ]
    others = predict(own_data_config(tmp_path / "others", folder, gp__fit_rounds=1), tamper=silent(DELTA, [1]))
    np.testing.assert_array_equal(found.arrays["mean"], others.arrays["mean"])


def test_a_name_is_shown_as_text(tmp_path: Path) -> None:
    """Names of inputs come from sites, and stand in a page that is read elsewhere."""
    evil = "<script>alert(1)</script>"
    frames = {site: frame.rename(columns={"east": evil}) for site, frame in split_over_sites(soundings()).items()}
    folder = write_files(tmp_path / "files", frames, points().rename(columns={"east": evil}))
    found = predict(own_data_config(tmp_path, folder))
    page = (found.path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
