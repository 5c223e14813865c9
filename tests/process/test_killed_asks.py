"""A SuperNode is killed in the midst of an ask: the run ends as one over the in-process grid, and names the site."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import Message

from consilience.local_federation import LocalSite, federation
from server.results import load
from tests.process.processes import APP, PATIENCE, start_deployed_run
from tests.process.test_bc3e import assert_equal, results_of
from tests.process.test_faults import OFTEN, await_true, killed
from tests.support.fault_federations import WORLDS
from tests.support.faults import Delivery, ever
from tests.support.killed_asks import Run, disturbed, first_rounds
from tests.support.runs import complete_results

pytestmark = pytest.mark.slow

HOOK = """
import importlib.abc
import importlib.machinery
import os
import time
from pathlib import Path


class Hook(importlib.abc.MetaPathFinder):
    '''Has the module that answers asks stop, for good, in the ask that is called as a file.'''

    def find_spec(self, name, path=None, target=None):
        if name != "clients.dispatch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            of = module.handler_of

            def handler_of(ask):
                def handler(payload, site):
                    if (Path(os.environ["TRAPS"]) / f"{ask.title()} of {site.name}").exists():
                        (Path(os.environ["TRAPS"]) / "caught").touch()
                        time.sleep(600)
                    return of(ask)(payload, site)

                return handler

            module.handler_of = handler_of

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Hook())
"""

PHASES = [
    ("bc3e", "Survey"),
    ("bc3e", "EStep"),
    ("bc3e", "Conclude"),
    ("sec", "Select"),
    ("sec", "Exchange"),
    ("sec", "Predict"),
    ("residual", "Enrol"),
    ("residual", "Order"),
    ("residual", "Fit"),
    ("residual", "Conclude"),
    ("coreset", "Summarize"),
    ("coreset", "Assign"),
    ("gp", "Survey"),
    ("gp", "Evaluate"),
    ("gp", "Disclose"),
    ("gp", "Predict"),
    ("gp", "Calibrate"),
    ("gp", "PredictAlone"),
]


def killed_for_good(asked: Delivery) -> Message:
    return asked.lost()


@pytest.mark.parametrize(("protocol", "ask"), PHASES)
def test_a_supernode_is_killed_in_an_ask(tmp_path: Path, protocol: str, ask: str) -> None:
    world = WORLDS[protocol](tmp_path / "world")
    run = Run(world.settings, world.nodes)
    first = {kind.title(): number for kind, number in first_rounds(run, tmp_path / "undisturbed").items()}
    number, victim = first[f"{protocol}.{ask}"], run.name
    assert isinstance(disturbed(run, tmp_path / "in-process", ever(killed_for_good)(number)), dict)
    [expected] = complete_results(tmp_path / "in-process" / "results")

    (tmp_path / "sitecustomize.py").write_text(OFTEN + HOOK)
    traps = tmp_path / "traps"
    traps.mkdir()
    (traps / f"{protocol}.{ask} of {victim}").touch()
    sites = [
        LocalSite(name, Path(node["data"]), {key: node[key] for key in node if key != "site-output-dir"})
        for name, node in zip(world.names, world.nodes, strict=True)
    ]
    env = {"PYTHONPATH": str(tmp_path), "TRAPS": str(traps)}
    settings = {**world.settings, "output-dir": str(tmp_path / "results"), "min-sites": 1, "round-timeout": 120.0}
    with federation(sites, tmp_path / "federation", tls=True, node_env=env) as started:
        deployed = start_deployed_run(APP, settings, started.env, tmp_path / "log")
        try:
            await_true((traps / "caught").exists, deployed, PATIENCE)
            killed(started.processes[victim])
            found = results_of(deployed.wait())
        finally:
            deployed.end()
    # What is sent in vain depends on when the SuperLink notices that the site is gone.
    assert_equal(found, expected, besides=("numbers_down",))
    [(called, lines)] = load(found)[0].missing.items()
    assert called == victim if number > 1 else called.startswith("node ")
    assert lines[0] == f"round {number}: its node failed (Flower error code 5)"
