"""State of a plan as arrays: a site that does the arithmetic of the fusion center stores it between two asks.

A process may answer one message only. Nothing is pickled: objects are JSON that names their arrays, and only the
classes of a plan are rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from numerics.residual.agent_combination import ClassScores
from numerics.residual.alone import Alone
from numerics.residual.losses import LogLoss, SquaredError
from numerics.residual.rules import LearningResult, Rules, Without
from numerics.residual.split import Split
from protocols.residual.bins import Bins
from protocols.residual.boosted import Boosted
from protocols.residual.parallel import Parallel
from protocols.residual.payloads import Conclude, EntityBins, PredictionsAlone
from protocols.residual.plan import Plan
from protocols.residual.sequential import Greedy, Sip
from protocols.residual.single_round import SingleRound

_CLASSES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        Plan,
        Boosted,
        Bins,
        EntityBins,
        PredictionsAlone,
        Parallel,
        Greedy,
        Sip,
        SingleRound,
        Rules,
        Split,
        LearningResult,
        Without,
        Alone,
        ClassScores,
        SquaredError,
        LogLoss,
        Conclude,
    )
}
_ABOUT = "about"
_MODEL = "model:"


def freeze(plan: Plan) -> dict[str, np.ndarray]:
    """Return a plan as arrays; an array that several parts share is stored once."""
    arrays: dict[str, np.ndarray] = {}
    places: dict[int, str] = {}

    def describe(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in places:
                places[id(value)] = str(len(places))
                arrays[places[id(value)]] = value
            return {"array": places[id(value)]}
        if isinstance(value, tuple | list):
            return {type(value).__name__: [describe(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": {key: describe(each) for key, each in value.items()}}
        if type(value).__name__ in _CLASSES and type(value) is _CLASSES[type(value).__name__]:
            return {type(value).__name__: {key: describe(each) for key, each in vars(value).items()}}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        from clients.residual.model_store import dump  # the model of meta-boosting: skops takes half a second

        name = f"{_MODEL}{len(places)}"
        places[id(value)] = name
        arrays[name] = np.frombuffer(dump(value), np.uint8)
        return {"array": name}

    about = json.dumps(describe(plan))
    return {**arrays, _ABOUT: np.frombuffer(about.encode(), np.uint8)}


def thaw(arrays: Mapping[str, np.ndarray]) -> Plan:
    """Rebuild a plan from the arrays of `freeze`, with arrays of its own."""
    copies: dict[str, Any] = {}

    def array(name: str) -> Any:
        if name not in copies:
            if name.startswith(_MODEL):
                from clients.residual.model_store import restore

                copies[name] = restore(arrays[name].tobytes())
            else:
                copies[name] = arrays[name].copy()
        return copies[name]

    def make(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "array":
            return array(content)
        if kind in ("tuple", "list"):
            items = [make(each) for each in content]
            return tuple(items) if kind == "tuple" else items
        if kind == "dict":
            return {key: make(each) for key, each in content.items()}
        instance = object.__new__(_CLASSES[kind])
        for key, each in content.items():
            object.__setattr__(instance, key, make(each))
        return instance

    plan = make(json.loads(arrays[_ABOUT].tobytes()))
    assert isinstance(plan, Plan)  # noqa: S101 - _ABOUT describes a plan; read from a file of our own
    return plan
