"""One run as the user asked for it: settings, number of sites, time limit. Mistakes are refused before it starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from common.settings import SettingError, Value, absolute
from consilience.assignments import parse
from protocols import registry
from protocols.settings import check_libraries, declared, run_keys
from server.preflight import preflight


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
    settings.setdefault("output-dir", keys["output-dir"].declared)
    settings = absolute(settings, keys)
    return RunRequest(settings, preflight(settings, sites).n_sites, seconds)


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
    return RunRequest(absolute({**settings, "protocol": protocol}, run_keys()), 0, seconds)
