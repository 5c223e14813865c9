"""`consilience check` of a site's data for attribute-distributed regression: what is used, and what leaves the site."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clients.cost import Work, cost_lines
from clients.data import DataError, Table, load, setting
from clients.data.entities import configured_secret
from clients.data.persons import person_lines
from clients.data.table import own_number
from clients.data.target import target_lines
from clients.residual.agent import FEWEST_EQUAL
from clients.residual.bins import smallest_epsilon
from clients.residual.methods import MethodError, fit_method, parse_method, predict
from clients.residual.shard import columns_of
from common.grouping import list_names
from numerics.residual import boosted
from numerics.residual.bins import ColumnBins, share_replaced
from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.candidates import Candidate
from protocols.residual.settings import Settings

_KINDS = {
    "tree": ("tree", "sklearn.tree."),
    "trees": ("rf", "gb", "hgb", "sklearn.ensemble."),
    "line": ("lr", "ridge", "lasso", "en", "lars", "sklearn.linear_model."),
}
"""Methods, or modules of estimators named in full, by what their predictions reveal of the columns."""
_CIPHER = "X25519, ChaCha20-Poly1305"
_MOST_SHOWN = 8  # categories in a line: enough to see whether the column has categories


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`; raises as `clients.residual.shard.open_shard` and `describe`."""
    table = load(config)
    columns = columns_of(table, config)
    lines = describe(columns, table, config)
    return [*lines, "", *_cost_lines(columns, _agent(config), config)] if columns.x.shape[1] else lines


def describe(columns: Columns, table: Table, config: Mapping[str, object]) -> list[str]:
    """Describe what a run would use of a site's data, and what would leave the site.

    Parameters
    ----------
    columns : Columns
        Columns of `table`.
    table : Table
        The site's own table.
    config : Mapping
        Run or node configuration.

    Raises
    ------
    DataError
        If the agent's method or the file of the secret cannot be read, or `min-leaf` is no number of rows.
    """
    agent, secret = _agent(config), bool(configured_secret(config))
    categories = " and categories" if columns.categories else ""
    return [
        f"{table.source}: {columns.n} rows",
        "",
        "What would be used",
        *_used_lines(columns, table, config, agent),
        "",
        "What would leave this site",
        f"  once: numbers of rows ({columns.n}) and of columns learned from ({columns.x.shape[1]}), the agent's method",
        *_name_lines(columns, secret=secret),
        *(
            ["  once: for each row whether it is to fit, to choose by or to test on, the same for all rows of a person"]
            if columns.y is not None and columns.person is not None
            else []
        ),
        *_learning_lines(columns, config, agent),
        *_prediction_lines(columns, config),
        *_seal_lines(columns, config, secret=secret),
        "",
        "What never leaves this site",
        f"  the inputs, their names{categories}; columns not used; the entities' names",
        "  the fitted model: it is stored in this site's own directory (site-output-dir), or nowhere",
    ]


def _cost_lines(columns: Columns, agent: Candidate, config: Mapping[str, object]) -> list[str]:
    """Return lines on one round: a fit to the residual, and its predictions."""
    order, min_leaf = np.random.default_rng(0).permutation(columns.n), own_number(config, "min-leaf", 1)
    # The residual of the first rounds is a function of the rows, and noise.
    target = columns.y if columns.y is not None else np.random.default_rng(1).normal(size=columns.n)

    def fitted(m: int) -> object:
        some = order[:m]
        model = fit_method(agent, columns.x[some], target[some], min_leaf=max(min_leaf, m // 100, 1), seed=0)
        return predict(model, columns.x[some])

    growth = (1.5, 3.0) if agent.method == "svr" else (1.0, 1.2)
    return cost_lines({"residual.Fit": [Work(fitted, growth)]}, columns.n, config)


def _agent(config: Mapping[str, object]) -> Candidate:
    try:
        method = setting(config, "agent") or setting(config, "residual.agent")
        return parse_method(method or (boosted.AGENT if _boosts(config) else "tree"), dotted=True)
    except MethodError as error:
        raise DataError(f"configuration: {error}", "bad-configuration") from error


def _kind(agent: Candidate) -> str:
    """Return which of `_KINDS` the method is; empty if it is none of them."""
    module = agent.method[: agent.method.rfind(".") + 1]
    return next((kind for kind, members in _KINDS.items() if agent.method in members or module in members), "")


def _used_lines(columns: Columns, table: Table, config: Mapping[str, object], agent: Candidate) -> list[str]:
    """Return lines on inputs, outcome, entities, unused columns and the agent."""
    indicators = {f"{name}={value}" for name, values in columns.categories.items() for value in values}
    inputs = sorted([*(name for name in columns.features if name not in indicators), *columns.categories])
    entity = setting(config, "id") if columns.entity is not None else ""
    unused = [name for name in table.columns if name not in {*inputs, entity, _outcome(columns, config)}]
    return [
        f"  inputs: {', '.join(inputs) or 'none; this site takes part with its outcome alone'}",
        *(line for name in columns.categories for line in _category_lines(columns, name)),
        *_outcome_lines(columns, table, config),
        f"  entities: {_entities(columns, entity)}",
        f"  columns not used: {', '.join(unused) or 'none'}",
        *(f"  {line}" for line in person_lines(table, config)),
        *([f"  agent: {agent.text}{_leaf(agent, config)}"] if inputs else []),
    ]


def _outcome(columns: Columns, config: Mapping[str, object]) -> str:
    return setting(config, "target") if columns.y is not None else ""


def _outcome_lines(columns: Columns, table: Table, config: Mapping[str, object]) -> list[str]:
    if columns.y is None:
        return ["  outcome: none; the fusion center or another site holds it"]
    if not columns.classes:
        return [f"  outcome: {_outcome(columns, config)}"]
    first, *more = target_lines(table, config, Settings.tasks)
    return [f"  outcome: {first.removeprefix('outcome ')}", *(f"    {line}" for line in more)]


def _category_lines(columns: Columns, name: str) -> list[str]:
    values = columns.categories[name]
    places = [columns.features.index(f"{name}={value}") for value in values]
    others = columns.n - int(columns.x[:, places].sum())
    none = f"; {others} rows have none of these" if others else ""
    return [f"    {name}: {len(values)} categories, {list_names(values, _MOST_SHOWN)}{none}"]


def _entities(columns: Columns, id_column: str) -> str:
    if columns.entity is None:
        return "by row number, which must be the same at every site"
    return f"named by {id_column} ({columns.entity_kind}); rows of entities that another site lacks are not used"


def _leaf(agent: Candidate, config: Mapping[str, object]) -> str:
    own = own_number(config, "min-leaf", 1)
    if _kind(agent) not in ("tree", "trees"):
        return ""
    run_min_leaf = int(str(config.get("residual.min-leaf") or 0))
    if run_min_leaf or own > 1:
        return f", {max(run_min_leaf, own)} rows or more in a leaf"
    if _boosts(config):
        return f", {boosted.MIN_LEAF} rows or more in a leaf (fewer of few rows)"
    return ", 40 rows or more in a leaf (fewer of few rows, more of many)"


def _name_lines(columns: Columns, *, secret: bool) -> list[str]:
    """Return lines on the hashes that match the rows."""
    if columns.entity is None:
        return []
    lines = ["  once: a keyed hash of each entity's name (HMAC-SHA256, a new key in every run), by which the fusion"]
    if secret:
        lines.append("    center matches the rows. It does not know the secret in the key, so it cannot test guesses")
    else:
        lines.append("    center matches the rows. It knows the key, and can test whether a name that it guesses is")
        lines.append("    among yours, unless the sites share a secret: align-key-file")
    return [
        *lines,
        "    The center learns how many entities, and which hashes, this site has in common with others, and whether",
        "    the names are numbers or text. Every other site learns which of its own entities all sites know: with",
        "    two sites, which of them are yours",
    ]


def _model_lines(agent: Candidate, columns: Columns) -> list[str]:
    """Return lines on what predictions reveal of the columns."""
    kind, p = _kind(agent), columns.x.shape[1]
    if not p:
        return []
    if kind == "tree":
        return [
            "    of a tree: entities of one leaf get equal numbers, which shows who is alike in your columns; leaves",
            "    of several rounds overlap, so that groups with equal numbers become smaller than the smallest leaf",
        ]
    if kind == "trees":
        return [
            "    of many trees together: entities that share all leaves get equal numbers, which shows who is alike",
            "    in your columns; such a group can be small",
        ]
    if kind == "line" and p == 1:
        return [
            "    of a linear model of one column: THESE NUMBERS ARE YOUR COLUMN but for unit and zero; choose a tree",
            "    if nobody may see it",
        ]
    if kind == "line":
        return [
            f"    of a linear model: a weighted sum of your {p} columns; {p} rounds with other weights REVEAL THEM ALL",
            "    but for a linear mixture; choose a tree if nobody may see them",
        ]
    return ["    a function of your columns: entities that are alike in them get similar numbers"]


def _learning_lines(columns: Columns, config: Mapping[str, object], agent: Candidate) -> list[str]:
    """Return lines on what is sent while the agents learn, and who reads it."""
    model = _model_lines(agent, columns)
    if _ring(config):
        return _ring_lines(columns, config, model)
    if columns.y is not None:
        return [
            "  This site holds the outcome and does the fusion center's arithmetic.",
            f"  every round, to the other sites, sealed for each ({_CIPHER}), for each",
            *_residual_lines(columns),
            *_inferred(model),
            *_alone_lines(columns, config),
            *_center_lines(columns),
        ]
    bins = _bin_lines(columns, config)
    if bins and config.get("allow-bins"):
        return [*bins, *_alone_lines(columns, config), *_reader_lines(config)]
    return [
        *bins,
        "  every round, for each entity that all sites hold: this site's prediction"
        + (" (with residual.algorithm=parallel one" if _boosts(config) else " (with residual.power=auto one"),
        "    for each candidate of residual.powers)",
        *model,
        "    with residual.algorithm=greedy also one number, the error of the model",
        *_alone_lines(columns, config),
        *_reader_lines(config),
        "  In every round the other sites see the residual of the outcome: with two sites, the other can compute these",
        "    numbers from it. For a ring: --set residual.topology=ring",
    ]


def _bin_lines(columns: Columns, config: Mapping[str, object]) -> list[str]:
    """Return lines on bins, in a run that asks for them."""
    if setting(config, "residual.algorithm") != "bins" or not columns.x.shape[1]:
        return []
    if not config.get("allow-bins"):
        return ["  no bins, whatever residual.algorithm=bins asks for: allow-bins is not set. As an agent instead:"]
    levels = int(str(config.get("residual.bins") or Settings.bins))
    numbers = ColumnBins.of(columns, levels, FEWEST_EQUAL).levels.tolist()
    listed = ", ".join(map(str, numbers[:_MOST_SHOWN])) + (" ..." if len(numbers) > _MOST_SHOWN else "")
    wanted = float(str(config.get("residual.bins-epsilon") or 0))
    epsilon = smallest_epsilon(config.get("bins-epsilon", 0.0), wanted)
    lines = [
        "  once, because of residual.algorithm=bins and allow-bins: FOR EACH COMMON ENTITY, TEST ROWS TOO, ITS BIN IN",
        f"    EACH OF YOUR {len(numbers)} COLUMNS, of {listed} bins: its rank to that precision,",
        f"    of text the number of its category. A bin has {FEWEST_EQUAL} of your rows or more (a policy may",
        "    raise it: min-rows). Edges and names stay; who knows how a column is distributed knows its values so far",
    ]
    if epsilon:
        share = f"{share_replaced(levels, epsilon):.0%} of {levels} bins are others"
        lines.append(f"    with randomized response, eps {epsilon:g} a column: {share}")
    return lines


def _center_lines(columns: Columns) -> list[str]:
    """Return lines on what the fusion center reads where this site does its arithmetic."""
    if not columns.classes:
        return [
            "  every round, to the fusion center: mean squared errors; at the end p, and each agent's coefficient and",
            "    mean square",
        ]
    return [
        "  to the fusion center: once, the names of the classes; every round, log losses; at the end each agent's",
        "    part, and scores of the predictions of test rows, such as the accuracy",
    ]


def _residual_lines(columns: Columns) -> list[str]:
    """Return lines on what a residual tells of the outcome."""
    if not columns.classes:
        return [
            "    common entity learned from: THE OUTCOME, in the first round minus its mean, later minus the",
            "    predictions so far",
        ]
    return [
        "    common entity learned from: its class minus the probabilities so far, which TELLS ITS CLASS in every",
        "    round: it alone is above 0",
    ]


def _alone_lines(columns: Columns, config: Mapping[str, object]) -> list[str]:
    """Return lines on what is sent to say how well each site predicts alone."""
    if not config.get("residual.baselines", True):
        return []
    if columns.y is not None:
        return [
            f"  once, after learning, to the other sites, sealed: THE {'CLASS' if columns.classes else 'OUTCOME'}"
            f"{' (its number)' if columns.classes else ' minus its mean'}, of each entity learned",
            f"    from; to the fusion center the {'scores' if columns.classes else 'error'} of each site alone"
            " (residual.baselines=false: neither)",
        ]
    return [
        f"  once, after learning, for each {'common' if _boosts(config) else 'test'} entity:"
        " what boosted trees of this site's columns alone predict, which",
        "    shows who is alike in them (residual.baselines=false: not sent)",
    ]


def _inferred(model: list[str]) -> list[str]:
    """Return lines on what others can compute of a model whose predictions are not sent."""
    if not model:
        return []
    return ["    With two sites, the other can compute from that this site's prediction of each entity:", *model]


def _reader_lines(config: Mapping[str, object]) -> list[str]:
    """Return lines on who reads the predictions of a site without the outcome."""
    sealed = f"they are sent sealed ({_CIPHER})"
    if _sealed_only(config):
        return [f"  Who reads these numbers: the site that holds the outcome; {sealed}"]
    if setting(config, "labels"):
        return ["  Who reads these numbers: the fusion center, which holds the outcome"]
    return [
        "  Who reads these numbers: the fusion center, if it holds the outcome; if a site does, that site:",
        f"    {sealed}. To allow only this, set sealed-only=true",
    ]


def _ring_lines(columns: Columns, config: Mapping[str, object], model: list[str]) -> list[str]:
    """Return lines on the residual of all rows, which goes from agent to agent."""
    if columns.y is not None:
        lines = [
            f"  This site holds the outcome. To the next site, sealed for it ({_CIPHER}), for each",
            "    entity that all sites hold, test rows too: THE OUTCOME minus its mean, later minus the",
            "    predictions so far",
        ]
    else:
        lines = [
            f"  every turn, to the next site, sealed for it ({_CIPHER}), for each entity that all",
            "    sites hold, test rows too: the residual of the outcome, after this site's step",
        ]
        if setting(config, "labels"):
            lines.append("    The fusion center, which holds the outcome, sends it to the first site in the clear")
    return [
        *lines,
        *_inferred(model),
        "  every turn, to the fusion center: mean squares of the residual, of this site's step, and of its steps' sum",
    ]


def _prediction_lines(columns: Columns, config: Mapping[str, object]) -> list[str]:
    """Return lines on what is sent when stored models predict."""
    if columns.y is not None:
        return [
            "  when stored models predict (from): the keyed hash of each row's entity, and the number of predictions;",
            "    the predictions stay here",
        ]
    return [
        "  when the stored model predicts (from): for each row this site's part of the prediction"
        f"{' (after bins its bins)' if _bin_lines(columns, config) else ''},",
        "    to the holder of the outcome (sealed, if that is a site), and the keyed hash of its entity",
    ]


def _seal_lines(columns: Columns, config: Mapping[str, object], *, secret: bool) -> list[str]:
    """Return lines on what seals protect from, if it is certain that the run has any."""
    if not (_ring(config) or columns.y is not None or _sealed_only(config)):
        return []
    lines = [
        "  The seals protect from a fusion center that follows the protocol and reads along. From many runs with",
        "    rows of its choice a center can compute sums over these rows: know with whom you run",
    ]
    if not secret:
        lines.append("    A real site seals nothing without a secret that the sites share: set align-key-file")
    if _sealed_only(config) and setting(config, "labels") and not _ring(config):
        lines.append("    With labels the fusion center holds the outcome: sealed-only=true refuses such a run")
    return lines


def _boosts(config: Mapping[str, object]) -> bool:
    return (setting(config, "residual.algorithm") or "boosted") in ("boosted", "bins") and not _ring(config)


def _ring(config: Mapping[str, object]) -> bool:
    return setting(config, "residual.topology") == "ring"


def _sealed_only(config: Mapping[str, object]) -> bool:
    return bool(config.get("sealed-only"))
