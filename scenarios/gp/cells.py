"""Rows of the tables: rules, gates, numbers of experts, and the paper's results.

Without `cells` a run has the rows of the paper's main table. With it, e.g. ``cells="part=figure7 K=6"``, it selects
among the rows of all tables. Settings in which the rows do not differ can be set for all of them: `gp.rows`,
`gp.split`, `gp.kernel`, `gp.covariance` and others, and `gp.parts` and `gp.experts` in a table with one M and one K.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from protocols.gp.settings import Settings
from scenarios.gp.common import settings
from scenarios.registry import Cell, Config

GATES = ("knn", "dnn", "gaussian", "ggm")
RULES = ("npae", "poe", "gpoe", "bcm", "rbcm", "grbcm")

_DATA_KEYS = ("gp.rows", "gp.split")
"""Keys with which a row is the paper's only if they have their default."""


class _Score(NamedTuple):
    smse: float
    msll: float


_TABLE_1 = {
    ("gpoe", "all"): _Score(0.138, -0.876),
    ("gpoe", "knn"): _Score(0.115, -0.916),
    ("rbcm", "all"): _Score(0.0993, 0.396),
    ("rbcm", "knn"): _Score(0.091, 0.156),
    ("grbcm", "all"): _Score(0.1093, -1.103),
    ("grbcm", "knn"): _Score(0.089, -1.21),
}
"""Table I by rule and gate; M = 10, K = 6."""

_TABLE_2 = {
    ("gpoe", "all", ""): (_Score(0.0487, -1.5092), _Score(0.0489, -1.5087), _Score(0.0501, -1.4815)),
    ("grbcm", "all", ""): (_Score(0.049, -1.5129), _Score(0.0490, -1.5083), _Score(0.0486, -1.5133)),
    ("npae", "all", ""): (_Score(0.0462, -1.5397), _Score(0.0473, -1.5271), _Score(0.0470, -1.5285)),
    ("npae", "ggm", "0.5"): (_Score(0.0477, -1.5249), _Score(0.0485, -1.5103), _Score(0.0481, -1.5180)),
    ("npae", "ggm", "0.7"): (_Score(0.0471, -1.5307), _Score(0.0481, -1.5165), _Score(0.0478, -1.5208)),
    ("npae", "knn", "0.5"): (_Score(0.0467, -1.5364), _Score(0.0477, -1.5236), _Score(0.0475, -1.5234)),
    ("npae", "knn", "0.7"): (_Score(0.0462, -1.5402), _Score(0.0474, -1.5266), _Score(0.0470, -1.5285)),
    ("npae", "dnn", "0.5"): (_Score(0.0465, -1.5370), _Score(0.0477, -1.5232), _Score(0.0476, -1.5216)),
    ("npae", "dnn", "0.7"): (_Score(0.0460, -1.5418), _Score(0.0475, -1.5253), _Score(0.0470, -1.5285)),
}
"""Table II by rule, gate and share of the experts; M = 10, 15, 20."""

REAL_WORLD = ("airfoil", "parkinsons", "pole", "protein", "sarcos", "song")
_TABLE_4 = {
    ("gpoe", "all"): (0.1305, 0.2703, 0.0727, 0.8654, 0.0461, 0.9221),
    ("rbcm", "all"): (0.0881, 0.2339, 0.0237, 0.3569, 0.0039, 0.8127),
    ("grbcm", "all"): (0.0777, 0.2395, 0.0191, 0.3540, 0.0034, 0.7762),
    ("npae", "all"): (0.0694, 0.2121, 0.0144),
    ("npae", "ggm"): (0.0765, 0.2317, 0.0182, 0.3326, 0.0025, 0.7379),
    ("npae", "knn"): (0.0694, 0.2126, 0.0145, 0.2743, 0.0025, 0.7007),
    ("npae", "dnn"): (0.0694, 0.2127, 0.0141, 0.2744, 0.0025, 0.6994),
}
"""Table IV, SMSE by rule and gate on `REAL_WORLD`; NPAE of all experts is too expensive for the last three."""
_TABLE_5 = {
    ("gpoe", "all"): (-1.1875, -0.5862, -1.5171, -0.0759, -1.165, -0.0449),
    ("rbcm", "all"): (-1.3187, -0.5433, -1.5901, -0.6164, -2.5347, -0.1266),
    ("grbcm", "all"): (-1.4706, -0.8123, -2.293, -0.6378, -2.7985, -0.1563),
    ("npae", "all"): (-1.5207, -0.8583, -2.3537),
    ("npae", "ggm"): (-1.4928, -0.7937, -2.1658, -0.6173, -2.8017, -0.1613),
    ("npae", "knn"): (-1.5209, -0.8563, -2.3851, -0.7348, -2.8005, -0.1913),
    ("npae", "dnn"): (-1.5208, -0.8569, -2.3823, -0.7349, -2.8023, -0.1926),
}
"""Table V, MSLL by rule and gate on `REAL_WORLD`."""
EXPERTS = {"airfoil": 5, "parkinsons": 10, "pole": 10, "protein": 70, "sarcos": 72, "song": 80}
"""M by data set (section V-B)."""
SHARE = {name: "0.2" if name == "song" else "0.5" for name in REAL_WORLD}
"""K_M by data set."""


def synthetic_cells(config: Config) -> list[Cell]:
    """Return the rows of gp-synthetic: ``figure11`` (its main table), ``figure10``, and ``rules``, not in the paper.

    Figure 11's other half has 5000 rows: `gp.rows`.
    """
    rules = [
        _row(config, "rules", rule, gate, 20, experts="3")
        for rule in RULES
        if rule != "npae"
        for gate in ("all", "knn")
    ]
    figure11 = _selections(config, "figure11", (10, 15, 20), (3, 5), varied=("gp.parts", "gp.experts"))
    return _selectable(config, figure11, [*_selections(config, "figure10", (10,), range(1, 10)), *rules])


def concrete_cells(config: Config) -> list[Cell]:
    """Return the rows of gp-concrete: ``table1`` (its main table; NPAE is added), ``figure2`` and ``figure7``."""
    published: dict[tuple[str, str], _Score | None] = {**_TABLE_1, **{("npae", gate): None for gate in ("all", *GATES)}}
    table1 = [
        _row(config, "table1", rule, gate, 10, experts="6", published=score)
        for (rule, gate), score in published.items()
    ]
    figure2 = [
        _row(config, "figure2", rule, "all", parts, varied=("gp.parts",)) for parts in (5, 7, 10) for rule in RULES
    ]
    return _selectable(config, table1, [*figure2, *_selections(config, "figure7", (10,), range(2, 10))])


def pumadyn_cells(config: Config) -> list[Cell]:
    """Return the rows of gp-pumadyn: ``table2``, of which M = 10 is the main table."""
    published: dict[tuple[str, str, str], tuple[_Score | None, ...]] = {
        **_TABLE_2,
        **{("npae", "gaussian", share): (None,) * 3 for share in ("0.5", "0.7")},
    }
    ten, *others = (
        [
            _row(
                config,
                "table2",
                rule,
                gate,
                parts,
                experts=share,
                published=scores[place],
                varied=("gp.parts", "gp.experts"),
            )
            for (rule, gate, share), scores in published.items()
        ]
        for place, parts in enumerate((10, 15, 20))
    )
    return _selectable(config, ten, [cell for each in others for cell in each])


def real_world_cells(name: str, config: Config) -> list[Cell]:
    """Return the rows of one of `REAL_WORLD`: ``table4``, which is Tables IV and V."""
    place = REAL_WORLD.index(name)
    scores: dict[tuple[str, str], _Score | None] = {
        row: _Score(smse[place], _TABLE_5[row][place]) for row, smse in _TABLE_4.items() if place < len(smse)
    }
    scores["npae", "gaussian"] = None
    return [
        _row(config, "table4", rule, gate, EXPERTS[name], experts=SHARE[name], published=score)
        for (rule, gate), score in scores.items()
    ]


def _selectable(config: Config, main: list[Cell], others: list[Cell]) -> list[Cell]:
    """Return the rows that `cells` may select from: all of them, or those of the main table where it is empty."""
    return [*main, *others] if config.get("cells") else main


def _selections(
    config: Config, part: str, M: Sequence[int], K: Sequence[int], *, varied: tuple[str, ...] = ("gp.experts",)
) -> list[Cell]:
    """Return rows of NPAE: of all experts, and of K experts by each gate."""
    cells = []
    for parts in M:
        cells.append(_row(config, part, "npae", "all", parts, varied=varied))
        cells += [
            _row(config, part, "npae", gate, parts, experts=str(experts), varied=varied)
            for gate in GATES
            for experts in K
        ]
    return cells


def _row(
    config: Config,
    part: str,
    rule: str,
    gate: str,
    parts: int,
    *,
    experts: str = "",
    published: _Score | None = None,
    varied: tuple[str, ...] = (),
) -> Cell:
    """Return a row with M = `parts` and, unless the gate is "all", K = `experts`; no user can set the keys in `varied`.

    The paper's experts answer about one point only (`gp.answers` 1), with the squared exponential kernel.
    """
    own: dict[str, Any] = {"gp.parts": parts, "gp.answers": 1, "gp.kernel": "se"}
    if gate != "all":
        own["gp.experts"] = experts
    row = settings(aggregation=rule, gate=gate) | {key: value for key, value in own.items() if key in varied}
    defaults = {key: value for key, value in own.items() if key not in varied}
    used = {**row, **{key: config.get(key) or value for key, value in defaults.items()}}
    n_experts = str(used.get("gp.experts", "all"))
    labels = {
        "part": part,
        "M": used["gp.parts"],
        "K": int(n_experts) if n_experts.isdecimal() else n_experts,
        "gate": gate,
        "rule": rule,
    }
    keys = Settings.keys()
    other_data = any(config.get(key, keys[key].declared) != keys[key].declared for key in _DATA_KEYS)
    as_published = all(used[key] == own[key] for key in own) and not other_data
    return Cell(labels, row, published._asdict() if published and as_published else {}, defaults)
