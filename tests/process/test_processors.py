"""Sites and fusion centers on processors that round otherwise: what stays equal to the bit, what in how many digits.

The figures in docs/faults.md, "Processors", are bounds of what is measured here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from server.results import load
from tests.support import coreset_sites, gp_sites, residual_sites, sec_sites
from tests.support.core_types import core_type
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.processors import Processor, differences, interrupt, run_dispersed
from tests.support.runs import run

pytestmark = pytest.mark.usefixtures("quick")

Federation = tuple[dict[str, Any], list[dict[str, Any]]]
"""Run configuration and nodes of real sites, which hold the fusion center to its word."""

SOME_DIGITS = 1e-12
"""Relative difference of what a few operations round otherwise."""
HALF_THE_DIGITS = 1e-7
"""Relative difference of what an ill-conditioned matrix is inverted for: kernels of points that lie close together."""
NOISY = ("mse_", "paired_mse_", "dissimilarity", "similarity", "eigen", "losses", "scale")
"""A site draws the noise of its errors from the bytes of the models, so that other last digits are other noise."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Processor]:
    processor = Processor()
    yield processor
    processor.close()


def bc3e(folder: Path, distribution: str, **changes: Any) -> Federation:
    """Labels of 40 instances at four sites, or (not ``row``) of the same instances by each site's own models."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True)
    truth = rng.integers(2, size=160)
    nodes = []
    for place in range(4):
        rows = slice(40 * place, 40 * place + 40) if distribution == "row" else slice(0, 40)
        wrong = rng.random((2, 160)) < 0.2
        labels = {f"class_{name}": np.where(wrong[c], 1 - truth, truth) for c, name in enumerate("ab")}
        labels |= {f"cluster_{name}": truth + 2 * rng.integers(2, size=160) for name in "uv"}
        own = "" if distribution == "row" else place
        frame = pd.DataFrame({f"{name}{own}": column[rows] for name, column in labels.items()})
        frame.insert(0, "case", [f"c{number}" for number in range(160)][rows])
        name = f"site-{place}"
        frame.to_csv(folder / f"{name}.csv", index=False)
        file, home = str(folder / f"{name}.csv"), str(folder / "home" / name)
        nodes.append(
            {"site": name, "data": file, "id": "case", "site-output-dir": home, "allow-shared-instances": True}
        )
    settings = {"protocol": "bc3e", "bc3e__distribution": distribution, "bc3e__max_rounds": 3, **changes}
    return config(folder, **settings), nodes


def sec(folder: Path) -> Federation:
    sites = sec_sites.write_sites(folder / "labs", [0, 0, 1, 1])
    return sec_sites.deployed_sites(folder, sites, [f"lab-{place}" for place in range(4)])


def residual(folder: Path, **changes: Any) -> Federation:
    return residual_sites.deployed_sites(
        folder, residual_sites.write_world(folder / "world"), residual__rounds=5, **changes
    )


def coreset(folder: Path, **changes: Any) -> Federation:
    return coreset_sites.deployed_sites(folder, coreset_sites.write_world(folder / "world"), **changes)


def gp(folder: Path, **changes: Any) -> Federation:
    settings, nodes = gp_sites.deployed_sites(folder, gp_sites.write_world(folder / "world"), **changes)
    return settings, [{**node, "site-output-dir": str(folder / "home" / node["site"])} for node in nodes]


@dataclass(frozen=True)
class Case:
    """A federation, and how much its metrics and arrays may differ; 0: not in a bit.

    Attributes
    ----------
    make : Callable
        Writes it to a folder.
    site : float
        Where a site is on another processor.
    center : float
        Where the fusion center is.
    discrete : tuple of str
        How the names of those begin that may be others: models as bytes, and what a site is sent that has forgotten.
    remembers : bool
        Whether no site may forget while the run lasts, on whatever processor.
    """

    make: Callable[[Path], Federation]
    site: float = 0.0
    center: float = 0.0
    discrete: tuple[str, ...] = ()
    remembers: bool = False


CASES = {
    "bc3e": Case(lambda folder: bc3e(folder, "row"), 0.0, SOME_DIGITS),
    "sec": Case(sec, SOME_DIGITS, SOME_DIGITS, ("model_", *NOISY)),
    "residual": Case(residual, SOME_DIGITS, SOME_DIGITS, residual_sites.COSTS),
    "coreset": Case(coreset, 0.0, SOME_DIGITS),
    "gp": Case(gp, HALF_THE_DIGITS, HALF_THE_DIGITS),
    "bc3e-column": Case(lambda folder: bc3e(folder, "column", bc3e__sweeps=6), 0.0, SOME_DIGITS),
    "bc3e-masked": Case(lambda folder: bc3e(folder, "row", secure_aggregation=True), 0.0, SOME_DIGITS),
    "residual-ring": Case(
        lambda folder: residual(folder, residual__topology="ring"),
        SOME_DIGITS,
        0.0,
        residual_sites.COSTS,
        remembers=True,
    ),
    "gp-masked": Case(lambda folder: gp(folder, secure_aggregation=True), HALF_THE_DIGITS, HALF_THE_DIGITS),
}
"""One a protocol first; the others are slow."""


@pytest.fixture(scope="module", params=few(list(CASES), 5))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def there(case: Case, elsewhere: Processor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a run that takes place on the other processor."""
    return elsewhere.call(run, *case.make(tmp_path_factory.mktemp("there") / "files"))


def assert_close(case: Case, first: Path, second: Path, bound: float) -> None:
    """Nothing differs by more than `bound`; nobody is missing, but for new keys of masks after a resumption."""
    told = [line for path in (first, second) for lines in load(path)[0].missing.values() for line in lines]
    assert all(line.endswith("[no-mask-keys]") for line in told)
    found = {name: by for name, by in differences(first, second).items() if by > bound}
    assert [name for name in found if not name.startswith(case.discrete)] == [], found


def test_the_other_processor_is_another(elsewhere: Processor) -> None:
    assert elsewhere.call(core_type) != core_type()
    numbers = np.linspace(-3, 3, 1000)
    assert elsewhere.call(np.exp, numbers).tobytes() != np.exp(numbers).tobytes()
    assert elsewhere.call(np.dot, numbers, numbers) == pytest.approx(numbers @ numbers, rel=1e-14)


def test_a_site_on_another_processor(tmp_path: Path, case: Case, elsewhere: Processor) -> None:
    settings, nodes = case.make(tmp_path / "here")
    here = run(settings, nodes)
    one = run_dispersed(*case.make(tmp_path / "one"), elsewhere, (0,))
    assert_close(case, here, one, case.site)


def test_the_center_on_another_processor(tmp_path: Path, case: Case, there: Path, elsewhere: Processor) -> None:
    settings, nodes = case.make(tmp_path / "center")
    assert_close(case, there, run_dispersed(settings, nodes, elsewhere, tuple(range(len(nodes)))), case.center)


@pytest.mark.parametrize("forgetful", few([False, True]), ids=["sites remember", "sites forget"])
def test_a_run_that_goes_on_on_another_processor(
    tmp_path: Path, case: Case, there: Path, elsewhere: Processor, forgetful: bool
) -> None:
    """The center repeats its asks of a run that it has not begun, and no site takes it for another."""
    settings, nodes = case.make(tmp_path / "resumed")
    rounds = load(there)[0].rounds
    resume_from = elsewhere.call(interrupt, settings, nodes, rounds // 2 + 1)
    if forgetful and not case.remembers:
        for node in nodes:
            shutil.rmtree(node["site-output-dir"])
    everybody = tuple(range(len(nodes)))
    resumed = run_dispersed({**settings, "resume-from": resume_from}, nodes, elsewhere, everybody)
    assert_close(case, there, resumed, max(case.center, SOME_DIGITS))


def test_a_learner_on_another_processor_is_the_same_learner(tmp_path: Path, elsewhere: Processor) -> None:
    """It has fitted another model in the last digits; the run that it joins takes it for the learner that it was."""
    settings, nodes = sec(tmp_path / "first")
    first = run(settings, nodes)
    sec_sites.write_files(tmp_path / "first" / "labs", {"new": sec_sites.draw_rows(0, 40, 50)})
    new = {**nodes[0], "site": "new", "data": str(tmp_path / "first" / "labs" / "new.csv")}
    joined = run_dispersed({**settings, "sec.join": str(first)}, [*nodes, new], elsewhere, tuple(range(5)))
    report, arrays = load(joined)
    assert not report.missing
    assert arrays["learners"][arrays["newcomer"]].tolist() == ["new"]
