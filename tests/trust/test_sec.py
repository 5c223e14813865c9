"""What a learner's site refuses whatever the fusion center asks, what it tells at most, and what it keeps."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from sklearn.linear_model import LinearRegression

from clients.commitments import Commitments
from clients.sec import handlers, shard
from clients.sec.disclosure import Disclosure
from clients.sec.handlers import evaluate_models, select_model, send_rows, try_combinations
from clients.sec.rows import learner_rows
from clients.sec.shard import FEWEST_HELD_OUT
from clients.site import Site
from consilience.attack.playing import play
from numerics.sec.disclosure import noise_of, supported_predictions
from numerics.sec.losses import Loss, mixture_weights
from numerics.sec.sharpening import best_power, sharpened
from numerics.shared.candidates import CandidateError, parse_candidates
from numerics.shared.regression_rows import RegressionRows
from numerics.shared.regressors import fit
from numerics.shared.value_groups import ValueGroups
from protocols.models import decode_model, encode_model
from protocols.sec.payloads import Errors, Exchange, FittedModel, Losses, Pool, Predict
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask, Parcel
from protocols.wire.payload import PayloadError
from server.results import load
from strategies.sec import SEC
from tests.support.parameters import few
from tests.support.runs import outcome_of, run
from tests.support.sec_sites import deployed_sites, draw_rows, own_data_config, select_ask, write_files, write_sites

LABS = ["lab-0", "lab-1", "lab-2"]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sites(tmp_path / "labs", [0, 1, 0])


def real_site(tmp_path: Path, rows: pd.DataFrame | None = None, **node: Any) -> Site:
    """A real site, lab-1, with a directory of its own, as a handler sees it."""
    folder = write_files(tmp_path / "labs", {"lab-1": draw_rows(1, 60, 1) if rows is None else rows})
    settings, [config] = deployed_sites(tmp_path, folder, ["lab-1"])
    context = Context(9, 5, {**config, **node}, RecordDict(), settings)
    return Site.open("lab-1", context, Ask("x", 1, 0, [Parcel("0", select_ask())])).in_lane("0")


def model_of(p: int = 3, slope: float = 1.0) -> np.ndarray:
    model = LinearRegression()
    model.coef_, model.intercept_, model.n_features_in_ = np.full(p, slope), 0.0, p
    return encode_model(model)


def select(site: Site, **settings: Any) -> FittedModel:
    answer = select_model(select_ask(**settings), site)
    assert isinstance(answer, FittedModel)
    return answer


def exchange(site: Site, models: Mapping[str, np.ndarray]) -> Losses:
    answer = evaluate_models(Exchange(tuple(models), tuple(models.values()), "model", True), site)
    assert isinstance(answer, Losses)
    return answer


def predict(site: Site, ask: Predict) -> Errors:
    answer = try_combinations(ask, site)
    assert isinstance(answer, Errors)
    return answer


def stems(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.skops"))


# -- trees ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidates", ["rf", "rf(max_features=1)", "gb(n_estimators=20, max_depth=9)"])
@pytest.mark.parametrize(("asked", "own_floor", "expected"), few([(1, 12, 12), (0, None, 5), (9, 3, 9), (0, 8, 8)], 2))
def test_a_leaf_is_never_smaller_than_the_site_allows(
    tmp_path: Path, folder: Path, candidates: str, asked: int, own_floor: int | None, expected: int
) -> None:
    settings, [node] = deployed_sites(
        tmp_path, folder, ["lab-1"], sec__candidates=candidates, sec__min_leaf=asked, sec__holdout=0.0
    )
    floor = {} if own_floor is None else {"min-leaf": own_floor}
    _, arrays = load(run(settings, [node | floor]))
    x = pd.read_csv(folder / "lab-1.csv")[arrays["features"].tolist()].to_numpy()
    x = ValueGroups.of(x, 5).apply(x)  # as the site learned from them
    sizes = [
        np.unique(tree.apply(x), return_counts=True)[1].min()
        for tree in np.ravel(decode_model(arrays["model_0"]).estimators_)
    ]
    assert min(sizes) >= expected


@pytest.mark.parametrize(
    "candidates",
    ["rf(criterion=absolute_error)", "rf(max_samples=1)", "gb(subsample=0.01)", "rf(n_estimators=1001)"],
)
def test_no_setting_of_the_center_makes_leaves_of_single_outcomes_or_work_without_end(
    tmp_path: Path, folder: Path, candidates: str
) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, LABS, sec__candidates=candidates)
    assert "[bad-candidates]" in outcome_of(settings, nodes).text


# -- settings of a run's candidates -----------------------------------------------------------------------------------

ONE_ROW = [  # of 80 rows, as many as runs were in the weights or start values of these (78 in one run of 400 lanes)
    "nn(solver=sgd, alpha=0.1, early_stopping=true, validation_fraction=0.987, max_iter=1, learning_rate_init=1e12)",
    "nn(learning_rate_init=1e12, batch_size=1)",
    "nn(alpha=0)",
    "gb(n_estimators=1, n_iter_no_change=1, validation_fraction=0.987)",
    "hgb(max_iter=1, early_stopping=true, validation_fraction=0.987)",
    "gb(learning_rate=1e6)",
    "rf(min_samples_split=70)",
]


@pytest.mark.parametrize("candidates", ONE_ROW)
def test_no_setting_of_a_run_fits_a_model_to_one_row(tmp_path: Path, candidates: str) -> None:
    with pytest.raises(SiteFault) as refused:
        select(real_site(tmp_path), candidates=candidates)
    assert refused.value.fault is Fault.BAD_CANDIDATES


def test_no_setting_of_a_run_fits_classes_to_the_rows_at_the_margin() -> None:
    for candidates in ("lr(C=1e6)", "lr(l1_ratio=1)", *ONE_ROW):
        with pytest.raises(CandidateError):
            parse_candidates(candidates, classes=True)
    assert parse_candidates("lr(C=1)", classes=True)


def test_a_site_sets_what_it_likes_in_its_own_list(tmp_path: Path) -> None:
    site = real_site(tmp_path, candidates="gb(n_estimators=5, n_iter_no_change=2, validation_fraction=0.2)")
    assert select(site, candidates="nn(solver=sgd)").method.startswith("gb(n_estimators=5, n_iter")


@pytest.mark.parametrize("start_value", ["gb(n_estimators=1)", "hgb(max_iter=1)"])
def test_boosting_starts_with_the_mean_of_all_rows(tmp_path: Path, start_value: str) -> None:
    site = real_site(tmp_path)
    model = decode_model(select(site, candidates=start_value).model)
    start = model._baseline_prediction if hasattr(model, "_baseline_prediction") else model.init_.constant_
    assert np.ravel(start) == pytest.approx(site.shard.y.mean())


def test_a_run_has_one_list_of_candidates_in_all_its_repetitions(tmp_path: Path) -> None:
    """With 1000 repetitions it would have 1000 lists."""
    site = real_site(tmp_path, repetitions=3)
    select(site)
    select(site.in_lane("1"))
    with pytest.raises(SiteFault) as refused:
        select(site.in_lane("2"), candidates="ridge")
    assert refused.value.fault is Fault.MALFORMED_ASK


@pytest.mark.parametrize("protected", [True, False])
def test_weights_of_a_network_hold_no_row_in_any_units(tmp_path: Path, protected: bool) -> None:
    """In large units the first step of an unscaled network leaves rows of units that are active on one row only."""
    x = np.random.default_rng(0).normal(size=(20, 3))
    y = (50 + 10 * x.sum(axis=1)) * 1e15
    [candidate] = parse_candidates("nn(hidden_layer_sizes=200, max_iter=1)")
    model: Any = fit(candidate, x, y, standardize="none" if protected else "learner", min_leaf=5, seed=0)
    network, shift, scale = model, np.zeros(3), np.ones(3)
    if protected:
        scaler, network = (step for _, step in model.regressor_.steps)
        shift, scale = scaler.mean_, scaler.scale_
    points = (network.coefs_[0] / network.intercepts_[0]).T * scale + shift
    found = sum(np.abs(points - row).max(axis=1).min() < 1e-5 for row in x)
    assert (found == 0) == protected


# -- very many rows ---------------------------------------------------------------------------------------------------


def test_no_run_whatever_its_seed_learns_about_rows_beside_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other samples would average the noise of the errors away, and give single rows by difference."""
    for module in (shard, handlers):
        monkeypatch.setattr(module, "MOST_ROWS", 30)
    frame = draw_rows(1, 120, 1)
    site = real_site(tmp_path, frame)
    used = []
    for seed in range(5):
        rows = learner_rows(replace(site, seed=seed), "none")
        assert (len(rows.y), len(rows.y_test)) == (25, 5)
        used.append(sorted([*rows.y, *rows.y_test]))
    assert all(each == used[0] for each in used)
    fitted = select(site)
    assert (fitted.n, fitted.held_out, fitted.sampled_from) == (25, 5, 120)


def test_runs_that_hold_other_rows_out_tell_nothing_new_but_rounded_errors(tmp_path: Path) -> None:
    """Of exact errors of one model, those of the rows between two shares would be the difference."""
    fitted = []
    for place, share in enumerate((0.1, 0.2, 0.4)):
        site = real_site(tmp_path / str(place))
        fitted.append(select(replace(site, config={**site.config, "sec.holdout": share}, seed=place)))
    assert len({each.n for each in fitted}) == len(fitted)
    for each in fitted:
        np.testing.assert_array_equal(each.model, fitted[0].model)
        assert each.error == float(f"{each.error:.4g}")
        assert (each.n_fitted, each.variance) == (60, fitted[0].variance)


def test_few_rows_are_not_counted_but_for_those_learned_from(tmp_path: Path) -> None:
    assert select(real_site(tmp_path)).sampled_from == 0


@pytest.mark.parametrize("said", [-5, 1, 50, 60, 10**12])
def test_a_sample_of_fewer_rows_than_it_has_is_refused(tmp_path: Path, said: int) -> None:
    fitted = select(real_site(tmp_path))
    assert (fitted.n, fitted.held_out) == (50, 10)
    with pytest.raises(PayloadError, match="sampled_from"):
        SEC()._check_fitted("lab-1", replace(fitted, sampled_from=said))
    SEC()._check_fitted("lab-1", replace(fitted, sampled_from=61))


# -- moments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "refused"), [(2, True), (4, True), (5, False)])
def test_moments_of_rows_that_could_be_solved_for_are_refused(tmp_path: Path, n: int, refused: bool) -> None:
    """Three inputs and an outcome: of fewer than p + 2 rows the products tell too much."""
    frames = {"lab-0": draw_rows(0, 40, 0), "lab-1": draw_rows(0, 40, 1), "lab-2": draw_rows(0, n, 2)}
    folder = write_files(tmp_path / "labs", frames)
    report, arrays = load(run(own_data_config(tmp_path, folder, sec__combine="pooled-linear"), 3))
    assert ("lab-2" in arrays["learners"]) == (not refused)
    if refused:
        [told] = report.missing["lab-2"]
        assert told.startswith("round 1: it has so few rows that they could be solved for from the sums")
        assert told.endswith("[rows-in-moments]")
    settings = own_data_config(tmp_path, folder, sec__combine="average")
    assert "lab-2" in load(run(settings, 3))[1]["learners"]


# -- errors of held-out rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "held_out"), [(5, 0), (20, 0), (22, 0), (23, 5), (25, 5), (49, 10)])
def test_errors_of_fewer_than_five_held_out_rows_are_not_told(tmp_path: Path, n: int, held_out: int) -> None:
    """So few are not held out at all."""
    site = real_site(tmp_path, draw_rows(1, n, 1))
    fitted = select(site)
    assert (fitted.n, fitted.held_out) == (n - held_out, held_out)
    told = predict(site, ALONE)
    assert told.n_test == held_out
    assert (told.errors > 0).all() == (held_out > 0)
    assert FEWEST_HELD_OUT == 5


def test_without_held_out_rows_a_run_ends_without_errors(tmp_path: Path) -> None:
    folder = write_sites(tmp_path / "labs", [0, 1, 0, 1], n=18)
    report, arrays = load(run(own_data_config(tmp_path, folder), 4))
    assert arrays["n"].tolist() == [18, 19, 20, 21]
    assert report.metrics["n_measured"] == 0
    assert "mse_cluster" not in report.metrics


# -- crafted asks -----------------------------------------------------------------------------------------------------

ALONE = Predict(
    cluster=0,
    combinations=("alone",),
    weights=np.zeros((1, 0)),
    own=np.ones(1),
    coefficients=np.zeros((1, 0)),
    members=("lab-1",),
    rows=np.array([48]),
    shares=np.ones(1),
    pooled=np.zeros(1, bool),
    models=(),
    pool_weights=np.zeros((1, 0)),
    standardize="model",
)


def pooled(*coefficients: float, own_model: float = 0.0) -> Predict:
    return replace(ALONE, own=np.array([own_model]), coefficients=np.array([coefficients]))


CRAFTED: Mapping[str, Predict] = {
    "an unknown combination": replace(ALONE, combinations=("probe",)),
    "one twice": replace(ALONE, combinations=("all", "all"), weights=np.zeros((2, 0)), own=np.ones(2),
                         coefficients=np.zeros((2, 0))),
    "shares of more than everything": replace(ALONE, own=np.array([2.0])),
    "shares of less": replace(ALONE, own=np.array([0.9])),
    "nothing": replace(ALONE, own=np.array([0.0])),
    "a negative share": replace(ALONE, weights=np.array([[2.0, -1.0]]), own=np.zeros(1)),
    "a negative share of its own": replace(ALONE, weights=np.array([[2.0, 0.0]]), own=-np.ones(1)),
    "a regression beside a model": pooled(1.0, 0.0, 0.0, 0.0, own_model=1.0),
    "a regression beside half a model": pooled(1.0, 0.0, 0.0, 0.0, own_model=0.5),
    "a model of pooled rows without a weight": replace(ALONE, models=(np.zeros(3, np.uint8),)),
    "models of pooled rows beyond the combinations": replace(
        ALONE, models=(np.zeros(3, np.uint8),) * 2, own=np.zeros(1), pool_weights=np.array([[0.5, 0.5]])
    ),
    "a model of pooled rows that cannot be read": replace(
        ALONE, models=(np.zeros(3, np.uint8),), own=np.zeros(1), pool_weights=np.ones((1, 1))
    ),
    "negative rows": replace(ALONE, rows=np.array([-1])),
    "weights of the center for the personal mixture": replace(ALONE, combinations=("personal",)),
    "a path for a name": replace(ALONE, members=("../lab-2",)),
    "a formula for a name": replace(ALONE, members=('=cmd|x!A1\n0,evil,1,1',)),
}  # fmt: skip


@pytest.mark.parametrize("what", CRAFTED)
def test_a_combination_that_the_protocol_does_not_compare_is_refused(tmp_path: Path, what: str) -> None:
    site = real_site(tmp_path)
    select(site)
    exchange(site, {"a": model_of(), "b": model_of()})
    with pytest.raises(SiteFault) as refused:
        predict(site, CRAFTED[what])
    assert refused.value.fault is Fault.MALFORMED_ASK
    assert not list((tmp_path / "home" / "lab-1").glob("*.csv"))


@pytest.mark.parametrize("ask", [pooled(1.0, 2.0, 3.0, 4.0), pooled(0.0, 0.0, 0.0, 0.0), ALONE])
def test_what_an_honest_center_asks_is_answered_once(tmp_path: Path, ask: Predict) -> None:
    site = real_site(tmp_path)
    select(site)
    assert predict(site, ask).n_test == 10
    with pytest.raises(SiteFault) as refused:
        predict(site, ask)
    assert refused.value.fault is Fault.STALE_MEMORY


@pytest.mark.parametrize(
    ("learners", "n_models"),
    [(("a", "b"), 1), (("a",), 2), (("a", "a"), 2), (("../a",), 1), (("a\nb",), 1), (("",), 1)],
)
def test_models_are_of_learners_with_names_one_each(tmp_path: Path, learners: tuple[str, ...], n_models: int) -> None:
    site = real_site(tmp_path)
    select(site)
    with pytest.raises(SiteFault) as refused:
        evaluate_models(Exchange(learners, (model_of(),) * n_models, "model", True), site)
    assert refused.value.fault is Fault.MALFORMED_ASK


@pytest.mark.parametrize("consent", [{}, {"allow-pooling": False}, {"allow-rows": True, "allow-row-models": True}])
def test_no_row_leaves_a_site_that_does_not_allow_pooling(tmp_path: Path, consent: dict[str, bool]) -> None:
    site = real_site(tmp_path, **consent)
    select(site)
    answer = send_rows(Pool("model"), site)
    assert answer.x.shape == (0, 3)
    assert not answer.y.size


def test_rows_that_are_held_out_are_not_pooled(tmp_path: Path) -> None:
    site = real_site(tmp_path, **{"allow-pooling": True})
    fitted = select(site)
    assert len(send_rows(Pool("model"), site).y) == fitted.n == 50


@pytest.mark.parametrize("standardize", ["learner", "none"])
def test_rows_are_sent_in_the_form_that_the_run_agreed_on(tmp_path: Path, standardize: str) -> None:
    site = real_site(tmp_path, **{"allow-pooling": True})
    select(site)
    with pytest.raises(SiteFault) as refused:
        send_rows(Pool(standardize), site)
    assert refused.value.fault is Fault.MALFORMED_ASK


# -- what it keeps ----------------------------------------------------------------------------------------------------


def test_models_that_are_refused_do_not_reach_the_disk(tmp_path: Path) -> None:
    site = real_site(tmp_path)
    fitted = select(site)
    poison = np.frombuffer(b"PK" + pickle.dumps(1), np.uint8)
    sent = {"poison": poison, "narrow": model_of(2), "sound": model_of(), "lab-1": model_of(slope=9.0)}
    losses = exchange(site, sent)
    assert losses.finite.tolist() == [False, False, True, True]
    models = tmp_path / "home" / "lab-1" / "models"
    assert stems(models) == ["lab-1", "sound"]
    # The site's own is what it fitted, whatever came under its name.
    assert (models / "lab-1.skops").read_bytes() == fitted.model.tobytes()


@pytest.mark.parametrize("name", ["mine", "lab-0", "lab-1"])
def test_a_file_that_no_run_wrote_stays_as_it_is(tmp_path: Path, name: str) -> None:
    """Also where it is called as a learner is: the center chooses those names."""
    mine = tmp_path / "home" / "lab-1" / "models" / f"{name}.skops"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"years of work")
    for _ in range(2):
        site = real_site(tmp_path)
        select(site)
        exchange(site, {"lab-0": model_of(), "lab-2": model_of()})
        assert stems(mine.parent) == sorted({"lab-0", "lab-1", "lab-2", name})
        predict(site, ALONE)
        assert stems(mine.parent) == sorted({"lab-1", name})
        assert mine.read_bytes() == b"years of work"


def mixed(home: Path, ending: str) -> list[str]:
    """Learners whose models a site's two mixtures take, and its own."""
    tables = (pd.read_csv(home / f"{table}{ending}.csv") for table in ("collaborators", "personal"))
    return sorted({home.name}.union(*(table["learner"] for table in tables)))


def test_repetitions_keep_their_models_apart_and_the_next_run_begins_anew(tmp_path: Path) -> None:
    folder = write_sites(tmp_path / "labs", [0, 1, 0, 1])
    names = [f"lab-{place}" for place in range(4)]
    settings, nodes = deployed_sites(tmp_path, folder, names, repetitions=2)
    run(settings, nodes)
    home = tmp_path / "home" / "lab-2"
    for ending in ("", "-1"):
        assert pd.read_csv(home / f"collaborators{ending}.csv")["learner"].tolist() == ["lab-0", "lab-2"]
        assert stems(home / f"models{ending}") == mixed(home, ending)
    kept = [(home / f"models{ending}" / "lab-2.skops").read_bytes() for ending in ("", "-1")]
    assert kept[0] == kept[1]  # a site holds the same rows out in all runs and repetitions
    # Its companion has gone.
    settings, nodes = deployed_sites(tmp_path, folder, names[1:], repetitions=2)
    run(settings, nodes)
    for ending in ("", "-1"):
        assert stems(home / f"models{ending}") == mixed(home, ending)
        assert "lab-0" not in stems(home / f"models{ending}")


def test_a_run_that_broke_off_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    site = real_site(tmp_path, **{"sec.combine": "pooled-linear"})
    select(site, moments=True)
    predict(site, replace(pooled(1.0, 2.0, 3.0, 4.0), combinations=("cluster",)))
    home = tmp_path / "home" / "lab-1"
    assert sorted(path.name for path in home.glob("*.csv")) == ["answers.csv", "collaborators.csv", "pooled.csv"]
    select(real_site(tmp_path))
    assert not list(home.glob("*.csv"))
    assert stems(home / "models") == ["lab-1"]


def test_kept_models_predict_what_the_center_was_shown(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder, LABS)
    _, arrays = load(run(settings, nodes))
    for place, name in enumerate(LABS):
        kept = (tmp_path / "home" / name / "models" / f"{name}.skops").read_bytes()
        assert kept == arrays[f"model_{place}"].tobytes()


def test_names_of_inputs_are_quoted_in_the_table_of_coefficients(tmp_path: Path) -> None:
    odd = {"a": 'a"b, x', "b": "  b", "c": "c;d"}
    frames = {f"lab-{place}": draw_rows(0, 40, place).rename(columns=odd) for place in range(3)}
    folder = write_files(tmp_path / "labs", frames)
    settings = own_data_config(tmp_path, folder, sec__combine="pooled-linear")
    path = run(settings, 3)
    _, arrays = load(path)
    table = pd.read_csv(path / "sites" / "lab-0" / "pooled.csv")
    assert table["input"].tolist() == ["(intercept)", *arrays["features"].tolist()]
    assert table["coefficient"].dtype == float
    assert 'a"b, x' in table["input"].tolist()


# -- a center that makes models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bisection", "strips", "held-out", "spread", "thresholds"])
def test_a_center_that_makes_models_learns_nothing_of_few_rows(tmp_path: Path, name: str) -> None:
    """Crafted leaves, trees that differ by a strip, mixtures of them on the rows held out, and the site's own trees."""
    folder = write_files(tmp_path / "labs", {"lab-1": draw_rows(1, 80, 1)})
    [outcome] = play("sec", folder / "lab-1.csv", settings={"target": "y"}, only=name)
    assert (outcome.rows_out, outcome.groups_out) == (0, 0)


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize(("name", "runs", "least_out"), [("strips", 1, 10), ("held-out", 1, 0), ("bisection", 6, 10)])
def test_classifiers_count_no_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, runs: int, least_out: int, protected: bool
) -> None:
    """Leaves that are sure of one class after the other count rows by log losses, where these are exact."""
    if not protected:
        exact = classmethod(lambda cls, site, rows: cls.of_trusted_center(Loss(len(rows.classes))))
        monkeypatch.setattr(Disclosure, "of", exact)
    rows = draw_rows(1, 80, 1)
    rows["y"] = np.where(rows["y"] > 0, "yes", "no")
    folder = write_files(tmp_path / "labs", {"lab-1": rows})
    [outcome] = play("sec", folder / "lab-1.csv", settings={"target": "y"}, most_runs=runs, only=name)
    assert (outcome.groups_out > least_out) != protected
    assert not protected or outcome.rows_out == 0


@pytest.mark.parametrize("protected", [True, False])
def test_splits_of_many_runs_tell_of_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    """Where the run's seed draws the split, as in a simulation, means of 61 splits are solved for all 30 rows."""
    if not protected:
        guarded = Disclosure.of

        def of(site: Site, rows: RegressionRows) -> Disclosure:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Site, "has_private_rows", True)
                return guarded(site, rows)

        monkeypatch.setattr(Site, "has_private_rows", False)
        monkeypatch.setattr(Disclosure, "of", of)
    folder = write_files(tmp_path / "labs", {"lab-1": draw_rows(1, 30, 1)})
    [outcome] = play("sec", folder / "lab-1.csv", settings={"target": "y"}, most_runs=7, only="splits")
    assert (outcome.rows_out, outcome.groups_out) == ((0, 0) if protected else (30, 30))


def test_models_do_not_depend_on_the_run(tmp_path: Path) -> None:
    """Neither on its seed nor its repetition; leaves double from the site's own number on."""
    site = real_site(tmp_path, repetitions=4)
    models = []
    for number, (seed, lane, min_leaf) in enumerate([(0, "0", 6), (7, "0", 10), (7, "3", 9), (7, "0", 11)]):
        other = replace(site, seed=seed, commitments=Commitments(RecordDict(), number)).in_lane(lane)
        models.append(select(other, candidates="rf(n_estimators=5)", min_leaf=min_leaf).model.tobytes())
    assert models[0] == models[1] == models[2] != models[3]
    with pytest.raises(SiteFault, match="repetition 4 of a run that has 4"):
        select(site.in_lane("4"))


def test_more_repetitions_are_told_less_each(tmp_path: Path) -> None:
    """Else other models in each of them would average the noise away."""
    noises = []
    for repetitions in (1, 4):
        site = real_site(tmp_path, repetitions=repetitions)
        select(site)
        noises.append(exchange(site, {"a": model_of(), "b": model_of(slope=2.0)}).noise)
    assert noises[1] == pytest.approx(2 * noises[0])


def test_moments_leave_only_a_run_that_pools_a_regression(tmp_path: Path) -> None:
    with pytest.raises(SiteFault) as refused:
        select(real_site(tmp_path), moments=True)
    assert refused.value.fault is Fault.MALFORMED_ASK


def test_another_set_of_models_is_refused_and_the_same_gets_the_same_answer(tmp_path: Path) -> None:
    site = real_site(tmp_path)
    select(site)
    first = exchange(site, {"a": model_of(), "b": model_of(slope=2.0)})
    again = exchange(site, {"a": model_of(), "b": model_of(slope=2.0)})
    np.testing.assert_array_equal(first.losses, again.losses)
    with pytest.raises(SiteFault) as refused:
        exchange(site, {"a": model_of(), "b": model_of(slope=2.5)})
    assert refused.value.fault is Fault.MALFORMED_ASK


@pytest.mark.parametrize("n", [40, 400, 4000])
@pytest.mark.parametrize("fewest", [1, 4])
def test_own_weights_tell_of_no_single_row_and_an_own_power_would(n: int, fewest: int) -> None:
    """One model knows nothing, the other one is sure in a box of few rows and knows hardly more elsewhere.

    So weights and power follow from the rows in the box, and elsewhere the held-out rows show them to the center.
    """
    rng, held = np.random.default_rng(0), n // 4
    own = rng.uniform(0.3, 0.95, n + held)
    noise = noise_of(5, 8) / held
    told: dict[str, list[float]] = {"weights": [], "power": []}
    for sure, little in itertools.product((0.8, 1 - 1e-6), (0.1, 12 / n, 4 / n)):
        right = np.full((2, n + held), 0.5)
        right[1] += little
        losses: dict[str, list[np.ndarray]] = {"weights": [], "power": []}
        for of_first in (sure, 1 - sure):  # whether the row in the box has the class that is foretold
            right[1, :fewest], right[1, 0] = sure, of_first
            known = np.exp(supported_predictions(np.log(right), np.log(own), np.array([5, 5])))
            mixed = mixture_weights(known[:, :n], np.array([0.5, 0.5])) @ known[:, n:]
            losses["weights"].append(-np.log(mixed))
            power = best_power(np.stack([right[1, :n], 1 - right[1, :n]], axis=1), np.zeros(n, np.int64))
            p = np.stack([right[1, n:], 1 - right[1, n:]], axis=1)
            losses["power"].append(-np.log(sharpened(p, power)[:, 0]))
        for what, (one, other) in losses.items():
            size = noise * np.abs(one + np.log(own[n:])).max()
            told[what].append(float(abs(one.mean() - other.mean()) / size))
    assert max(told["weights"]) < 0.5
    assert max(told["power"]) > 1  # which is why no answer of a real site has it


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("classes", [True, False])
def test_leaves_of_boosted_trees_do_not_count_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: bool, protected: bool
) -> None:
    """They are equations in the numbers of rows, and sums of outcomes, between all thresholds."""
    if not protected:
        monkeypatch.setattr("numerics.sec.coarse_leaves.SHARE", 0.0)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 2))
    y = x[:, 0] + np.sin(2 * x[:, 1]) + 0.3 * rng.normal(size=80)
    outcome = np.where(y > 0, "yes", "no") if classes else y
    pd.DataFrame({"age": x[:, 0], "dose": x[:, 1], "y": outcome}).to_csv(tmp_path / "ward.csv", index=False)
    (played,) = play("sec", tmp_path / "ward.csv", settings={"target": "y"}, only="leaves")
    assert played.groups_out == 0 if protected else played.n_true > 20, played.lines
