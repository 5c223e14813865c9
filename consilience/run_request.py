"""A user's request for a run: settings, number of sites, time limit. Mistakes are refused before the run starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from common.settings import Setting, SettingError, absolute
from common.value_ranges import Value
from consilience.assignments import parse
from consilience.key_tables import read_config
from protocols import registry
from protocols.settings import check_libraries, declared, run_keys
from server.preflight import preflight, refuse_other_protocols
from server.run_names import find_run
from server.run_plan import RunPlan


@dataclass(frozen=True)
class RunRequest:
    """A request for a run.

    Attributes
    ----------
    settings : Mapping[str, bool | int | float | str]
        Keys that differ from their defaults; paths are absolute, since the app runs in another directory.
    sites : int
        Number of simulated SuperNodes; 0: all connected SuperNodes, which are real.
    seconds : float
        After this time the run is stopped.
    plan : RunPlan or None
        Plan of preflight; None: the sites are real, and the ServerApp makes the plan.
    """

    settings: Mapping[str, Value]
    sites: int
    seconds: float
    plan: RunPlan | None = field(default=None, repr=False, compare=False)


def simulated_run(
    assignments: Iterable[str],
    options: Mapping[str, Value | None],
    sites: int | None,
    seconds: float,
    config: Path | None = None,
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
    config : Path or None
        File of settings (`consilience.key_tables.read_config`), which all other arguments override.

    Raises
    ------
    `server.preflight.REFUSALS`
        If something cannot be used.
    """
    keys = run_keys()
    settings = parse(assignments, keys)
    for key, value in options.items():
        if value is None:
            continue
        if key in settings:
            raise SettingError(f"{key} is given twice: by --set and on its own")
        settings[key] = value
    if config is not None:
        in_file, sites_in_file = read_config(config)
        settings, sites = in_file | settings, sites or sites_in_file
    if not any(settings.get(key) for key in ("scenario", "protocol", "data")):
        raise SettingError(
            "say what to run: a scenario (consilience list), or with --protocol and --data one of"
            f" {', '.join(registry.names())} on your own data"
        )
    settings.setdefault("output-dir", keys["output-dir"].declared)
    settings = absolute({key: _without_short_name(value, keys[key]) for key, value in settings.items()}, keys)
    plan = preflight(settings, sites)
    return RunRequest(settings, plan.n_sites, seconds, plan)


def _without_short_name(value: Value, key: Setting) -> Value:
    """Replace the short name of a run in the value of a path by its results directory."""
    if not key.path or key.own or not isinstance(value, str) or not value or Path(value).expanduser().exists():
        return value
    directory = find_run(value)
    return str(directory) if (directory / "report.json").is_file() else value


def federated_run(settings: Mapping[str, Value], protocol: str, seconds: float) -> RunRequest:
    """Return the request for a run between real SuperNodes, whose own configurations name their data.

    Raises
    ------
    SettingError
        If there is no such protocol, a setting names data, or a library is missing that center and sites need.
    """
    registry.find(protocol)
    if stray := [key for key in ("data", "protocol", "scenario") if key in settings]:
        raise SettingError(
            f"{stray[0]} is not for --set here: every site has its file in --sites, and --protocol says what"
        )
    check_libraries({**declared(), **settings}, protocol)
    refuse_other_protocols(settings, protocol)
    return RunRequest(absolute({**settings, "protocol": protocol}, run_keys()), 0, seconds)
