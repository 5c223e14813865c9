"""What a site imports to answer an ask: in deployment every ask is a process of its own, which pays for it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import clients.data.cache as cache_module
from clients import shards
from clients.budget import Budget
from clients.dispatch import handle
from clients.memory import MemoryStore
from clients.sec.rows import step_held_out
from clients.sec.shard import n_held_out
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e import payloads as bc3e
from protocols.budget import DEFAULT
from protocols.coreset import payloads as coreset
from protocols.gp import payloads as gp
from protocols.residual import payloads as residual
from protocols.sec import payloads as sec
from protocols.wire.message import Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload

HEAVY = ("gpytorch", "matplotlib", "numba", "ortools", "pandas", "pyarrow", "scipy", "skops", "sklearn", "torch")
N = 40
FRAME = pd.DataFrame(
    {
        "case": [f"c{i}" for i in range(N)],
        "class_a": np.arange(N) % 2,
        "cluster_x": np.arange(N) % 3,
        "sex": ["F", "M"] * (N // 2),
        "age": np.arange(N) / 7,
        "iron": np.sin(np.arange(N)),
        "y": np.cos(np.arange(N)),
    }
)
OWN: dict[str, dict[str, Any]] = {
    "bc3e": {"id": "case"},
    "sec": {"target": "y", "features": "age iron"},
    "residual": {"target": "y", "features": "age iron", "id": "case"},
    "coreset": {"sensitive": "sex", "features": "age iron"},
    "gp": {"target": "y", "features": "age iron"},
}
CHILD = """
import json, pickle, sys
message, context = pickle.loads(open(sys.argv[1], "rb").read())
from clients.app import app
from protocols.wire.message import read_envelope
from flwr.supercore.task_identity import TaskIdentity
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
fault = read_envelope(app(message, context).content).fault
print(json.dumps([int(fault), [name for name in sys.argv[2:] if name in sys.modules]]))
"""


def site_context(folder: Path, protocol: str) -> Context:
    """A site beside its own file, as a SuperNode keeps it."""
    FRAME.to_csv(folder / "own.csv", index=False)
    node = {"site": "north", "data": str(folder / "own.csv"), "site-output-dir": str(folder / "out"), **OWN[protocol]}
    return Context(1, 7, node, RecordDict(), {"protocol": protocol, "sec.holdout": 0.2})


def message(ask: Payload, number: int = 1) -> Message:
    content = write_ask(Ask("1", number, 0, [Parcel("0", ask)]))
    return over_the_wire(Message(content, 7, "train", group_id=str(number)))


def answer(context: Context, ask: Payload, number: int = 1) -> Any:
    """What the site answers in this process; its shard is kept from then on."""
    content = handle(message(ask, number), context).content
    return read_answer(content, [Parcel("0", ask)]).parcels[0].payload


def imported(folder: Path, context: Context, ask: Payload, number: int = 1) -> set[str]:
    """Which heavy packages a fresh Python has imported when it has answered; Flower itself brings none of them."""
    path = folder / "ask.pickle"
    path.write_bytes(pickle.dumps((message(ask, number), context)))
    command = [sys.executable, "-c", CHILD, str(path), *HEAVY]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    fault, found = json.loads(done.stdout.splitlines()[-1])
    assert fault == 0, done.stderr
    return set(found)


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has just been written counts as old: its shard is kept at once."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    monkeypatch.setattr(cache_module, "SETTLED_NS", 0)


def test_bc3e_says_what_it_holds(tmp_path: Path) -> None:
    context, ask = site_context(tmp_path, "bc3e"), bc3e.Survey("row", "salt")
    answer(context, ask)
    assert imported(tmp_path, context, ask) == set()


def test_sec_tries_combinations(tmp_path: Path) -> None:
    context = site_context(tmp_path, "sec")
    shards.shard({**context.run_config, **context.node_config}, 0, 1, 0, simulated=False)
    Budget(tmp_path / "out", context.node_config, DEFAULT, 1).charge({})  # the file is read once, to be known again
    store = MemoryStore(context.state, None, "1")
    held_out = n_held_out(N, context.run_config, step_held_out(5, 2, context.run_config))
    kept = {"0/own": np.zeros(held_out), "0/fitted": np.zeros(N - held_out)}  # as a fit leaves them
    store.store(1, {**store.load(1), **kept})
    none, both = np.zeros((2, 0)), ("alone", "cluster")
    no_models = (np.zeros(1, bool), (), np.zeros((2, 0)))
    ask = sec.Predict(0, both, none, np.ones(2), none, ("north",), np.array([N]), np.ones(1), *no_models, "model")
    assert imported(tmp_path, context, ask, 2) == {"scipy"}  # for the t and the F distribution


def test_sec_sends_a_model_without_pytorch(tmp_path: Path) -> None:
    """PyTorch is installed here, and skops would import it."""
    how = {"standardize": "model", "min_leaf": 1, "selection": "half-half", "reference": "left-out", "moments": False}
    packages = imported(tmp_path, site_context(tmp_path, "sec"), sec.Select("lr", **how))
    assert "skops" in packages
    assert "torch" not in packages


def test_residual_enrols_and_takes_its_order(tmp_path: Path) -> None:
    context = site_context(tmp_path, "residual")
    ask = residual.Enrol("salt")
    answer(site_context(tmp_path, "residual"), ask)
    assert imported(tmp_path, context, ask) == set()
    answer(context, ask)
    order = residual.Order(np.arange(N), "tree", 5)
    assert imported(tmp_path, context, order, 2) == set()


def test_coreset_assigns_without_a_compiler_and_without_a_flow(tmp_path: Path) -> None:
    context = site_context(tmp_path, "coreset")
    how = {"size": 4, "construction": "bico", "projection": 0, "min_weight": 2, "scaled": False}
    summary = answer(context, coreset.Summarize(**how))
    points = np.arange(len(summary.weights))
    centers = np.zeros((1, 2))
    shares = {"point": points, "center": np.zeros_like(points), "mass": summary.weights.astype(np.int64)}
    ask = coreset.Assign(**how, groups=summary.groups, centers=centers, scale=np.ones(2), **shares)
    assert imported(tmp_path, context, ask, 2) == {"scipy"}


def test_gp_takes_stock_and_says_how_likely_it_is(tmp_path: Path) -> None:
    context = site_context(tmp_path, "gp")
    moments = answer(context, gp.Survey(100, "se", fit=True))
    assert imported(tmp_path, context, gp.Survey(100, "se", fit=True)) == {"scipy"}
    units = moments.means[0], np.sqrt(np.diag(moments.covariances[0])), float(moments.y_means[0]), 1.0
    thetas = np.zeros((1, 4))
    ask = gp.Evaluate(100, moments.counts, *units, kernel="se", thetas=thetas)
    assert imported(tmp_path, context, ask, 2) == {"scipy"}
