"""Preflight: checks of a run's settings, files and folders before anything starts.

The command, the ServerApp and the Python interface share these checks. They import no Flower, and print nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clients.data import DataError
from clients.data.advice import advice_of
from clients.data.columns import Tables, check_sites, of_each, read_all, unused_columns
from clients.data.inspection import unlike_values
from clients.data.preparation import empty_columns, first_rows
from clients.data.simulated_sites import SimulatedSites, simulated_sites
from clients.data.source import without_notes
from clients.data.target import numbers_as_classes
from common.data_places import GIVEN_IN_PYTHON, shown_place
from common.grouping import group_messages
from common.results import PREDICT
from common.settings import Config, ConfigError, SettingError, did_you_mean
from protocols import registry
from protocols.prediction import PredictionError, prediction_of, predicts_new_rows, read_report, resolve
from protocols.settings import check_libraries, check_sums, check_task, checked, declared, run_keys, tasks_of
from scenarios.registry import Cell, Scenario, ScenarioError, find, select_cells
from server.report.data import ResultsError
from server.report.formatting import listed
from server.report.protocol import report_of
from server.run_plan import CenterData, RunPlan
from strategies.interrupted_run import CheckpointError, check_identity

__all__ = ["REFUSALS", "check_columns", "check_together", "preflight", "refuse_other_protocols"]

REFUSALS = (CheckpointError, DataError, ResultsError, ScenarioError, SettingError)
"""What `preflight` raises: errors that the user can correct, of one sentence each."""
_MOST_BYTES = 20_000_000
"""Most bytes of all files together that are read before the run, in half a second; larger ones only the sites read."""


def preflight(settings: Mapping[str, Any], n_sites: int | None = None, *, simulated: bool = True) -> RunPlan:
    """Check a run beforehand, and return its plan.

    Parameters
    ----------
    settings : Mapping
        Keys of the run configuration that the user has set; all others have their defaults.
    n_sites : int or None
        Number of simulated sites; None: as many as the scenario or the data folder has.
    simulated : bool
        Whether the sites are simulated. If not, sites with own data may be real, and hold their data themselves.

    Raises
    ------
    SettingError
        If a key, a value, their combination, or the run of ``from`` cannot be used.
    ScenarioError
        If there is no such scenario, its data are not available, or it has another number of sites.
    DataError
        If the files of the data folder cannot be used together.
    ResultsError, CheckpointError
        If the output directory cannot be written, or the run of ``resume-from`` cannot be resumed.

    Examples
    --------
    >>> preflight({"scenario": "bc3e-wine"}, 7).n_sites
    7
    >>> preflight({"scenario": "bc3e-whine"})
    Traceback (most recent call last):
    scenarios.registry.ScenarioError: unknown scenario 'bc3e-whine'; did you mean bc3e-wine?
    """
    _check_combination(settings)
    typed = checked({**declared(), **settings})
    config = checked(resolve(typed))
    scenario = None if config["protocol"] else find(str(config["scenario"]))
    if scenario is None and config["cells"]:
        raise ConfigError("cells are rows of a scenario's table, and own data have none: leave it out")
    protocol = str(config["protocol"]) if scenario is None else scenario.protocol
    refuse_other_protocols(settings, protocol)
    check_sums(config, protocol)
    check_task(config, protocol)
    plan = RunPlan(typed, config, scenario, protocol, _cells(scenario, config), 0)
    for each in plan.configs:
        check_libraries(each, protocol)
    plan = replace(plan, n_sites=_number_of_sites(plan, n_sites, simulated=simulated))
    if 0 < plan.n_sites < int(config["min-sites"]):
        raise ConfigError(
            f"min-sites is {config['min-sites']}, and there are {plan.n_sites} sites: they would not suffice"
        )
    if scenario is not None and scenario.data_set:
        from scenarios.datasets import DATA_SETS

        DATA_SETS[scenario.data_set].check(config)
    own = simulated_sites(str(config["data"])) if scenario is None and config["data"] else None
    if own is not None:
        plan = _with_advice(replace(plan, notes=check_columns(own, protocol, config)), own)
    plan = replace(plan, center=_center_data(plan))
    present = [key for key, file in plan.center.files.items() if file]  # no columns: no file
    for each in plan.configs:
        registry.room(protocol, "settings").Settings.of(each).check_together(each, present)
    if own is not None and simulated:
        plan = replace(plan, notes=(*plan.notes, *check_together(own, protocol, config, plan.center.files)))
    _check_output(plan)
    if config["resume-from"]:
        _check_interrupted(plan)
    return plan


# -- settings ---------------------------------------------------------------------------------------------------------


def _check_combination(settings: Mapping[str, Any]) -> None:
    """Refuse keys that do not exist, and keys that contradict each other."""
    keys = run_keys()
    for key in settings:
        if key not in keys:
            raise ConfigError(f"unknown key {key!r}; {did_you_mean(key, keys)}")
    scenario, protocol, data = (settings.get(key) for key in ("scenario", "protocol", "data"))
    if scenario == PREDICT:
        return
    if protocol and scenario:
        raise ConfigError("a run has a scenario, or a protocol and data, not both: leave one of them out")
    # A scenario may read a file of its own from `data`; data alone name no protocol.
    if data and not (protocol or scenario):
        raise ConfigError(f"data without protocol: set protocol to {listed(registry.names(), 'or')}")


def refuse_other_protocols(settings: Mapping[str, Any], protocol: str) -> None:
    """Refuse keys of a protocol that does not run: they would have no effect.

    Raises
    ------
    ConfigError
        Naming the first one.
    """
    own = [key for key in run_keys() if key.startswith(f"{protocol}.")]
    for key in settings:
        family, dot, name = key.partition(".")
        if dot and family != protocol:
            hint = f"did you mean {protocol}.{name}?" if f"{protocol}.{name}" in own else "leave it out"
            raise ConfigError(f"{key} is a key of {family}, and this is a run of {protocol}; {hint}")


def _cells(scenario: Scenario | None, config: Config) -> list[Cell]:
    """Return the rows of the scenario's table; refuse keys that all rows set."""
    if scenario is None:
        return []
    cells, defaults = select_cells(scenario, config), declared()
    for cell in cells:
        for key in cell.settings.keys() - cell.defaults.keys():
            if config[key] != defaults[key]:
                label, value = next(iter(cell.labels.items()))
                raise ScenarioError(
                    f"{key} is set by the rows of {scenario.name}; choose among them, as in cells='{label}={value}'"
                )
    return cells


# -- sites and their files --------------------------------------------------------------------------------------------


def _number_of_sites(plan: RunPlan, wanted: int | None, *, simulated: bool) -> int:
    """Return the number of sites; 0 if it is unknown before they connect."""
    config, scenario = plan.config, plan.scenario
    if scenario is None:
        if config["data"]:
            return _sites_with_data(config, wanted, simulated=simulated)
        if simulated:
            raise _no_data(plan)
        return 0
    if wanted is not None and wanted != scenario.sites and not scenario.any_number:
        raise ScenarioError(f"{scenario.name} has {scenario.sites} sites, no more and no less, not {wanted}")
    if wanted is not None or not simulated:
        return wanted or (0 if scenario.any_number else scenario.sites)
    return len(read_report(str(config["from"]))["sites"]) if config["from"] else scenario.sites


def _sites_with_data(config: Config, wanted: int | None, *, simulated: bool) -> int:
    sites = simulated_sites(str(config["data"]))
    data = shown_place(sites.data)
    if simulated and not (sites.number or wanted):
        raise ConfigError(f"{data} does not say for how many sites it has data; set sites")
    if sites.number is not None and wanted not in (None, sites.number):
        raise ConfigError(f"{data} holds the data of {sites.number} sites, not {wanted}")
    return sites.number or wanted or 0


def check_columns(sites: SimulatedSites, protocol: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Check that the data of simulated sites fit a protocol and each other; return notes for the user.

    Raises
    ------
    DataError
        As `clients.data.columns.check_sites`.
    """
    # A protocol of another package may leave this to its sites.
    check = getattr(registry.room(protocol, "shard"), "check_columns", None)

    notes: list[str] = []

    def prepared(tables: Tables) -> None:
        ready = of_each(tables, lambda table: first_rows(table, config))
        if check:
            check(ready, config)
        unused = unused_columns(ready, config) if "features" in report_of(protocol).column_keys else []
        notes[:] = [*unused, *numbers_as_classes(ready, config, tasks_of(protocol))]

    check_sites(sites, prepared)
    return tuple(notes)


def check_rows(sites: SimulatedSites, protocol: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Read all sites' rows as the sites do, if they are tables given in Python or small files.

    Parameters
    ----------
    sites : SimulatedSites
        The sites. A function of the site's own may take long, and is not called here.

    Returns
    -------
    dict
        Shards by site; empty if nothing was read.

    Raises
    ------
    DataError
        One error for all sites whose data the protocol cannot use.
    """
    if not _are_at_hand(sites):
        return {}
    if predicts_new_rows(config) and config["missing"] == "impute":  # medians are in the sites' kept models
        return {}
    room = registry.room(protocol, "shard")
    configs = {name: sites.config(place, len(sites.names), config) for place, name in enumerate(sites.names)}
    sources = dict(zip(sites.names, map(str, sites.paths or sites.names), strict=True))
    with without_notes():  # each site's own log has them
        return read_all(configs, getattr(room, "check_rows", room.open_shard), sources)


def check_together(
    sites: SimulatedSites, protocol: str, config: Mapping[str, Any], center: Mapping[str, Any]
) -> tuple[str, ...]:
    """Check that rows of simulated sites and of the fusion center fit together; return notes for the user.

    Parameters
    ----------
    sites, protocol, config
        As of `check_rows`, whose errors this raises, too.
    center : Mapping
        The fusion center's own files (`server.report.protocol.ProtocolReport.center_files`).
    """
    check = getattr(registry.room(protocol, "shard"), "check_together", None)
    shards = check_rows(sites, protocol, config)
    return tuple((shards and check and check(shards, center, config)) or ())


def _are_at_hand(sites: SimulatedSites) -> bool:
    """Whether all rows can be read before a run: tables given in Python, or files that are small together."""
    if sites.paths:
        return sum(path.stat().st_size for path in sites.paths) <= _MOST_BYTES
    return sites.data.startswith(GIVEN_IN_PYTHON)


def _with_advice(plan: RunPlan, sites: SimulatedSites) -> RunPlan:
    """Add to the plan the preparation of simulated sites' rows, and warnings of errors that would look too small."""
    config = plan.config
    if predicts_new_rows(config) or not _are_at_hand(sites):
        return plan
    advice = {name: advice_of(sites.config(place, len(sites.names), config)) for place, name in enumerate(sites.names)}
    prepared = group_messages((name, "; ".join(each.prepared)) for name, each in advice.items() if each.prepared)
    by_features = "features" in report_of(plan.protocol).column_keys  # others use the columns that they name
    cautions = group_messages((name, line) for name, each in advice.items() if by_features for line in each.cautions)
    cautions += unlike_values({name: each.values for name, each in advice.items() if by_features})
    nowhere = set.intersection(*(set(each.empty) for each in advice.values()))
    empty = empty_columns([name for name in next(iter(advice.values())).empty if name in nowhere], "no site")
    return replace(plan, notes=(*plan.notes, *empty), prepared=(*prepared, *empty), cautions=tuple(cautions))


def _no_data(plan: RunPlan) -> SettingError:
    if not plan.config["from"]:
        return ConfigError("protocol without data: set data to a folder with one file for every site")
    prediction = prediction_of(plan.protocol)
    if prediction and not prediction.new_rows:
        return PredictionError(
            f"the sites of {plan.config['from']} were real, and their rows are not here; predict between them, with"
            " flwr run"
        )
    return PredictionError("a prediction needs data: a folder with one file for every site, of its new rows")


def _center_data(plan: RunPlan) -> CenterData:
    """Read the fusion center's own data: its files, and the results of an earlier run that this one uses."""
    known = report_of(plan.protocol)
    earlier = known.earlier_arrays(plan.config)
    return CenterData(known.center_files(plan.config, scenario=plan.scenario is not None), earlier)


# -- folders ----------------------------------------------------------------------------------------------------------


def _check_output(plan: RunPlan) -> None:
    """Refuse an output directory in which no folder can be made."""
    folder = Path(os.path.abspath(Path(str(plan.config["output-dir"])).expanduser())) / plan.name
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not place.is_dir():
        raise ResultsError(f"output-dir: {place} is a file, not a folder; set another output-dir")
    try:
        with tempfile.TemporaryDirectory(prefix=".consilience-", dir=place):
            pass
    except OSError as error:
        raise ResultsError(
            f"output-dir: nothing can be written to {place} ({error.strerror or error}); set another output-dir"
        ) from error


def _check_interrupted(plan: RunPlan) -> None:
    """Refuse to resume anything but an interrupted run of the same configuration."""
    from server.results import find_interrupted

    partial = find_interrupted(str(plan.config["resume-from"]))
    if plan.n_sites or not plan.simulated:
        check_identity(partial / "checkpoint", plan.identity)
