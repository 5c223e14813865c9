"""What a fusion center learns of new instances if it departs from the protocol of prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.files import write_arrays
from numerics.bc3e.m_step import initial_beta
from protocols.bc3e.payloads import Conclude, EStep, PredictShared, Setup, Shares, Sweep
from protocols.wire.faults import Fault
from protocols.wire.payload import Payload
from tests.support.grid import config
from tests.support.site_client import RealSite

N, SHARED = 20, np.arange(12)
NONE = np.zeros(0, np.int64)
COMMON, OWN = np.full((3, 3), 1 / 3), np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
PREDICT = PredictShared(np.ones(3), ("cluster_x",), (COMMON,), 1e-8, 50, "then", SHARED, 30)
SWEEP = Sweep(np.arange(4), np.zeros((3, 4)))
CONCLUDE = Conclude(True, np.ones((3, len(SHARED))), NONE)


@pytest.fixture
def site(tmp_path: Path) -> RealSite:
    return real_site(tmp_path)


def real_site(tmp_path: Path, columns: str = "class_a,cluster_x,cluster_y", **node: Any) -> RealSite:
    """One that has kept the table of ``cluster_y`` of the run called ``then``."""
    labels = np.random.default_rng(0).integers(0, 3, (N, columns.count(",") + 1))
    np.savetxt(tmp_path / "own.csv", labels, "%d", ",", header=columns, comments="")
    (tmp_path / "home" / "models").mkdir(parents=True, exist_ok=True)
    write_arrays(tmp_path / "home" / "models" / "then.npz", {"cluster_y": OWN})
    about = {"site": "a", "data": str(tmp_path / "own.csv"), "site-output-dir": str(tmp_path / "home")}
    return RealSite(
        {**about, "allow-shared-instances": True, **node},
        config(tmp_path, scenario="predict", **{"from": "results/then"}),
    )


def test_a_site_answers_for_one_set_of_parameters(site: RealSite) -> None:
    assert site.fault(1, PREDICT) == site.fault(2, SWEEP) == site.fault(3, CONCLUDE) == 0
    others: list[Payload] = [
        replace(PREDICT, alpha=np.array([2.0, 1.0, 1.0])),
        replace(PREDICT, beta=(OWN,)),
        replace(PREDICT, shared=SHARED[1:]),
        replace(PREDICT, max_sweeps=1),
        replace(CONCLUDE, gamma=2 * CONCLUDE.gamma + np.eye(3, len(SHARED))),
        replace(CONCLUDE, counted=np.array([3])),
    ]
    site.restart()
    assert [site.fault(4, other) for other in others] == [Fault.MALFORMED_ASK] * len(others)
    assert site.fault(4, CONCLUDE) == 0, "the same again"


def test_of_a_sweep_no_sum_leaves(site: RealSite) -> None:
    site.answer(1, PREDICT)
    [parcel] = site.answer(2, SWEEP).parcels
    assert isinstance(parcel.payload, Shares)
    assert (parcel.payload.mass, parcel.payload.bound, len(parcel.payload.products)) == ((), 0, 0)
    a_vote_and_two_responsibilities = np.ldexp(parcel.payload.share.sum(axis=0).astype(float), -30)
    np.testing.assert_allclose(a_vote_and_two_responsibilities, 3.0)


@pytest.mark.parametrize(
    ("ask", "fault"),
    [
        (replace(PREDICT, session="../then"), Fault.MALFORMED_ASK),
        (replace(PREDICT, session="another"), Fault.NO_SAVED_MODEL),
        (replace(PREDICT, shared=np.array([0, 0])), Fault.MALFORMED_ASK),
        (replace(PREDICT, shared=np.arange(N - 1)), Fault.TOO_FEW_ROWS),
        (replace(PREDICT, grid_bits=99), Fault.MALFORMED_ASK),
        (replace(PREDICT, alpha=np.ones(2), beta=(COMMON[:2],)), Fault.NO_SAVED_MODEL),
        (SWEEP, Fault.STALE_MEMORY),
    ],
    ids=str,
)
def test_what_a_site_refuses(site: RealSite, ask: Payload, fault: Fault) -> None:
    assert site.fault(1, ask) == fault


def test_a_sweep_is_held_to_the_instances_and_classes_of_then(site: RealSite) -> None:
    assert site.fault(1, PREDICT) == 0
    assert site.fault(2, Sweep(np.array([len(SHARED)]), np.zeros((3, 1)))) == Fault.MALFORMED_ASK
    assert site.fault(2, Sweep(np.arange(2), np.zeros((2, 2)))) == Fault.MALFORMED_ASK


def test_a_site_with_a_single_model_consents_or_refuses(tmp_path: Path) -> None:
    assert real_site(tmp_path, "class_a,note").fault(1, PREDICT) == Fault.TOO_FEW_MODELS
    consenting = real_site(tmp_path, "class_a,note", **{"allow-single-model": True})
    assert consenting.fault(1, PREDICT) == 0


def test_tables_are_kept_of_the_e_step_that_counts(tmp_path: Path) -> None:
    """Where the newest was one too far, those of the one before."""
    setup = Setup(3, 30, ("cluster_x", "cluster_y"), np.array([3, 3]), np.array([0, 1]), NONE)
    first = EStep(0, True, 5, np.ones(1), np.ones(3), (), (), 30, 1e-8, 50, 0.0)
    kept = []
    for accepted in (True, False):
        folder = tmp_path / str(accepted)
        folder.mkdir()
        site = RealSite(real_site(folder).context.node_config, config(folder, protocol="bc3e"))
        assert site.fault(1, setup, first) == site.fault(2, replace(first, step=1)) == 0
        assert site.fault(3, Conclude(accepted, np.zeros((3, 0)), NONE)) == 0
        # Right decisions are counted by one set of parameters in a run.
        assert site.fault(4, Conclude(accepted, np.zeros((3, 0)), NONE)) == 0
        assert site.fault(4, Conclude(not accepted, np.zeros((3, 0)), NONE)) == Fault.MALFORMED_ASK
        with np.load(folder / "home/models/x.npz") as tables, np.load(folder / "home/beta.npz") as shown:
            assert sorted(tables.files) == sorted(shown.files) == ["cluster_x", "cluster_y"]
            kept.append(tables["cluster_x"])
    np.testing.assert_array_equal(kept[1], initial_beta("cluster_x", 3, 3, 5))
    assert not np.allclose(kept[0], kept[1])
