"""One run as the user asked for it: settings, number of sites, time limit. Mistakes are refused before it starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from common.results import PREDICT
from common.settings import SettingError, Value, absolute
from consilience.assignments import parse
from protocols import registry
from protocols.prediction import prediction_of, read_report, resolved
from protocols.settings import declared, run_keys


@dataclass(frozen=True)
class RunRequest:
    """One run.

    Attributes
    ----------
    settings : Mapping[str, bool | int | float | str]
        Run configuration that differs from the defaults; paths absolute, since the app runs in another directory.
    sites : int
        Number of simulated SuperNodes; 0: all connected SuperNodes, which are real.
    seconds : float
        After this time the run is stopped.
    """

    settings: Mapping[str, Value]
    sites: int
    seconds: float


def simulated_run(
    assignments: Iterable[str], options: Mapping[str, Value | None], sites: int | None, seconds: float
) -> RunRequest:
    """Return the request for a simulated run.

    Parameters
    ----------
    assignments : iterable of str
        ``key=value`` as typed after ``--set``.
    options : Mapping[str, bool | int | float | str | None]
        Keys of the run configuration that have an argument of their own (``scenario``, ``data``, ...); None: not set.
    sites : int or None
        Number of sites; None: as many as the scenario or the data folder has.
    seconds : float
        After this time the run is stopped.

    Raises
    ------
    SettingError
        If a key, a value or their combination cannot be used.
    """
    keys = run_keys()
    settings = parse(assignments, keys)
    for key, value in options.items():
        if value is None:
            continue
        if key in settings:
            raise SettingError(f"{key} is given twice: by --set and on its own")
        settings[key] = value
    settings.setdefault("output-dir", keys["output-dir"].declared)
    settings = absolute(settings, keys)
    return RunRequest(settings, _sites(settings, str(keys["scenario"].declared), sites), seconds)


def federated_run(settings: Mapping[str, Value], protocol: str, seconds: float) -> RunRequest:
    """Return the request for a run between real SuperNodes, whose own configurations name their data.

    Raises
    ------
    SettingError
        If there is no such protocol, or a setting names data.
    """
    _check_protocol(protocol)
    if stray := [key for key in ("data", "protocol", "scenario") if key in settings]:
        raise SettingError(
            f"{stray[0]} is not for --set here: every site has its file in --sites, and --protocol says what"
        )
    return RunRequest(absolute({**settings, "protocol": protocol}, run_keys()), 0, seconds)


def _check_protocol(protocol: str) -> None:
    if not registry.exists(protocol):
        raise SettingError(f"there is no protocol {protocol!r}; there is: {', '.join(registry.names())}")


def _sites(settings: Mapping[str, Value], default_scenario: str, wanted: int | None) -> int:
    if settings.get("scenario") == PREDICT:
        return _sites_that_predict(settings, wanted)
    if not settings.get("protocol"):
        # A scenario may read a file of its own from `data`; data alone name no protocol.
        if settings.get("data") and "scenario" not in settings:
            raise SettingError("own data need --protocol beside --data: which protocol is to run on them?")
        return _scenario_sites(str(settings.get("scenario", default_scenario)), wanted)
    _check_protocol(str(settings["protocol"]))
    if "scenario" in settings:
        raise SettingError("a run has a scenario, or --protocol and --data, not both")
    if not settings.get("data"):
        raise SettingError("--protocol needs --data beside it: a folder with one file for every site")
    return _sites_with_data(str(settings["data"]), wanted)


def _sites_that_predict(settings: Mapping[str, Value], wanted: int | None) -> int:
    """Return the number of sites with new rows; if the first run's rows predict, the number of its sites."""
    config = resolved({**declared(), **settings})
    if config["protocol"] and not config["data"]:
        prediction = prediction_of(str(config["protocol"]))
        if prediction and not prediction.new_rows:
            raise SettingError(
                f"the sites of {settings['from']} were real, and their rows are not here; predict between them, with"
                " flwr run"
            )
        raise SettingError("a prediction needs --data: a folder with one file for every site, of its new rows")
    if config["protocol"]:
        return _sites_with_data(str(config["data"]), wanted)
    return _scenario_sites(str(config["scenario"]), wanted or len(read_report(str(config["from"]))["sites"]))


def _scenario_sites(name: str, wanted: int | None) -> int:
    # Imported here: scenarios load scikit-learn, which `--help` and a mistyped key need not wait for.
    from scenarios.registry import ScenarioError, find

    try:
        scenario = find(name)
    except ScenarioError as error:
        raise SettingError(str(error)) from None
    if wanted is not None and wanted != scenario.sites and not scenario.any_number:
        raise SettingError(f"scenario {name!r} has {scenario.sites} sites, no more and no less; leave out --sites")
    return wanted or scenario.sites


def _sites_with_data(data: str, wanted: int | None) -> int:
    from clients.data import DataError
    from clients.data.simulated_sites import simulated_sites

    try:
        count = simulated_sites(data).number or wanted
    except DataError as error:
        raise SettingError(str(error)) from None
    if count is None:
        raise SettingError(f"{data} does not say for how many sites it has data; set --sites")
    if wanted not in (None, count):
        raise SettingError(f"{data} holds the data of {count} sites, not {wanted}; leave out --sites")
    return count
