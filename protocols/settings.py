"""Keys of runs of all protocols, and keys of the node configuration of all sites.

The keys of a protocol stand in its own room (`protocols.registry`, ``settings``). `run_keys` has all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from common.extras import require
from common.settings import Config, ConfigError, Setting, Settings, did_you_mean, setting
from common.value_ranges import NOT_EMPTY, POSITIVE, ValueRange, at_least, between
from protocols import registry

_LONGEST_ABBREVIATION = 4


@dataclass(frozen=True)
class ProtocolSettings(Settings):
    """Keys of one protocol in a run: ``Settings`` in its ``settings`` module, with the protocol's name as prefix.

    ``strategies.NAME.from_config`` and the scenarios make it from the run configuration (`Settings.of`). The module
    also has ``Consents``, a `common.settings.Settings` without prefix: keys that only a site sets, in its node
    configuration. Where the protocol's results can predict, it has ``PREDICTION``, a `protocols.prediction.Prediction`.

    Attributes
    ----------
    summed : str
        Protocol and settings, in words, with which the center needs only sums of answers, so that
        ``secure-aggregation`` can mask them; empty: the center always needs every answer.
    tasks : tuple of str
        Kinds of target: ``regression``, ``classification``; empty: the protocol has no target.
    quick : bool
        Whether an ask about a scenario's rows takes milliseconds, so that one process of Flower's simulation engine is
        quicker than several.
    """

    summed: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = ()
    quick: ClassVar[bool] = False

    def __init_subclass__(cls, prefix: str = "", **options: Any) -> None:
        super().__init_subclass__(prefix=prefix, **options)
        setattr(cls, "__repr__", _as_typed)  # noqa: B010 - a dataclass keeps what its own class has

    @property
    def libraries(self) -> Mapping[str, str]:
        """Libraries of extras that a run with these settings needs, each with its purpose."""
        return {}

    def check_together(self, config: Mapping[str, Any], files: Collection[str]) -> None:
        """Refuse settings that exclude each other, or have no effect together.

        Parameters
        ----------
        config : Mapping
            Run configuration of which these settings are a part.
        files : collection of str
            Keys of the fusion center's own files, such as ``test``.

        Raises
        ------
        ConfigError
            Naming the key, and what it needs.
        """


def public_name(protocol: str) -> str:
    """Return the name that a protocol's settings have in Python: an abbreviation is in capitals.

    Examples
    --------
    >>> public_name("gp"), public_name("coreset")
    ('GP', 'Coreset')
    """
    return protocol.upper() if len(protocol) <= _LONGEST_ABBREVIATION else protocol.capitalize()


def _as_typed(settings: ProtocolSettings) -> str:
    """Return the settings that were set explicitly, as a user types them in Python."""
    prefix = settings.prefix
    values = {key.removeprefix(prefix).replace("-", "_"): value for key, value in settings.explicit().items()}
    return f"{public_name(prefix[:-1])}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


@dataclass(frozen=True)
class RunSettings(Settings):
    """Keys that every run has."""

    scenario: str = setting(
        "bc3e-wine",
        "scenario to run (consilience list), or predict: predict new data by the results that from names; only"
        " `flwr run` has a default",
    )
    seed: int = setting(0, "seed of everything random", at_least(0))
    repetitions: int = setting(1, "draws of the scenario, computed in the same rounds", between(1, 1000))
    cells: str = setting("", "only the rows of a scenario's table with these labels, e.g. 'p=5 SNR=16'", data=True)
    output_dir: str = setting("results", "folder of the results directories", NOT_EMPTY, path=True)
    from_: str = setting("", "scenario=predict: results directory of the run to predict by", path=True, data=True)
    resume_from: str = setting("", "results directory of an interrupted run to continue", path=True)
    min_sites: int = setting(1, "sites that must be connected at the start and answer every round", at_least(1))
    round_timeout: float = setting(600.0, "seconds to wait for a round's answers", POSITIVE)
    max_payload_mb: float = setting(512.0, "largest answer of a site that is accepted, in megabytes", POSITIVE)
    secure_aggregation: bool = setting(
        False, "sites mask answers that are only summed, so that the fusion center sees the sum alone"
    )
    protocol: str = setting(
        "",
        "protocol to run on the sites' own data; empty: run the scenario",
        ValueRange("empty, or a protocol that is installed", lambda name: not name or bool(registry.find(name))),
    )
    data: str = setting(
        "",
        "simulation: folder with a file for each site, their paths, or a function; deployment: each node's own `data`",
        path=True,
        own=True,
        data=True,
    )
    target: str = setting("", "label column", own=True, data=True)
    task: Literal["auto", "regression", "classification"] = setting(
        "auto",
        "what the target is: an amount (regression) or a class (classification); auto: text, true and false, and two to"
        " twenty whole numbers are classes, where the protocol has them. A real site refuses a run's classification of"
        " what auto takes for amounts, unless its node configuration has it",
        data=True,
    )
    class_weight: Literal["none", "balanced"] = setting(
        "none", "weight of rows in a fit of classes: alike (none), or such that every class has the same (balanced)"
    )
    features: str = setting("", "columns used, names or globs", own=True)
    missing: Literal["refuse", "drop", "impute"] = setting(
        "refuse",
        "empty cells, and numbers written as text: an error, the row is left out, or filled with the site's median",
        own=True,
    )
    indicators: str = setting("", "columns that get a column NAME_missing, names or globs", own=True)
    categories: str = setting("", "values of columns of text, which become 0 and 1: 'sex=f|m; ward=a|b|*'", own=True)
    ordinal: str = setting("", "values in order: 'grade=low<mid<high', which become 0, 1, 2", own=True)
    id: str = setting("", "entity column", own=True)
    group: str = setting(
        "", "column of the persons: rows of one are held out together, and min-rows counts persons", own=True, data=True
    )
    sensitive: str = setting(
        "", "sensitive columns, names or globs; their values together are a row's group", own=True, data=True
    )
    classes: str = setting("class_*", "columns of class labels, names or globs", own=True)
    clusters: str = setting("cluster_*", "columns of cluster labels, names or globs", own=True)
    truth: str = setting("", "column of known classes, for evaluation at the site only", own=True, data=True)
    labels: str = setting(
        "", "the fusion center's own file of outcomes, with the columns `target` and `id`", path=True, data=True
    )
    test: str = setting("", "the fusion center's own file of test rows, with `target`", path=True, data=True)
    align_key_file: str = setting(
        "", "secret by which entities' names are hashed; a real site names its own", path=True, own=True
    )


@dataclass(frozen=True)
class SiteSettings(Settings):
    """Keys that a real site sets in its node configuration only, in all protocols."""

    site: str = setting("", "the site's name", words="node-NODE-ID")
    database: str = setting("", "connection string of the site's database, where data is a query")
    cache: bool = setting(True, "store the parsed data in the site's own directory, for the next run")
    min_rows: int = setting(5, "fewest rows with which the site takes part", at_least(1))
    policy: str = setting("", "the site's policy file: which asks it answers, and how many", path=True)
    site_output_dir: str = setting("", "the site's own directory: output files, ledger, models", path=True)
    guard: str = setting("", "socket of the site's guard (consilience guard), which answers instead", path=True)


@cache
def run_keys() -> Mapping[str, Setting]:
    """Return every key that a run may set, those of other packages' protocols too, in the order of pyproject.toml.

    Examples
    --------
    >>> run_keys()["gp.landmarks"].default
    32
    """
    keys = dict(RunSettings.keys())
    for protocol in registry.names():
        keys |= _class_of(protocol, "Settings").keys()
    return keys


def site_keys(*protocols: str) -> dict[str, Setting]:
    """Return the keys that a site sets in its node configuration only, of these protocols; of all if none is named.

    Examples
    --------
    >>> site_keys("gp")["max-queries"].default
    100000
    """
    keys = dict(SiteSettings.keys())
    for protocol in protocols or registry.names():
        keys |= _class_of(protocol, "Consents").keys()
    return keys


def _class_of(protocol: str, name: str) -> type[Settings]:
    """Return a class of a protocol's settings; a `RegistryError` if another package has none there."""
    room = registry.room(protocol, "settings")
    cls = getattr(room, name, None)
    if not (isinstance(cls, type) and issubclass(cls, Settings)):
        raise registry.RegistryError(f"the protocol {protocol!r}: {room.__name__} has no class {name} of settings")
    return cls


def declared() -> Config:
    """Return every key that a run may set, with its default.

    Examples
    --------
    >>> declared()["round-timeout"], checked({**declared(), "seed": 3})["seed"]
    (600.0, 3)
    """
    return {key: each.declared for key, each in run_keys().items()}


TASK_OF_RUN = "task-of-run"
"""Key of a real site's configuration that holds the run's ``task=classification``."""


def taken_from_run(run_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run configuration that hold at a real site.

    A site sets its data, their columns and its consents in its own configuration. From the run it takes the keys of
    protocols, and the common keys that a site does not set. ``task=classification`` would tell each value of an amount:
    it becomes ``task-of-run``, which `clients.data.target.read_target` obeys where ``task=auto`` finds classes.

    Examples
    --------
    >>> taken_from_run({"seed": 3, "data": "/etc", "gp.landmarks": 8})
    {'seed': 3, 'gp.landmarks': 8}
    >>> taken_from_run({"task": "classification"})
    {'task': 'auto', 'task-of-run': 'classification'}
    """
    keys = RunSettings.keys()
    taken = {key: value for key, value in run_config.items() if "." in key or (key in keys and not keys[key].own)}
    if taken.get("task") == "classification":
        taken |= {"task": "auto", TASK_OF_RUN: "classification"}
    return taken


def checked(run_config: Mapping[str, Any]) -> Config:
    """Return the run configuration after checking type and range of every value.

    Raises
    ------
    ConfigError
        Naming the first key that is unknown, missing, or out of range.
    """
    keys = run_keys()
    for key in run_config:
        if key not in keys:
            raise ConfigError(f"unknown key {key!r} in the run configuration; {did_you_mean(key, keys)}")
    if missing := [key for key in keys if key not in run_config]:
        raise ConfigError(f"the run configuration lacks {', '.join(missing)}")
    return {key: keys[key].check(value) for key, value in run_config.items()}


def check_libraries(config: Mapping[str, Any], protocol: str) -> None:
    """Refuse a run that needs a library which is not installed here.

    Raises
    ------
    MissingLibraryError
        Naming the library and the extra that brings it.
    """
    settings: ProtocolSettings = registry.room(protocol, "settings").Settings.of(config)
    for library, purpose in settings.libraries.items():
        require(library, purpose)


def check_sums(config: Mapping[str, Any], protocol: str) -> None:
    """Refuse ``secure-aggregation`` where the fusion center needs each site's answer, not only the sum.

    Raises
    ------
    ConfigError
        Naming the protocols that sum.
    """
    settings = registry.room(protocol, "settings").Settings
    if config["secure-aggregation"] and not settings.summed:
        rooms = (registry.room(name, "settings").Settings for name in registry.names())
        *others, last = (each.summed for each in rooms if each.summed)
        where = f"{', '.join(others)} and {last}"
        raise ConfigError(
            f"secure-aggregation=true is for {where}; the fusion center of {protocol} needs what each site says, not"
            " the sum: leave it out"
        )


def tasks_of(protocol: str) -> tuple[str, ...]:
    """Return the kinds of target that a protocol has (`ProtocolSettings.tasks`).

    Examples
    --------
    >>> tasks_of("coreset")
    ()
    """
    settings: type[ProtocolSettings] = registry.room(protocol, "settings").Settings
    return settings.tasks


def check_task(config: Mapping[str, Any], protocol: str) -> None:
    """Refuse a `task` that the protocol does not have.

    Raises
    ------
    ConfigError
        Naming the protocols that have it.
    """
    task, tasks = str(config["task"]), tasks_of(protocol)
    if task != "auto" and task not in tasks:
        others = " and ".join(name for name in registry.names() if task in tasks_of(name))
        raise ConfigError(f"task={task} is for {others}; {protocol} has no such target: leave it out")
    if config["class-weight"] != "none" and ("classification" not in tasks or task == "regression"):
        raise ConfigError("class-weight is for classes; leave it out, or set task=classification")
