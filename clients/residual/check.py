"""What a party should know before it joins an attribute-distributed run: what of its data is used, and what leaves."""

from __future__ import annotations

from collections.abc import Mapping

from clients.data import DataError, Table, setting
from clients.entities import read_secret
from clients.residual.agents import Agent, AgentError, parse_agent
from numerics.columns import Columns

_KINDS = {
    "tree": ("tree", "sklearn.tree."),
    "trees": ("rf", "gb", "hgb", "sklearn.ensemble."),
    "line": ("lr", "ridge", "lasso", "en", "lars", "sklearn.linear_model."),
}
"""Methods, or the modules of those named in full, by what their predictions tell of the columns."""
_SHOWN = 8  # categories that are named: enough to see whether the column is one of categories


def describe(columns: Columns, table: Table, config: Mapping[str, object]) -> list[str]:
    """Lines to print for `consilience check`.

    Parameters
    ----------
    columns : Columns
        As they were made of `table`.
    table : Table
        The party's own.
    config : Mapping
        Run or node configuration.

    Raises
    ------
    DataError
        If the agent's method cannot be read, or the file of the sites' secret.
    """
    agent = _agent(config)
    return [
        f"{table.source}: {columns.n} rows",
        "",
        "What would be used",
        *_used_lines(columns, table, config, agent),
        "",
        "What would leave this site",
        f"  once: how many rows ({columns.n}) and columns learnt from ({columns.x.shape[1]}), and the agent's method",
        *_name_lines(columns, secret=bool(read_secret(config))),
        "  every round, for each entity that all parties hold: one number (where residual.power=auto one for each",
        "    power that is tried), what this site's model says of it",
        *_model_lines(agent, columns),
        "    with residual.algorithm=greedy also 1 number, the error that the model leaves",
        "  when a kept model is to predict (residual.model): for each row one number, this site's part of the",
        "    prediction, and the keyed hash of its entity",
        *_reader_lines(columns),
        "",
        "What never leaves this site",
        f"  the inputs, their names{' and categories' if columns.categories else ''}, and every column not used; the "
        "fitted model, which is kept",
        "  in this site's own directory (site-output-dir) or not at all; the entities' names",
    ]


def _agent(config: Mapping[str, object]) -> Agent:
    try:
        return parse_agent(setting(config, "agent") or setting(config, "residual.agent") or "tree", dotted=True)
    except AgentError as error:
        raise DataError(f"configuration: {error}", "bad-configuration") from error


def _kind(agent: Agent) -> str:
    """Which of `_KINDS` the method is; empty: none of them."""
    module = agent.method[: agent.method.rfind(".") + 1]
    return next((kind for kind, members in _KINDS.items() if agent.method in members or module in members), "")


def _used_lines(columns: Columns, table: Table, config: Mapping[str, object], agent: Agent) -> list[str]:
    """Inputs, outcome, entities, and what is left over."""
    made = {f"{name}={value}" for name, values in columns.categories.items() for value in values}
    inputs = sorted([*(name for name in columns.features if name not in made), *columns.categories])
    entity = setting(config, "id") if columns.entity is not None else ""
    outcome = setting(config, "target") if columns.y is not None else ""
    unused = [name for name in table.columns if name not in {*inputs, entity, outcome}]
    return [
        f"  inputs: {', '.join(inputs)}",
        *(line for name in columns.categories for line in _category_lines(columns, name)),
        f"  outcome: {outcome or 'none; the fusion center or another site holds it'}",
        f"  entities: {_entities(columns, entity)}",
        f"  columns not used: {', '.join(unused) or 'none'}",
        f"  agent: {agent.text}{_leaf(agent, config)}",
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
        return "by the number of their row, which must be the same at every party"
    return f"named by {id_column} ({columns.entity_kind}); rows without a partner at every party are not used"


def _leaf(agent: Agent, config: Mapping[str, object]) -> str:
    if _kind(agent) not in ("tree", "trees"):
        return ""
    least = max(int(str(config.get(key) or 0)) for key in ("residual.min-leaf", "min-leaf"))
    return f", {least or 40} rows or more in a leaf{'' if least else ' (fewer where there are few rows, more of many)'}"


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
    return [*lines, "    the names are numbers or text"]


def _model_lines(agent: Agent, columns: Columns) -> list[str]:
    """What the numbers of a round tell of the columns."""
    kind, p = _kind(agent), columns.x.shape[1]
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


def _reader_lines(columns: Columns) -> list[str]:
    """Who sees these numbers, and what the other sites are shown."""
    if columns.y is None:
        return [
            "  Who reads these numbers: the fusion center, where it holds the outcome; where a site does, that site:",
            "    they cross sealed (X25519, ChaCha20-Poly1305). With residual.topology=ring the next site reads what",
            "    they leave of the outcome, sealed, which with two sites shows them; the center, means of squares",
        ]
    return [
        "  This site holds the outcome and does the fusion center's arithmetic: the center learns mean squared errors.",
        "  To the other sites, sealed for each (X25519, ChaCha20-Poly1305), for each common entity learnt from: THE",
        "    OUTCOME, in the first round less its mean, later less what has been predicted of it",
    ]
