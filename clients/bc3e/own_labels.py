"""Classes of a site's own instances by all of its labels, also by those that enter no sum.

Labels of few instances are withheld from the sums, so the fit does not know them. Class probabilities stay at the site:
it computes them by the parameters of the fit and all labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from clients.bc3e.fit_state import FitState, held_tables
from clients.bc3e.results import threads
from clients.memory import Memory
from numerics.bc3e.e_step import EStepSettings, cold_start, e_step
from numerics.bc3e.gamma import add_alpha

_LAST, _BEFORE = "last", "before"
"""Keys of the parameters of the last E-step, and of the last one before it that was accepted."""


def keep_parameters(memory: Memory, alpha: Float64[np.ndarray, "k"], tables: Mapping[str, np.ndarray]) -> None:
    """Keep the parameters of an E-step whose sums lack labels."""
    for name, values in {"alpha": alpha, **{f"table/{name}": table for name, table in tables.items()}}.items():
        memory[f"{_LAST}/{name}"] = values


def accept_parameters(memory: Memory) -> None:
    """Keep the parameters of the last E-step, which was accepted, while there are newer ones."""
    for name in [name for name in memory if name.startswith(f"{_LAST}/")]:
        memory[_BEFORE + name.removeprefix(_LAST)] = memory[name]


def gamma_by_all_labels(state: FitState, *, accepted: bool) -> Float64[np.ndarray, "k n"] | None:
    """Compute gamma of the private instances by eqs. (5) and (6) at the parameters of the last accepted E-step.

    Returns
    -------
    ndarray or None
        ``(k, n)``; None if no label was withheld.
    """
    memory, which = state.memory, _LAST if accepted else _BEFORE
    if f"{which}/alpha" not in memory:
        return None
    alpha = memory[f"{which}/alpha"]
    bits, draws = int(memory["settings"][0]), int(memory["settings"][2])
    tables = {name: memory[f"{which}/table/{name}"] for name in held_tables(state.site.shard, confusion=draws > 0)}
    distinct = state.private_part().distinct
    part = distinct.part
    start = add_alpha(alpha, cold_start(part.classifiers, part.clusterings, part.n, len(alpha), bits), bits)
    settings = EStepSettings(bits, draws=draws)
    gamma, _ = e_step(alpha, tables, part.classifiers, part.clusterings, start, settings, threads(), distinct.counts)
    return gamma
