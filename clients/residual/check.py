"""`consilience check` of a site's data for attribute-distributed regression: what is used, and what leaves the site."""

from __future__ import annotations

from collections.abc import Mapping

from clients.data import DataError, Table, load, setting
from clients.data.entities import configured_secret
from clients.data.table import own_number
from clients.regressors import Candidate
from clients.residual.methods import MethodError, parse_method
from clients.residual.shard import columns_of
from numerics.residual.columns_and_outcomes import Columns

_KINDS = {
    "tree": ("tree", "sklearn.tree."),
    "trees": ("rf", "gb", "hgb", "sklearn.ensemble."),
    "line": ("lr", "ridge", "lasso", "en", "lars", "sklearn.linear_model."),
}
"""Methods, or the modules of those named in full, by what their predictions tell of the columns."""
_CIPHER = "X25519, ChaCha20-Poly1305"
_SHOWN = 8  # categories that are named: enough to see whether the column is one of categories


def check_lines(config: Mapping[str, object]) -> list[str]:
    """Return the lines of `consilience check`; raises as `clients.residual.shard.open_shard` and `describe`."""
    table = load(config)
    return describe(columns_of(table, config), table, config)


def describe(columns: Columns, table: Table, config: Mapping[str, object]) -> list[str]:
    """Lines to print for `consilience check`.

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
        If the agent's method cannot be read, or the file of the sites' secret, or `min-leaf` is no number of rows.
    """
    agent, secret = _agent(config), bool(configured_secret(config))
    return [
        f"{table.source}: {columns.n} rows",
        "",
        "What would be used",
        *_used_lines(columns, table, config, agent),
        "",
        "What would leave this site",
        f"  once: how many rows ({columns.n}) and columns learned from ({columns.x.shape[1]}), and the agent's method",
        *_name_lines(columns, secret=secret),
        *_learning_lines(columns, config, agent),
        *_prediction_lines(columns, config),
        *_seal_lines(columns, config, secret=secret),
        "",
        "What never leaves this site",
        f"  the inputs, their names{' and categories' if columns.categories else ''}, and every column not used; the "
        "fitted model, which is kept",
        "  in this site's own directory (site-output-dir) or not at all; the entities' names",
    ]


def _agent(config: Mapping[str, object]) -> Candidate:
    try:
        return parse_method(setting(config, "agent") or setting(config, "residual.agent") or "tree", dotted=True)
    except MethodError as error:
        raise DataError(f"configuration: {error}", "bad-configuration") from error


def _kind(agent: Candidate) -> str:
    """Which of `_KINDS` the method is; empty: none of them."""
    module = agent.method[: agent.method.rfind(".") + 1]
    return next((kind for kind, members in _KINDS.items() if agent.method in members or module in members), "")


def _used_lines(columns: Columns, table: Table, config: Mapping[str, object], agent: Candidate) -> list[str]:
    """Inputs, outcome, entities, and what is left over."""
    made = {f"{name}={value}" for name, values in columns.categories.items() for value in values}
    inputs = sorted([*(name for name in columns.features if name not in made), *columns.categories])
    entity = setting(config, "id") if columns.entity is not None else ""
    outcome = setting(config, "target") if columns.y is not None else ""
    unused = [name for name in table.columns if name not in {*inputs, entity, outcome}]
    return [
        f"  inputs: {', '.join(inputs) or 'none; this site takes part with its outcome alone'}",
        *(line for name in columns.categories for line in _category_lines(columns, name)),
        f"  outcome: {outcome or 'none; the fusion center or another site holds it'}",
        f"  entities: {_entities(columns, entity)}",
        f"  columns not used: {', '.join(unused) or 'none'}",
        *([f"  agent: {agent.text}{_leaf(agent, config)}"] if inputs else []),
    ]


def _category_lines(columns: Columns, name: str) -> list[str]:
    values = columns.categories[name]
    rest = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    places = [columns.features.index(f"{name}={value}") for value in values]
    others = columns.n - int(columns.x[:, places].sum())
    none = f"; {others} rows are of none of these" if others else ""
    return [f"    {name}: {len(values)} categories, {', '.join(values[:_SHOWN])}{rest}{none}"]


def _entities(columns: Columns, id_column: str) -> str:
    if columns.entity is None:
        return "by the number of their row, which must be the same at every site"
    return f"named by {id_column} ({columns.entity_kind}); rows of entities that another site lacks are not used"


def _leaf(agent: Candidate, config: Mapping[str, object]) -> str:
    own = own_number(config, "min-leaf", 1)
    if _kind(agent) not in ("tree", "trees"):
        return ""
    of_the_run = int(str(config.get("residual.min-leaf") or 0))
    if of_the_run or own > 1:
        return f", {max(of_the_run, own)} rows or more in a leaf"
    return ", 40 rows or more in a leaf (fewer where there are few rows, more of many)"


def _name_lines(columns: Columns, *, secret: bool) -> list[str]:
    """What the rows are matched by."""
    if columns.entity is None:
        return []
    lines = ["  once: a keyed hash of each entity's name (HMAC-SHA256, another key in every run), by which the fusion"]
    if secret:
        lines.append("    center matches the rows; it does not know the secret in the key, so it cannot test guesses")
    else:
        lines.append(
            "    center matches the rows; it knows the key and can test whether a name that it guesses is among"
        )
        lines.append("    yours, unless the sites share a secret: align-key-file")
    lines.append(
        "    It learns how many entities, and which of these hashes, this site has in common with others, and whether"
    )
    return [
        *lines,
        "    the names are numbers or text. Every other site learns which of its own entities all sites know: with",
        "    two sites, which of them are yours",
    ]


def _model_lines(agent: Candidate, columns: Columns) -> list[str]:
    """What the numbers of a round tell of the columns."""
    kind, p = _kind(agent), columns.x.shape[1]
    if not p:
        return []
    if kind == "tree":
        return [
            "    of a tree: entities of one leaf get equal numbers, so who is alike in your columns shows; where the",
            "    leaves of several rounds overlap, the groups that stay alike are smaller than the smallest leaf",
        ]
    if kind == "trees":
        return [
            "    of many trees together: entities get equal numbers where they share all leaves, and these groups can",
            "    be small; who is alike in your columns shows",
        ]
    if kind == "line" and p == 1:
        return [
            "    of a linear model of one column: THESE NUMBERS ARE YOUR COLUMN but for unit and zero; choose a tree",
            "    if that must not be seen",
        ]
    if kind == "line":
        return [
            f"    of a linear model: a weighted sum of your {p} columns; {p} rounds with other weights GIVE THEM",
            "    ALL AWAY but for how they are mixed; choose a tree if that must not be seen",
        ]
    return ["    a function of your columns: entities that are alike in them get numbers that are alike"]


def _learning_lines(columns: Columns, config: Mapping[str, object], agent: Candidate) -> list[str]:
    """What crosses while the agents learn, and who reads it: it depends on who does the arithmetic."""
    model = _model_lines(agent, columns)
    if _ring(config):
        return _ring_lines(columns, config, model)
    if columns.y is not None:
        return [
            "  This site holds the outcome and does the fusion center's arithmetic.",
            f"  every round, to the other sites, sealed for each ({_CIPHER}), for each",
            "    common entity learned from: THE OUTCOME, in the first round less its mean, later less what has been",
            "    predicted of it",
            *_inferred(model),
            "  every round, to the fusion center: mean squared errors; at the end p, and each agent's coefficient and",
            "    mean square",
        ]
    return [
        "  every round, for each entity that all sites hold: one number (where residual.power=auto one for each",
        "    power that is tried), what this site's model says of it",
        *model,
        "    with residual.algorithm=greedy also 1 number, the error that the model leaves",
        *_reader_lines(config),
        "  The other sites see what is left of the outcome from round to round: with two sites, the other can work out",
        "    these numbers. For a ring: --set residual.topology=ring",
    ]


def _inferred(model: list[str]) -> list[str]:
    """What others can work out of a model whose predictions are not sent."""
    if not model:
        return []
    return ["    With two sites, the other can work out from that what this site's model says of each entity:", *model]


def _reader_lines(config: Mapping[str, object]) -> list[str]:
    """Who sees the predictions of a site that holds no outcome."""
    sealed = f"they cross sealed ({_CIPHER})"
    if _sealed_only(config):
        return [f"  Who reads these numbers: the site that holds the outcome; {sealed}"]
    if setting(config, "labels"):
        return ["  Who reads these numbers: the fusion center, which holds the outcome"]
    return [
        "  Who reads these numbers: the fusion center, where it holds the outcome; where a site does, that site:",
        f"    {sealed}. A site that wants this only says so: sealed-only=true",
    ]


def _ring_lines(columns: Columns, config: Mapping[str, object], model: list[str]) -> list[str]:
    """The residual goes from agent to agent, on all rows, and nobody does the arithmetic."""
    if columns.y is not None:
        lines = [
            f"  This site holds the outcome. To the next site, sealed for it ({_CIPHER}), for each",
            "    entity that all sites hold, test rows too: THE OUTCOME less its mean, later less what has been",
            "    predicted of it",
        ]
    else:
        lines = [
            f"  every turn, to the next site, sealed for it ({_CIPHER}), for each entity that all",
            "    sites hold, test rows too: what is left of the outcome, less what this site's model says",
        ]
        if setting(config, "labels"):
            lines.append("    The fusion center, which holds the outcome, gives it to the first site in the clear")
    return [
        *lines,
        *_inferred(model),
        "  every turn, to the fusion center: mean squares of what is left, of this site's step, and of its steps' sum",
    ]


def _prediction_lines(columns: Columns, config: Mapping[str, object]) -> list[str]:
    """What crosses when kept models are to predict."""
    if columns.y is not None:
        return [
            "  when kept models are to predict (from): the keyed hash of each row's entity, and how many are",
            "    predicted; the predictions stay here",
        ]
    return [
        "  when a kept model is to predict (from): for each row one number, this site's part of the",
        "    prediction, for who held the outcome (sealed, if that is a site), and the keyed hash of its entity",
    ]


def _seal_lines(columns: Columns, config: Mapping[str, object], *, secret: bool) -> list[str]:
    """What the seals are good for, where there are any for certain."""
    if not (_ring(config) or columns.y is not None or _sealed_only(config)):
        return []
    lines = [
        "  The seals keep this from a fusion center that follows the protocol and reads along. One that makes many",
        "    runs with rows of its choice learns sums over them: know with whom you run",
    ]
    if not secret:
        lines.append("    A real site seals nothing without a secret that the sites share: set align-key-file")
    if _sealed_only(config) and setting(config, "labels") and not _ring(config):
        lines.append("    With labels the fusion center holds the outcome: sealed-only=true refuses such a run")
    return lines


def _ring(config: Mapping[str, object]) -> bool:
    return setting(config, "residual.topology") == "ring"


def _sealed_only(config: Mapping[str, object]) -> bool:
    return bool(config.get("sealed-only"))
