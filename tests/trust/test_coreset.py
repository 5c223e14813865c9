"""What leaves a site in fair clustering and what does not, whatever the center asks; what the center takes from it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from clients.coreset.handlers import MOST_TABLES, MOST_TABLES_OF_A_RUN
from clients.site import Site
from protocols.coreset.payloads import (
    LARGEST,
    MOST_REFINED,
    Assign,
    ClusterCosts,
    ClusterCounts,
    Compare,
    Masses,
    Moments,
    Price,
    Refine,
    Settle,
    Summarize,
    Summary,
)
from protocols.wire.faults import Fault
from protocols.wire.payload import decode_array
from server.results import load
from tests.support.coreset_sites import (
    FEATURES,
    SITES,
    ask,
    assert_refused,
    cluster,
    context_of,
    deployed_sites,
    forgery,
    own_data_config,
    patients,
    site_at,
    site_of,
    split_over_sites,
    write_files,
    write_world,
)
from tests.support.parameters import few
from tests.support.runs import make_grid, outcome_of, run_over

EXACT = {"coreset__assignment": "exact"}
HOSPITAL = 1
CANARY_GROUP = "canary-group-5c1"
CANARY = [41.062509765625, 86_420.9753125, 0.7310585786300049]
"""Coordinates of a row that nobody else has."""

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


# -- every byte that crosses ------------------------------------------------------------------------------------------


def bytes_of(contents: Iterable[RecordDict]) -> bytes:
    """What crossed, as Flower sends it."""
    return b"".join(each.deflate() for content in contents for each in get_all_nested_objects(content).values())


def numbers_of(contents: Iterable[RecordDict]) -> np.ndarray:
    """Every floating-point number that crossed."""
    found = [
        np.ravel(decode_array(array))
        for content in contents
        for records in content.array_records.values()
        for array in records.values()
    ]
    return np.unique(np.concatenate([each.astype(np.float64) for each in found if each.dtype.kind == "f"]))


@pytest.mark.parametrize(
    "changes", few([{}, EXACT, {"coreset__construction": "kmeans"}, {"coreset__projection": 2}], 2)
)
@pytest.mark.parametrize("least", few([5, 2]))
def test_no_row_and_no_rare_group_crosses_or_is_kept_at_the_center(
    tmp_path: Path, changes: dict[str, Any], least: int
) -> None:
    """Not one coordinate of any of the rows, in whatever message: every point is the mean of several."""
    frame = patients().copy()
    frame.loc[3, list(FEATURES)] = CANARY
    frame.loc[4, "sex"] = CANARY_GROUP
    folder = write_world(tmp_path / "files", frame)
    settings, nodes = deployed_sites(tmp_path, folder, coreset__size=200, coreset__min_weight=1, **changes)
    grid = make_grid(settings, [{**node, "min-weight": least} for node in nodes])
    path = run_over(grid, settings)
    contents = [content for _, content in grid.crossed]
    crossed = bytes_of(contents)
    assert b"practice" in crossed
    assert b"income" in crossed
    for text in (CANARY_GROUP, *frame["patient"][:20]):
        assert text.encode() not in crossed
    for value in CANARY:
        for kind in ("<f8", "<f4", ">f8"):
            assert np.array(value, kind).tobytes() not in crossed
        assert repr(value).encode() not in crossed
    rows = frame[list(FEATURES)].to_numpy()
    assert not np.isin(rows, numbers_of(contents)).any()
    kept = b"".join(each.read_bytes() for each in path.rglob("*") if each.is_file())
    for text in (CANARY_GROUP, frame["patient"][7], repr(CANARY[0])):
        assert text.encode() not in kept
    arrays = load(path)[1]
    assert arrays["weights"].min() >= least
    assert not np.isin(
        rows, np.concatenate([np.ravel(each) for each in arrays.values() if each.dtype.kind == "f"])
    ).any()


def test_where_every_row_may_be_sent_it_is_seen(tmp_path: Path) -> None:
    """The search above finds what is there."""
    frame = patients(30)
    settings, nodes = deployed_sites(tmp_path, write_world(tmp_path / "files", frame), coreset__min_weight=1)
    grid = make_grid({**settings, "coreset.size": 100}, [{**node, "min-weight": 1} for node in nodes])
    run_over(grid, {**settings, "coreset.size": 100})
    assert np.isin(frame[list(FEATURES)].to_numpy(), numbers_of(content for _, content in grid.crossed)).all()


def test_the_larger_of_two_least_weights_holds(tmp_path: Path, folder: Path) -> None:
    """Five where a real site says nothing, more where the run or the site does."""
    for asked, own_least, expected in [(1, None, 5), (5, 12, 12), (9, 2, 9), (1, 1, 1)]:
        settings, nodes = deployed_sites(tmp_path / f"{asked} {own_least}", folder, coreset__min_weight=asked)
        settings["coreset.size"] = 60
        nodes = [{**node, **({} if own_least is None else {"min-weight": own_least})} for node in nodes]
        found = cluster(settings, nodes)
        assert found.arrays["weights"].min() >= expected
        assert found.arrays["weights"].min() < expected + 5


@pytest.mark.parametrize("bad", [0, -3, 2.5, "many"])
def test_a_least_weight_that_is_none_costs_its_site(tmp_path: Path, folder: Path, bad: Any) -> None:
    settings, nodes = deployed_sites(tmp_path, folder)
    nodes[0]["min-weight"] = bad
    told = outcome_of(settings, nodes).text
    assert "clinic: " in told
    assert "[bad-configuration]" in told


def test_clusters_stay_in_the_site_s_own_directory(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder)
    del nodes[0]["site-output-dir"]
    found = cluster(settings, nodes)
    assert not list(found.path.rglob("clusters.csv"))
    assert not (tmp_path / "home" / "clinic").exists()
    assert (tmp_path / "home" / "practice" / "clusters.csv").exists()


def test_names_of_rows_are_written_as_they_are_but_for_formulas(tmp_path: Path) -> None:
    frame = patients().copy()
    odd = ['o\'hara, "jo"', "line\nbreak", "=1+2", "Zoë"]
    frame.loc[:3, "patient"] = odd
    found = cluster(own_data_config(tmp_path, write_world(tmp_path / "files", frame)))
    with (found.path / "sites" / SITES[0] / "clusters.csv").open(encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)][1:5] == [*odd[:2], "'=1+2", "Zoë"]


# -- asks that an honest center does not make -------------------------------------------------------------------------

HOW = (12, "bico", 0, 5, True)
PRICES: dict[str, Any] = {"allow-prices": True}
CENTERS = np.array([[30.0, 2e4, 0.2], [60.0, 5e4, 0.5]])
UNIT = np.ones(3)
COLD = 1e-3


def follow(summary: Summary, **changes: Any) -> Assign:
    """An honest ask: every point to the first center."""
    n = len(summary.weights)
    place = np.arange(n)
    honest = Assign(*HOW, summary.groups, CENTERS, UNIT, place, np.zeros(n, np.int64), summary.weights)
    return replace(honest, **changes)


def priced(groups: tuple[str, ...], **changes: Any) -> Price:
    honest = Price(*HOW, groups, CENTERS, UNIT, np.zeros((1, len(groups), 2)), COLD * np.ones(1))
    return replace(honest, **changes)


def refined(groups: tuple[str, ...], **changes: Any) -> Refine:
    honest = Refine(*HOW, groups, CENTERS, UNIT, np.zeros((1, len(groups), 2)), COLD * np.ones(1), CENTERS)
    return replace(honest, **changes)


@pytest.mark.parametrize(
    "changes",
    [{"size": 0}, {"size": -4}, {"size": 10**9}, {"construction": "rows"}, {"projection": -1}, {"min_weight": 0}],
)
def test_constructions_that_are_none_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert_refused(site_of(tmp_path), replace(Summarize(*HOW), **changes))


def test_a_point_of_fewer_rows_than_the_site_allows_is_never_sent(tmp_path: Path) -> None:
    for size, least in [(500, 1), (40, 1), (12, 3)]:
        summary = ask(site_of(tmp_path), replace(Summarize(*HOW), size=size, min_weight=least))
        assert summary.weights.min() >= 5


def begun(tmp_path: Path, **node: Any) -> tuple[Site, Summary]:
    """A site that has been asked for its coreset, and this."""
    site = site_of(tmp_path, **node)
    return site, ask(site, Summarize(*HOW))


def test_shares_that_are_not_those_of_the_points_are_refused(tmp_path: Path) -> None:
    site, summary = begun(tmp_path)
    weights, n = summary.weights, len(summary.weights)
    assert ask(site, follow(summary), 2).counts.sum() == 120
    changed: list[dict[str, Any]] = [
        {"mass": weights + 1},
        {"mass": weights * 2},
        {"point": np.zeros(n, np.int64)},
        {"point": np.arange(n) + 1},
        {"mass": np.r_[weights[:1] + weights[1:2], np.zeros(1, np.int64), weights[2:]]},
        {"point": np.zeros(0, np.int64), "center": np.zeros(0, np.int64), "mass": np.zeros(0, np.int64)},
    ]
    for changes in changed:
        assert_refused(begun(tmp_path)[0], follow(summary, **changes), Fault.DATA_CHANGED)
    changed = [
        {"point": np.r_[-1, np.arange(n - 1)]},
        {"centers": 1e60 * CENTERS},
        {"groups": ()},
        {"center": np.full(n, 2)},
        {"center": np.full(n, -1)},
        {"centers": CENTERS[:, :2]},
        {"centers": CENTERS[:0]},
        {"scale": np.array([1.0, 0.0, 1.0])},
        {"scale": -UNIT},
    ]
    for changes in changed:
        assert_refused(begun(tmp_path)[0], follow(summary, **changes))


def compared(summary: Summary, **changes: Any) -> Compare:
    """An honest ask: every point to the first center, which has as many rows elsewhere as here."""
    fields = vars(follow(summary)) | {
        "shift": np.zeros((len(summary.groups), 2)),
        "sizes": np.array([240, 0]),
        "alpha": 1.0,
    }
    return Compare(**{**fields, **changes})


def test_a_comparison_that_is_none_is_refused(tmp_path: Path) -> None:
    site, summary = begun(tmp_path)
    assert ask(site, compared(summary), 2).rows == 120
    assert_refused(site, compared(summary, alpha=0.5))
    assert_refused(site, compared(summary, sizes=np.array([120, 0])))
    none = np.zeros(0, np.int64)
    by_prices = {"point": none, "center": none, "mass": none}
    assert_refused(begun(tmp_path)[0], compared(summary, **by_prices), Fault.PRICES_NOT_ALLOWED)
    assert_refused(begun(tmp_path)[0], compared(summary, mass=summary.weights + 1), Fault.DATA_CHANGED)
    for changes in (
        {"alpha": 0.0},
        {"sizes": np.array([120])},
        {"sizes": np.array([119, 1])},
        {"shift": np.zeros((1, 2))},
    ):
        assert_refused(begun(tmp_path)[0], compared(summary, **changes))


def test_a_comparison_tells_of_made_up_centers_what_the_points_tell(tmp_path: Path) -> None:
    """A center far away, to which some points go: the cost is that of points and movement, with three digits."""
    _, summary = begun(tmp_path)
    center = np.zeros(len(summary.weights), np.int64)
    for far in (1e3, 1e6):
        centers = np.stack([summary.points.mean(axis=0), summary.points[0] + far])
        answer = ask(begun(tmp_path)[0], compared(summary, centers=centers, center=center, sizes=np.full(2, 10**9)), 2)
        known = summary.weights @ ((summary.points - centers[center]) ** 2).sum(axis=1) + summary.movement.sum()
        assert answer.together == pytest.approx(known, rel=5.1e-3)
        assert [float(f"{each:.3g}") for each in (answer.alone, answer.together, answer.squares)] == [
            answer.alone,
            answer.together,
            answer.squares,
        ]
        center = np.where(np.arange(len(center)) < 3, 1, 0)


def test_groups_that_were_not_told_are_refused(tmp_path: Path) -> None:
    site, summary = begun(tmp_path, **PRICES)
    assert_refused(site, follow(summary, groups=("F", "X")), Fault.DATA_CHANGED)
    assert_refused(site, priced(("X", "Y")), Fault.DATA_CHANGED)


def settle(groups: tuple[str, ...], **changes: Any) -> Settle:
    """An honest ask: by its prices every row of the clinic goes to the first center, and one then to the other."""
    shift = np.tile([0.0, 1e12], (len(groups), 1))
    corrections = np.zeros((1, *shift.shape), np.int64)
    corrections[0, 0] = [-1, 1]
    honest = Settle(*HOW, groups, CENTERS, UNIT, CENTERS, shift, COLD, ("clinic",), corrections)
    return replace(honest, **changes)


def test_prices_and_corrections_of_other_shapes_are_refused(tmp_path: Path) -> None:
    site, summary = begun(tmp_path, **PRICES)
    groups = summary.groups
    assert ask(site, priced(groups)).masses.sum() == 120
    changed: list[dict[str, Any]] = [
        {"shifts": np.zeros((1, 3, 2))},
        {"shifts": np.zeros((1, 2, 3))},
        {"shifts": np.zeros((0, 2, 2)), "temperatures": np.zeros(0)},
        {"shifts": np.full((1, 2, 2), 1e150)},
        {"temperatures": -np.ones(1)},
        {"temperatures": np.zeros(1)},
        {"shifts": np.zeros((1000, 2, 2)), "temperatures": COLD * np.ones(1000)},
    ]
    for changes in changed:
        assert_refused(site, priced(groups, **changes))
    honest = settle(groups)
    rows = split_over_sites(patients())["clinic"]["sex"].value_counts()[list(groups)].to_numpy()
    np.testing.assert_array_equal(ask(site, honest).counts, [rows - [1, 0], [1, 0]])
    changed = [
        {"corrections": honest.corrections[..., :1]},
        {"shift": np.zeros((2, 3))},
        {"shift": 1e150 * honest.shift},
        {"temperature": 0.0},
        {"sites": ("practice",)},
        {"sites": ("clinic", "clinic"), "corrections": np.repeat(honest.corrections, 2, axis=0)},
        {"corrections": honest.corrections + np.array([1, 0])},
        {"corrections": 1000 * honest.corrections},
        {"plain": CENTERS[:0]},
        {"plain": 1e60 * CENTERS},
    ]
    for changes in changed:
        assert_refused(begun(tmp_path, **PRICES)[0], replace(honest, **changes))


# -- a center that goes back on its word ------------------------------------------------------------------------------


def test_a_real_site_answers_no_prices_unless_it_says_so(tmp_path: Path, folder: Path) -> None:
    site, summary = begun(tmp_path)
    assert_refused(site, priced(summary.groups), Fault.PRICES_NOT_ALLOWED)
    assert_refused(site, refined(summary.groups), Fault.PRICES_NOT_ALLOWED)
    settings, nodes = deployed_sites(tmp_path, folder, **EXACT)
    del nodes[HOSPITAL]["allow-prices"]
    found = outcome_of(settings, nodes)
    assert found.report is not None
    assert "[prices-not-allowed]" in found.text
    assert found.report.metrics["n_rows"] == 240
    # The run's configuration is the center's, and consents to nothing.
    assert "unknown key 'allow-prices'" in outcome_of({**settings, "allow-prices": True}, nodes).refusal


@pytest.mark.parametrize("changes", [{"size": 13}, {"construction": "kmeans"}, {"projection": 2}, {"min_weight": 6},
                                     {"scaled": False}])  # fmt: skip
def test_a_second_way_to_group_the_rows_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """What two groupings of the same rows differ by can be one row; so it is in every lane and session of a run."""
    context = context_of(tmp_path)
    other = replace(Summarize(*HOW), **changes)
    expected = ask(site_at(context), Summarize(*HOW))
    for site in (site_at(context), site_at(context, session="another")):
        assert_refused(site, other)
        again = ask(site, Summarize(*HOW))
        np.testing.assert_array_equal(again.points, expected.points)
    assert_refused(site_at(context, lane="1"), Summarize(*HOW))
    assert_refused(site_at(context, lane="0.1"), Summarize(*HOW))
    np.testing.assert_array_equal(ask(site_at(context, seed=5), Summarize(*HOW)).points, expected.points)


def test_sums_around_other_centers_are_refused(tmp_path: Path) -> None:
    context = context_of(tmp_path, **PRICES)
    summary = ask(site_at(context), Summarize(*HOW))
    groups, moved = summary.groups, CENTERS.copy()
    moved[0, 1] += 1
    ask(site_at(context), priced(groups))
    ask(site_at(context), priced(groups, shifts=np.ones((2, 2, 2)), temperatures=COLD * np.ones(2)))
    for site in (site_at(context), site_at(context, session="another")):
        for changes in ({"centers": moved}, {"scale": 2 * UNIT}, {"centers": CENTERS[::-1].copy()}):
            assert_refused(site, priced(groups, **changes))
            assert_refused(site, settle(groups, **changes))
            assert_refused(site, follow(summary, **changes))


def test_rows_are_assigned_once(tmp_path: Path) -> None:
    context = context_of(tmp_path, **PRICES)
    summary = ask(site_at(context), Summarize(*HOW))
    first = ask(site_at(context), follow(summary))
    again = ask(site_at(context), follow(summary))  # since its answer was lost
    np.testing.assert_array_equal(again.counts, first.counts)
    assert_refused(site_at(context), follow(summary, center=np.ones(len(summary.weights), np.int64)))
    assert_refused(site_at(context), settle(summary.groups))


def test_costs_around_centers_are_told_once(tmp_path: Path) -> None:
    context = context_of(tmp_path, **PRICES)
    groups = ask(site_at(context), Summarize(*HOW)).groups
    first = ask(site_at(context), settle(groups))
    assert ask(site_at(context), settle(groups)).cost == first.cost
    for plain in (CENTERS + 1, CENTERS[:1]):
        assert_refused(site_at(context), settle(groups, plain=plain))
    assert_refused(site_of(tmp_path / "another"), settle(groups), Fault.PRICES_NOT_ALLOWED)


def test_a_run_has_so_many_tables_of_prices_and_centers(tmp_path: Path) -> None:
    groups = begun(tmp_path)[1].groups
    context = context_of(tmp_path, **PRICES)
    tables = {"shifts": np.zeros((MOST_TABLES, 2, 2)), "temperatures": COLD * np.ones(MOST_TABLES)}
    for _ in range(MOST_TABLES_OF_A_RUN // MOST_TABLES):
        ask(site_at(context), priced(groups, **tables))
    assert_refused(site_at(context), priced(groups, **tables))
    many = np.repeat(CENTERS, 13, axis=0)
    shifts = np.zeros((1, 2, len(many)))
    few = Fault.FEW_ROWS_FOR_PRICES
    assert_refused(site_of(tmp_path, **PRICES), priced(groups, centers=many, shifts=shifts), few)


def test_centers_move_so_often_in_a_run(tmp_path: Path) -> None:
    groups = begun(tmp_path)[1].groups
    context = context_of(tmp_path, **PRICES)
    for changes in ({"plain": CENTERS[:0]}, {"plain": 1e60 * CENTERS}, {"shifts": np.zeros((1, 2, 3))}):
        assert_refused(site_at(context), refined(groups, **changes))
    for number in range(2 * MOST_REFINED - 1):
        ask(site_at(context), refined(groups, centers=CENTERS + number / 100))
    assert_refused(site_at(context), refined(groups))


# -- answers that no honest site gives --------------------------------------------------------------------------------


def lighter(summary: Summary, weight: int) -> dict[str, Any]:
    """One point less heavy, another heavier: the sums agree."""
    weights = summary.weights.copy()
    weights[1] += weights[0] - weight
    weights[0] = weight
    return {"weights": weights}


def with_points(summary: Summary, value: float) -> dict[str, Any]:
    points = summary.points.copy()
    points[0, 0] = value
    return {"points": points}


def more_points(summary: Summary) -> dict[str, Any]:
    times = 24
    return {
        "points": np.repeat(summary.points, times, axis=0),
        "weights": np.repeat(summary.weights, times),
        "group": np.repeat(summary.group, times),
        "n_rows": summary.n_rows * times,
    }


SUMMARIES: dict[str, tuple[str, Callable[[Summary], dict[str, Any]]]] = {
    "a weight is negative": ("weights", lambda s: lighter(s, -3)),
    "a weight is none": ("weights", lambda s: lighter(s, 0)),
    "a point of one row": ("weights", lambda s: lighter(s, 1)),
    "a point of less rows than asked": ("weights", lambda s: lighter(s, 4)),
    "weights that overflow": ("n_rows", lambda s: {"weights": np.full(len(s.weights), 2**62)}),
    "more rows than there can be": (
        "n_rows",
        lambda s: {"weights": s.weights * 10**9, "n_rows": s.n_rows * 10**9},
    ),
    "rows that are not those of the points": ("n_rows", lambda s: {"n_rows": s.n_rows + 1}),
    "rows withheld that make up for it": ("n_rows", lambda s: {"withheld": -5, "n_rows": s.n_rows - 5}),
    "a negative number of points merged": ("n_rows", lambda s: {"merged": -1}),
    "a group that is not named": ("group", lambda s: {"group": s.group + 1}),
    "a group before the first": ("group", lambda s: {"group": s.group - 1}),
    "a name without points": ("group", lambda s: {"groups": (*s.groups, "X")}),
    "a coordinate beyond all measure": ("points", lambda s: with_points(s, 1e200)),
    "another, below zero": ("points", lambda s: with_points(s, -2 * LARGEST)),
    "a negative movement": ("movement", lambda s: {"movement": s.movement * [1, -1, 1]}),
    "a movement beyond all measure": ("movement", lambda s: {"movement": s.movement + 1e200}),
    "more points than asked": ("points", more_points),
    "no points": (
        "points",
        lambda s: {
            "points": s.points[:0], "weights": s.weights[:0], "group": s.group[:0],
            "n_rows": 0, "withheld": 0, "groups": ("F",),
        },
    ),
    "columns that are not named": ("points", lambda s: {"features": s.features[:2]}),
    "a column named twice": ("features", lambda s: {"features": ("age", "age", "score")}),
    "no names": ("groups", lambda s: {"groups": ()}),
    "a name of control characters": ("groups", lambda s: {"groups": ("F", "M\x1b[2J")}),
    "a name of two lines": ("features", lambda s: {"features": ("age", "in\ncome", "score")}),
    "a name that turns the writing round": ("groups", lambda s: {"groups": ("F", "\u202eM")}),
    "an empty name": ("groups", lambda s: {"groups": ("", "M")}),
    "a name without end": ("groups", lambda s: {"groups": ("F", "M" * 10_000)}),
}  # fmt: skip


@pytest.mark.parametrize("what", SUMMARIES)
def test_a_coreset_that_is_none_is_refused(tmp_path: Path, folder: Path, what: str) -> None:
    """Its site is named with the payload and the field, and the others go on."""
    field, change = SUMMARIES[what]
    tamper = forgery(HOSPITAL, [1], lambda answer: replace(answer, **change(answer)))
    found = cluster(own_data_config(tmp_path, folder), tamper=tamper)
    [line] = found.report.missing["hospital"]
    assert line.startswith(f"round 1: refused: payload coreset.Summary, field '{field}': ")
    assert line.isprintable()
    assert found.metrics["n_rows"] == 240
    rows = found.rows("clinic", "practice")
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])


def test_a_coreset_far_from_all_others_is_survived(tmp_path: Path, folder: Path) -> None:
    """What could be true is taken: it ruins the centers of its run, and nothing else."""
    tamper = forgery(HOSPITAL, [1], lambda answer: replace(answer, points=answer.points + 1e40))
    for changes in ({}, EXACT):
        found = cluster(own_data_config(tmp_path, folder, **changes), tamper=tamper)
        assert not found.report.missing
        assert np.isfinite(list(found.metrics.values())).all()
        rows = found.rows()
        np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])


def shifted(counts: np.ndarray) -> np.ndarray:
    """A row moved from one cluster to another."""
    moved = counts.copy()
    moved[0, 0] += 1
    moved[1, 0] -= 1
    return moved


COUNTS: dict[str, tuple[str, Callable[[ClusterCounts], dict[str, Any]]]] = {
    "a row elsewhere": ("counts", lambda c: {"counts": shifted(c.counts)}),
    "a group less": ("counts", lambda c: {"counts": c.counts[:, :1]}),
    "a cluster more": ("counts", lambda c: {"counts": np.pad(c.counts, [(0, 1), (0, 0)])}),
    "negative numbers": ("counts", lambda c: {"counts": -c.counts}),
}
COSTS: dict[str, tuple[str, Callable[[ClusterCosts], dict[str, Any]]]] = {
    "a negative cost": ("cost", lambda c: {"cost": -1.0}),
    "a cost beyond all measure": ("cost", lambda c: {"cost": 1e150}),
    "a cost of other rows": ("cost", lambda c: {"cost": 100 * c.cost}),
    "a plain cost of other rows": ("plain_cost", lambda c: {"plain_cost": 100 * c.plain_cost}),
    "a plain cost below zero": ("plain_cost", lambda c: {"plain_cost": -1e-3}),
}


@pytest.mark.parametrize(
    ("what", "changes"), [*((what, {}) for what in COUNTS), *((what, EXACT) for what in (*COUNTS, *COSTS))]
)
def test_counts_that_were_not_told_are_refused(
    tmp_path: Path, folder: Path, what: str, changes: dict[str, Any]
) -> None:
    settings = own_data_config(tmp_path, folder, **changes)
    last = cluster(settings).report.rounds
    field, change = {**COUNTS, **COSTS}[what]
    payload = "ClusterCosts" if changes else "ClusterCounts"
    found = cluster(settings, tamper=forgery(HOSPITAL, [last], lambda answer: replace(answer, **change(answer))))
    [line] = found.report.missing["hospital"]
    assert line.startswith(f"round {last}: refused: payload coreset.{payload}, field '{field}': ")
    assert any(note.startswith("hospital: sent a coreset, but did not confirm") for note in found.report.notes)
    rows = found.rows("clinic", "practice")
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])


def moved(masses: np.ndarray) -> np.ndarray:
    """The rows of one group, as many as before, some below nothing."""
    changed = masses.copy()
    changed[..., 0] += 1000
    changed[..., 1] -= 1000
    return changed


MASSES: dict[str, tuple[str, Callable[[Masses], dict[str, Any]]]] = {
    "rows that are not there": ("masses", lambda m: {"masses": m.masses * 1.1}),
    "negative rows": ("masses", lambda m: {"masses": moved(m.masses)}),
    "another number of tables": (
        "masses",
        lambda m: {name: np.repeat(getattr(m, name), 2, axis=0) for name in ("exact", "masses", "curvature", "whole")},
    ),
    "whole rows that are not there": ("whole", lambda m: {"whole": m.whole + 1}),
    "negative whole rows": ("whole", lambda m: {"whole": moved(m.whole)}),
    "a sum beyond all measure": ("exact", lambda m: {"exact": m.exact + 1e150}),
    "a curvature beyond all measure": ("curvature", lambda m: {"curvature": m.curvature - 1e150}),
}


@pytest.mark.parametrize("number", few([2, 3]))
@pytest.mark.parametrize("what", MASSES)
def test_masses_that_cannot_be_are_refused(tmp_path: Path, folder: Path, what: str, number: int) -> None:
    field, change = MASSES[what]
    tamper = forgery(HOSPITAL, range(number, 1000), lambda answer: replace(answer, **change(answer)))
    found = cluster(own_data_config(tmp_path, folder, **EXACT), tamper=tamper)
    lines = found.report.missing["hospital"]
    assert lines[0].startswith(f"round {number}: refused: payload coreset.Masses, field '{field}': ")
    assert any("while all rows were priced" in line for line in lines)
    rows = found.rows("clinic", "practice")
    np.testing.assert_array_equal(found.counts(rows), found.arrays["counts"])
    assert found.metrics["max_violation"] < 2


@pytest.mark.parametrize("what", few(list(MASSES), 3))
def test_masses_that_cannot_be_are_asked_for_once_more(tmp_path: Path, folder: Path, what: str) -> None:
    """They leave no trace in what is found."""
    _, change = MASSES[what]
    expected = cluster(own_data_config(tmp_path / "whole", folder, **EXACT))
    tamper = forgery(HOSPITAL, [3], lambda answer: replace(answer, **change(answer)))
    found = cluster(own_data_config(tmp_path / "forged", folder, **EXACT), tamper=tamper)
    assert found.metrics == expected.metrics
    assert [line.split(":")[0] for line in found.report.missing["hospital"]] == ["round 3"]


MOMENTS: dict[str, tuple[str, Callable[[Moments], dict[str, Any]]]] = {
    "sums of rows that lie elsewhere": ("sums", lambda m: {"sums": m.sums + 100}),
    "sums beyond all rows, which make up for one another": (
        "sums",
        lambda m: {"sums": m.sums + 1e4 * np.arange(-1, 2)[:, np.newaxis]},
    ),
    "sums of fewer columns": ("sums", lambda m: {"sums": m.sums[..., 1:], "plain_sums": m.plain_sums[:, 1:]}),
    "plain sums of rows that lie elsewhere": ("plain_sums", lambda m: {"plain_sums": m.plain_sums * 3}),
    "rows that are not there": ("plain_rows", lambda m: {"plain_rows": m.plain_rows + 1}),
    "negative rows": ("plain_rows", lambda m: {"plain_rows": m.plain_rows + np.array([500, -500, 0])}),
    "masses that are not those of the rows": ("whole", lambda m: {"whole": m.whole + 1}),
    "negative masses": ("whole", lambda m: {"whole": moved(m.whole)}),
}


@pytest.mark.parametrize("what", MOMENTS)
def test_sums_that_cannot_be_are_refused(tmp_path: Path, folder: Path, what: str) -> None:
    field, change = MOMENTS[what]

    def forged(answer: Any) -> Any:
        return replace(answer, **change(answer)) if isinstance(answer, Moments) else answer

    settings = own_data_config(tmp_path, folder, **EXACT, coreset__refine=1)
    found = cluster(settings, tamper=forgery(HOSPITAL, [2], forged))
    line = found.report.missing["hospital"][0]
    assert line.startswith(f"round 2: refused: payload coreset.Moments, field '{field}': ")


def test_a_name_is_shown_as_text(tmp_path: Path) -> None:
    """Groups come from sites, and stand in a page that is read elsewhere."""
    parts = split_over_sites(patients())
    parts["clinic"] = parts["clinic"].assign(sex=parts["clinic"]["sex"].replace("F", "<script>alert(1)</script>"))
    found = cluster(own_data_config(tmp_path, write_files(tmp_path / "files", parts)))
    page = (found.path / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
