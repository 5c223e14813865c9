"""The Python interface: run, load, check, list."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from common.extras import require
from common.results import PREDICT
from common.settings import ConfigError
from common.value_ranges import Value
from consilience.data_check import DataCheck
from consilience.errors import plain_errors
from consilience.finished_run import Run
from consilience.python_request import (
    PythonRequest,
    explicit_settings,
    protocol_of,
    python_request,
    settings_of_keywords,
    values_as_text,
)
from consilience.run_watch import Progress, watch
from server.run_names import find_run

if TYPE_CHECKING:
    import pandas as pd

    from consilience.public_types import RunKeywords, Settings
    from consilience.python_data import Data, Rows
    from consilience.run_request import RunRequest

Engine = Literal["local", "flower"]


@plain_errors
def run(
    what: str | Settings,
    *settings: Settings,
    data: Data | Rows | None = None,
    target: str | None = None,
    test: Rows | None = None,
    labels: Rows | None = None,
    queries: Rows | None = None,
    sites: int | None = None,
    seed: int | None = None,
    engine: Engine = "local",
    workers: int | None = None,
    output_dir: str | Path | None = None,
    resume_from: str | Path | None = None,
    progress: Progress = None,
    **run_settings: Unpack[RunKeywords],
) -> Run:
    """Run a scenario, or a protocol on your own data.

    Parameters
    ----------
    what : str or Settings
        The name of a scenario (`scenarios`), or the settings of a protocol: ``GP(kernel="matern52")``.
    *settings : Settings
        With a scenario, settings of its protocol, which override the scenario's own.
    data : mapping, sequence, callable, str or Path, optional
        Rows by site (DataFrames, columns by name, or paths of files), a folder with one file a site, or a function of a
        site's place and the number of sites. In a prediction, the sites' new rows.
    target : str, optional
        Name of the outcome's column.
    test, labels, queries : DataFrame, mapping, str or Path, optional
        The fusion center's own rows: test rows, known outcomes, points to predict at.
    sites : int, optional
        Number of sites; by default that of the scenario or the data.
    seed : int, optional
        Seed of everything random; by default 0.
    engine : "local" or "flower"
        This process, or Flower's simulation engine (Ray).
    workers : int, optional
        Number of processes that share the sites in the local engine; by default all sites are in this process.
    output_dir : str or Path, optional
        Folder of the results. By default they lie in a temporary directory as long as the returned run lives.
    resume_from : str or Path, optional
        Results directory of an interrupted run to continue.
    progress : bool, "log" or None
        Whether to show a bar; ``"log"``: Flower's own log lines; None: a bar in terminals and notebooks.
    **run_settings
        Other keys of every run, such as ``repetitions``, ``min_sites``, ``features``, ``id``.

    Returns
    -------
    Run
        The finished run.

    Raises
    ------
    ConfigError
        If a name, a value, or their combination cannot be used.
    DataError
        If data cannot be used.
    FusionError
        If too few sites answer, or the run cannot be completed.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.run("bc3e-wine", sites=3, seed=1).metrics["n_instances"]  # doctest: +SKIP
    178.0
    """
    if engine not in ("local", "flower"):
        raise ConfigError(f"engine is 'local' or 'flower', not {engine!r}")
    for name, number in (("sites", sites), ("workers", workers)):
        if number is not None and not (hasattr(number, "__index__") and number > 0):
            raise ConfigError(f"{name} is a whole number of at least 1, not {number!r}")
    if workers is not None and engine != "local":
        raise ConfigError(
            "workers are processes of the local engine, and this run has engine='flower': leave workers out"
        )
    keywords = {"target": target, "seed": seed, "resume_from": resume_from, **run_settings}
    rows = {"test": test, "labels": labels, "queries": queries}
    if resume_from is not None and engine == "flower" and not isinstance(data, str | Path | None):
        raise ConfigError(
            "Flower's engine gets data given in Python in files of one run, and cannot resume another with them: write"
            " the data to files, or take engine='local'"
        )
    with contextlib.ExitStack() as failing:
        keep = tempfile.TemporaryDirectory(prefix="consilience-") if output_dir is None else None
        if keep is not None:
            failing.callback(keep.cleanup)
        where = {"output_dir": output_dir if keep is None else keep.name}
        if engine == "flower":
            require("ray", 'engine="flower"')
        request = python_request(what, settings, data=data, sites=sites, rows=rows, keywords={**keywords, **where})
        for note in request.request.plan.notes if request.request.plan and progress != "log" else ():
            warnings.warn(note, stacklevel=3)  # of whoever called `run`
        with watch(progress, resumable=keep is None) as show:
            path = _run_by(engine, request, show, workers, with_page=keep is None)
        result = Run(path, keep=request.tables)
        failing.pop_all()
        if keep is not None:
            weakref.finalize(result, keep.cleanup)
    return result


@plain_errors
def suggest(learned: Run, points: Rows) -> pd.DataFrame:
    """Ask the sites of a run, in one round, which of some points to measure next.

    Parameters
    ----------
    learned : Run
        Earlier run, of a protocol with suggestions.
    points : DataFrame, mapping, str or Path
        Possible points of a measurement, with the run's input columns.

    Returns
    -------
    pandas.DataFrame
        The points, the best first: ``reduction`` is the share of the mean variance at the points that a measurement
        there removes.

    Raises
    ------
    SettingError
        If the run's protocol has no suggestions.

    Examples
    --------
    >>> import consilience as cs
    >>> learned = cs.run(cs.GP(), data="wells", target="level")  # doctest: +SKIP
    >>> cs.suggest(learned, "places.csv")["query"][0]  # doctest: +SKIP
    'p061'
    """
    import pandas as pd

    from protocols import registry
    from protocols.prediction import suggestion_key

    key = suggestion_key(learned._folder)
    protocol = learned.report.protocol
    settings = registry.room(protocol, "settings").Settings(**{key.partition(".")[2]: True})
    prediction = run(PREDICT, settings, from_=learned, data=points)
    return pd.read_csv(prediction._folder / "suggestions.csv")


@plain_errors
def load(path: str | Path) -> Run:
    """Return a run whose results lie in a directory: ``OUTPUT-DIR/NAME/RUN-ID``, or by its short name, ``NAME-3``.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.load("/nowhere")
    Traceback (most recent call last):
    server.report.data.ResultsError: there is no results directory /nowhere
    """
    return Run(find_run(path).absolute())


@plain_errors
def check(
    rows: Rows | Mapping[str, Rows] | Sequence[Rows], settings: Settings, *, target: str | None = None, **more: Any
) -> DataCheck:
    """Check a site's rows: which data a run would use, and which would leave the site. Nothing is sent.

    Parameters
    ----------
    rows : DataFrame, mapping, sequence, str or Path
        Rows of one site; or of several, by site or in a folder, which must also fit together.
    settings : Settings
        Settings of the protocol.
    target : str, optional
        Name of the outcome's column.
    **more
        Other keys of a run, and keys of a site's own configuration.

    Raises
    ------
    ConfigError, DataError
        If a setting, or the rows, cannot be used.

    Examples
    --------
    >>> import consilience as cs
    >>> rows = {"x": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 4.0, 6.0, 9.0]}
    >>> cs.check(rows, cs.GP(), target="y").lines[:4]
    ('data: 4 rows', '', 'What would be used', '  output: y')
    """
    from protocols.settings import checked, declared, run_keys, site_keys

    protocol = protocol_of(settings)
    own, keys = site_keys(protocol), run_keys()
    keywords = {name: value for name, value in {"target": target, **more}.items() if value is not None}
    values = {**explicit_settings([settings]), **settings_of_keywords(keywords, {**keys, **own})}
    of_site = {key: value for key, value in values.items() if key in own}
    of_run = {key: value for key, value in values.items() if key not in own}
    return DataCheck.of(rows, protocol, {**checked(declared() | of_run | {"protocol": protocol}), **of_site})


@plain_errors
def prepare(
    what: Settings,
    data: Mapping[str, Rows] | str | Path,
    folder: str | Path,
    **options: Value | Mapping[str, Sequence[str]],
) -> dict[str, Path]:
    """Make the data of a protocol from raw rows: for bc3e, labels by classifiers and clusterings.

    The rows of all sites are here; real sites would exchange fitted classifiers.

    Parameters
    ----------
    what : Settings
        Settings of the protocol.
    data : mapping, str or Path
        Raw rows by site: DataFrames, columns by name, or paths; or a folder with a file for every site.
    folder : str or Path
        Folder of the prepared files, one a site.
    **options
        Roles of columns, and models that label the rows: `consilience.preparation.bc3e.Options`.

    Returns
    -------
    dict of str to Path
        The files by site, as `run` takes them.

    Raises
    ------
    ConfigError, DataError
        If an option, or the rows, cannot be used.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.prepare(cs.BC3E(), {"a": {"x": [1.0, 2.0], "y": [0.0, None]}}, "/tmp/labels")
    Traceback (most recent call last):
    common.settings.ConfigError: target is not set: name the column of the classes, empty where a row has none
    """
    from clients.data.files import site_files
    from consilience.python_data import table_of_rows
    from protocols import registry

    protocol = protocol_of(what)
    if not registry.has_room(protocol, "prepare"):
        raise ConfigError(f"{protocol} runs on raw rows: there is nothing to prepare")
    if isinstance(data, str | Path):
        data = {path.name.partition(".")[0]: path for path in site_files(data)}
    room = registry.room(protocol, "prepare")
    chosen = room.Options(**{name: values_as_text(name, value) for name, value in options.items()})
    tables = {name: table_of_rows(name, rows) for name, rows in data.items()}
    where = Path(folder).expanduser()
    for line in room.prepare(tables, chosen, where):
        print(line)
    return {name: where / f"{name}.csv" for name in tables}


@plain_errors
def scenarios() -> pd.DataFrame:
    """Return the scenarios: protocol, number of sites, summary and source, by name.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.scenarios().loc["bc3e-wine", "protocol"]
    'bc3e'
    """
    import pandas as pd

    from scenarios.registry import scenarios as registered

    rows = [
        {
            "scenario": each.name,
            "protocol": each.protocol,
            "sites": each.sites,
            "summary": each.summary,
            "source": each.source,
        }
        for each in registered().values()
    ]
    return pd.DataFrame(rows).set_index("scenario").sort_index()


def _run_by(engine: Engine, request: PythonRequest, show: Any, workers: int | None, *, with_page: bool) -> Path:
    """Run to the end by an engine, and return the results directory.

    In the local engine, figures and page of results in a temporary directory wait until somebody asks for them: they
    take most of a short run.
    """
    if engine == "flower":
        with tempfile.TemporaryDirectory(prefix="consilience-data-") as folder:
            return _run_by_flower(request.with_files(Path(folder)), show)
    from consilience.local_engine import engine as local
    from consilience.local_engine.log import log_lines

    with log_lines(show):
        what = request.request
        return local.run(what.settings, what.sites, workers=workers, plan=what.plan, with_page=with_page)


def _run_by_flower(request: RunRequest, show: Any) -> Path:
    import os
    import sys
    from dataclasses import replace

    from common.data_places import is_function
    from consilience.flower_programs import environment
    from consilience.flower_run import run as run_flower
    from consilience.superlink import superlink_of
    from strategies.errors import FusionError

    env = environment()
    if is_function(str(request.settings.get("data", ""))):  # what this process can import, the sites can
        env["PYTHONPATH"] = os.pathsep.join(path for path in (*sys.path, env.get("PYTHONPATH", "")) if path)
    with superlink_of(None, env) as own:
        outcome = run_flower(replace(request, seconds=86_400.0), own, show)
    results = outcome.transcript.results
    if not outcome.completed or results is None:
        reason = outcome.transcript.refused or outcome.details or f"the run ended as {outcome.status}"
        raise FusionError(reason)
    return results
