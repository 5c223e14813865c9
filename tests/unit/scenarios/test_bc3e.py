"""Scenarios of BC3E: the labeled set, splits that lose nothing, baselines, and clear messages."""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.bc3e.ensemble import Ensemble, n_values, present
from scenarios import bc3e, datasets, registry
from scenarios.bc3e.split import PRIVATE_SHARE, split_arbitrary, split_columns, split_rows
from scenarios.registry import ScenarioError
from tests.support.data_files import SHARED, needs
from tests.support.documentation import ROOT

NAMES = ["bc3e-wine", "bc3e-halfmoon", pytest.param("bc3e-heart", marks=needs("heart"))]
CLASSES = {"bc3e-wine": 3, "bc3e-halfmoon": 2, "bc3e-heart": 2}


def config(**bc3e_settings: float | str) -> registry.Config:
    """A run configuration that finds the shared data."""
    return {
        "data": str(SHARED) if SHARED.exists() else "",
        **{f"bc3e.{key}": value for key, value in bc3e_settings.items()},
    }


def digest(ensembles: list[Ensemble]) -> str:
    """Hash of everything that a list of ensembles holds, bit for bit."""
    digest = hashlib.sha256()
    for part in ensembles:
        arrays = {"truth": part.truth, "entity": part.entity, **part.classifiers, **part.clusterings}
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


# -- registry ---------------------------------------------------------------------------------------------------------


def test_registry_lists_the_bc3e_scenarios() -> None:
    known = registry.scenarios()
    assert list(known) == sorted(known)
    for name in CLASSES:
        scenario = registry.find(name)
        assert (scenario.name, scenario.protocol, scenario.sites, scenario.any_number) == (name, "bc3e", 2, True)
        assert not scenario.published


def test_defaults_are_those_of_pyproject() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]["bc3e"]
    flat = {f"bc3e.{key}": value for key, value in declared.items()}
    assert bc3e.pooled("bc3e-wine", flat, 0) is bc3e.pooled("bc3e-wine", {}, 0)
    assert digest(bc3e.shards("bc3e-wine", flat, 0, 3)) == digest(bc3e.shards("bc3e-wine", {}, 0, 3))


# -- worlds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clusterings", list(bc3e.CLUSTERINGS))
def test_pooled_is_a_target_set_with_hard_labels(name: str, clusterings: str) -> None:
    ensemble, k = bc3e.pooled(name, config(clusterings=clusterings), 0), CLASSES[name]
    single_link, k_means = bc3e.CLUSTERINGS[clusterings]
    assert list(ensemble.classifiers) == ["discriminant", "logistic", "tree"]
    assert set(ensemble.clusterings) == {f"single-link-{k * c}" for c in single_link} | {
        f"k-means-{k * c}" for c in k_means
    }
    for model, labels in {**ensemble.classifiers, **ensemble.clusterings}.items():
        assert labels.shape == (ensemble.n,)
        assert labels.dtype == np.int64
        assert labels.min() >= 0
        if model in ensemble.clusterings:
            assert set(labels) == set(range(int(model.rpartition("-")[2])))
        else:
            assert labels.max() < k
    assert ensemble.truth is not None
    assert ensemble.entity is not None
    assert set(ensemble.truth) == set(range(k))
    assert ensemble.entity.dtype == np.int64
    assert len(set(ensemble.entity)) == ensemble.n


@pytest.mark.parametrize(("name", "n", "n_labeled"), [("bc3e-wine", 178, 18), ("bc3e-halfmoon", 400, 8)])
def test_entities_are_the_rows_that_are_not_labeled(name: str, n: int, n_labeled: int) -> None:
    for seed in range(5):
        ensemble = bc3e.pooled(name, {}, seed)
        assert ensemble.n == n - n_labeled
        assert ensemble.entity is not None
        assert ensemble.truth is not None
        classes = datasets.load("wine", None).outcome if name == "bc3e-wine" else np.repeat([0, 1], n // 2)
        np.testing.assert_array_equal(ensemble.truth, classes[ensemble.entity])
        labeled = np.delete(classes, ensemble.entity)
        assert np.bincount(labeled, minlength=CLASSES[name]).min() >= 2


def test_clusterings_and_distributions_are_compared_on_one_labeled_set() -> None:
    worlds = [bc3e.pooled("bc3e-wine", config(clusterings=clusterings), 3) for clusterings in bc3e.CLUSTERINGS]
    for world in worlds[1:]:
        np.testing.assert_array_equal(world.entity, worlds[0].entity)
        for model, labels in world.classifiers.items():
            np.testing.assert_array_equal(labels, worlds[0].classifiers[model])


def test_pooled_is_cached_and_cannot_be_changed() -> None:
    ensemble = bc3e.pooled("bc3e-wine", {}, 0)
    assert bc3e.pooled("bc3e-wine", {"seed": 7, "bc3e.max-rounds": 3}, 0) is ensemble
    with pytest.raises(ValueError, match="read-only"):
        ensemble.classifiers["tree"][0] = 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labeled": 1.0}, "bc3e.labeled must lie between 0 and 1"),
        ({"labeled": -0.1}, "bc3e.labeled must lie between 0 and 1"),
        ({"labeled": float("nan")}, "bc3e.labeled must lie between 0 and 1"),
        ({"labeled": "half"}, "bc3e.labeled must lie between 0 and 1"),
        ({"labeled": 0.01}, "labels 2 of 178 instances; two of each of the 3 classes take at least 6"),
        ({"labeled": 0.99}, "leaves 2 instances, too few for the 18 clusters of bc3e.clusterings='k-3k-6k'"),
        ({"clusterings": "k-5k"}, "bc3e.clusterings must be one of k, k-3k-6k, k-2k-4k-6k, not 'k-5k'"),
        ({"distribution": "diagonal"}, "bc3e.distribution must be one of row, column, arbitrary, not 'diagonal'"),
    ],
)
def test_wrong_parameters_are_one_clear_line(settings: dict[str, float | str], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        registry.find("bc3e-wine").shards(config(**settings), 0, 2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_world_is_refused() -> None:
    with pytest.raises(ScenarioError, match="unknown BC3E scenario 'bc3e-beer'"):
        bc3e.pooled("bc3e-beer", {}, 0)


def test_a_class_too_rare_for_the_labeled_set_ends_in_a_message(tmp_path: Path) -> None:
    file = tmp_path / "heart.csv"
    file.write_text("age,class\n" + "".join(f"{i},1\n" for i in range(99)) + "99,2\n")
    with pytest.raises(ScenarioError, match=r"no draw of 20 of 100 instances had two of each class"):
        bc3e.pooled("bc3e-heart", {"data": str(file), "bc3e.labeled": 0.2}, 0)


@pytest.mark.parametrize("name", NAMES)
def test_shards_reassemble_by_distribution(name: str) -> None:
    for how in bc3e.DISTRIBUTIONS:
        parts = registry.find(name).shards(config(distribution=how), 0, 4)
        assert len(parts) == 4
        assert_reassembles(parts, bc3e.pooled(name, config(), 0))


# -- baselines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_baselines_are_consistent_shares(name: str) -> None:
    found = registry.find(name).baselines(config(), 0)
    alone = [found[f"accuracy_{model}"] for model in ("tree", "logistic", "discriminant")]
    assert set(found) == {
        "accuracy_majority",
        "accuracy_best_component",
        "accuracy_tree",
        "accuracy_logistic",
        "accuracy_discriminant",
    }
    assert all(0 <= value <= 1 for value in found.values())
    assert found["accuracy_best_component"] == max(alone)


def test_a_tied_vote_goes_to_the_lowest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = np.array([[2, 1, 0], [1, 2, 2], [2, 1, 1], [0, 0, 2]])
    ensemble = Ensemble(
        4, dict(zip(("tree", "logistic", "discriminant"), votes.T, strict=True)), truth=np.array([0, 2, 1, 1])
    )
    monkeypatch.setattr(bc3e, "pooled", lambda name, config, seed: ensemble)
    assert bc3e.baselines("bc3e-wine", {}, 0) == {
        "accuracy_majority": 0.75,
        "accuracy_tree": 0.0,
        "accuracy_logistic": 0.5,
        "accuracy_discriminant": 0.75,
        "accuracy_best_component": 0.75,
    }


# -- splits -----------------------------------------------------------------------------------------------------------


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    """Hard and soft labels with gaps, of as few as no instances, with or without truth and names."""
    n, r1, r2 = draw(st.integers(0, 30)), draw(st.integers(0, 4)), draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def labels(k: int) -> np.ndarray:
        has_label = rng.random(n) < 0.8
        if draw(st.booleans()):
            return np.where(has_label, rng.integers(k, size=n), -1)
        return np.where(has_label[:, np.newaxis], rng.dirichlet(np.ones(k), size=n), 0.0)

    return Ensemble(
        n=n,
        # The same names on purpose: a classifier and a clustering may share one.
        classifiers={f"m{i}": labels(3) for i in range(r1)},
        clusterings={f"m{i}": labels(2 + i) for i in range(r2)},
        truth=rng.integers(-1, 3, size=n) if draw(st.booleans()) else None,
        entity=rng.permutation(n) + 100 if draw(st.booleans()) else None,
    )


def entries(ensemble: Ensemble) -> list[tuple[str, str, int, bytes]]:
    """Every label that an ensemble holds: kind, model, instance and value."""
    assert ensemble.entity is not None
    return [
        (kind, name, int(entity), label.tobytes())
        for kind, models in (("class", ensemble.classifiers), ("cluster", ensemble.clusterings))
        for name, labels in models.items()
        for entity, label in zip(ensemble.entity[present(labels)], np.asarray(labels)[present(labels)], strict=True)
    ]


def assert_reassembles(parts: list[Ensemble], whole: Ensemble) -> None:
    """Each entry lies at one site, and what sites say of an instance agrees with the whole."""
    entity = np.arange(whole.n) if whole.entity is None else whole.entity
    expected = Counter(entries(Ensemble(whole.n, whole.classifiers, whole.clusterings, entity=entity)))
    assert Counter(entry for part in parts for entry in entries(part)) == expected
    assert {e for part in parts for e in part.entity} == set(entity)
    position = {e: i for i, e in enumerate(entity)}
    for part in parts:
        index = [position[e] for e in part.entity]
        assert part.n == len(index) == len(set(index))
        assert (part.truth is None) == (whole.truth is None)
        if whole.truth is not None:
            np.testing.assert_array_equal(part.truth, whole.truth[index])
        for models, all_models in (
            (part.classifiers, whole.classifiers),
            (part.clusterings, whole.clusterings),
        ):
            for name, labels in models.items():
                assert labels.dtype == all_models[name].dtype
                assert labels.shape == (part.n, *all_models[name].shape[1:])


seeds = st.integers(0, 2**32 - 1)


@given(ensembles(), st.integers(1, 40), seeds)
def test_split_rows_reassembles(whole: Ensemble, n_sites: int, seed: int) -> None:
    parts = split_rows(whole, n_sites, np.random.default_rng(seed))
    assert len(parts) == n_sites
    assert_reassembles(parts, whole)
    sizes = [part.n for part in parts]
    assert sum(sizes) == whole.n
    assert max(sizes) - min(sizes) <= 1
    for part in parts:
        assert list(part.classifiers) == list(whole.classifiers)
        assert list(part.clusterings) == list(whole.clusterings)


@given(ensembles(), st.data(), seeds)
def test_split_columns_reassembles(whole: Ensemble, data: st.DataObject, seed: int) -> None:
    models = len(whole.classifiers) + len(whole.clusterings)
    n_sites = data.draw(st.integers(1, models + 1))
    if n_sites > models:
        with pytest.raises(ScenarioError, match=f"the ensemble has {models} "):
            split_columns(whole, n_sites, np.random.default_rng(seed))
        return
    parts = split_columns(whole, n_sites, np.random.default_rng(seed))
    assert len(parts) == n_sites
    assert_reassembles(parts, whole)
    held = [len(part.classifiers) + len(part.clusterings) for part in parts]
    assert sum(held) == models
    assert min(held) >= (2 if n_sites <= models // 2 else 1)
    assert all(part.n == whole.n for part in parts)


@given(ensembles(), st.integers(1, 10), seeds)
def test_split_arbitrary_reassembles(whole: Ensemble, n_sites: int, seed: int) -> None:
    parts = split_arbitrary(whole, n_sites, np.random.default_rng(seed))
    assert len(parts) == n_sites
    assert_reassembles(parts, whole)
    labels = [*whole.classifiers.values(), *whole.clusterings.values()]
    labeled = np.any([present(column) for column in labels], axis=0) if labels else np.zeros(whole.n, dtype=bool)
    entity = np.arange(whole.n) if whole.entity is None else whole.entity
    # An instance without any label is kept once; the others only where a label of theirs is.
    kept = Counter(e for part in parts for e in part.entity)
    assert all(kept[e] == 1 for e in entity[~labeled])
    for part in parts:
        held = [*part.classifiers.values(), *part.clusterings.values()]
        assert all(present(column).any() for column in held)
        some = np.any([present(column) for column in held], axis=0) if held else np.zeros(part.n, dtype=bool)
        assert set(part.entity[~some]) <= set(entity[~labeled])


def test_split_arbitrary_mixes_private_by_model_and_scattered_instances() -> None:
    whole = bc3e.pooled("bc3e-halfmoon", {}, 0)
    models = [*whole.classifiers, *whole.clusterings]
    parts = split_arbitrary(whole, 3, np.random.default_rng(0))
    holder = np.full((whole.n, len(models)), -1)
    position = {entity: i for i, entity in enumerate(whole.entity)}
    for site, part in enumerate(parts):
        rows = np.array([position[entity] for entity in part.entity])
        for name, labels in {**part.classifiers, **part.clusterings}.items():
            holder[rows[present(labels)], models.index(name)] = site
    assert holder.min() >= 0
    alone = (holder == holder[:, :1]).all(axis=1)
    # 9 labels scattered over 3 sites fall on one site in 1 of 6561 instances.
    assert alone.mean() == pytest.approx(PRIVATE_SHARE, abs=0.02)
    assert set(holder[alone, 0]) == {0, 1, 2}
    _, counts = np.unique(holder[~alone], axis=0, return_counts=True)
    # One pattern is shared by the instances whose labels lie where the model lives; scattered ones hardly repeat.
    assert counts.max() == pytest.approx(0.2 * whole.n, abs=2)
    assert np.sort(counts)[-2] <= 3


def test_splits_depend_on_the_generator_only() -> None:
    whole = bc3e.pooled("bc3e-wine", {}, 0)
    for split in bc3e.DISTRIBUTIONS.values():
        first, same, other = (digest(split(whole, 3, np.random.default_rng(seed))) for seed in (1, 1, 2))
        assert first == same != other


def test_splits_refuse_no_sites() -> None:
    for split in bc3e.DISTRIBUTIONS.values():
        with pytest.raises(ScenarioError, match="cannot be split over 0 sites"):
            split(Ensemble(n=2), 0, np.random.default_rng(0))


def test_a_row_shard_may_miss_clusters_of_the_whole() -> None:
    whole = bc3e.pooled("bc3e-wine", {}, 0)
    parts = split_rows(whole, whole.n + 3, np.random.default_rng(0))
    assert sorted(part.n for part in parts) == [0] * 3 + [1] * whole.n
    assert max(n_values(part.clusterings["k-means-18"]) for part in parts) == 18
