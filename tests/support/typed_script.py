"""A user's script as mypy sees it, with every mistake that it must find; nobody runs this (`modules` of tool.mypy)."""

from pathlib import Path
from typing import Literal, assert_type

import pandas as pd

import consilience as cs

wells = {"north": pd.DataFrame({"depth": [1.0], "level": [2.0]})}
settings = cs.GP(kernel="matern52", experts=5, gate="knn")
assert_type(settings.fit_rounds, int)
cs.SEC(candidates=["lr", "ridge"], landmarks=8)
cs.GP(kernal="se")  # type: ignore[call-arg]
cs.GP(gate="nearest")  # type: ignore[arg-type]
cs.BC3E(max_rounds="ten")  # type: ignore[arg-type]

run = cs.run(
    settings, data=wells, target="level", queries=Path("points.csv"), min_sites=1, categories={"sex": ["f", "m"]}
)
assert_type(run, cs.Run)
assert_type(run.metrics, dict[str, float])
assert_type(run.verdict.decision, Literal["join", "do not join", "too few rows", "undecided"])
assert_type(run.verdict.ways[0].gain, float | None)
assert_type(run.report.sites, list[str])
print(run.verdict.decison)  # type: ignore[attr-defined]
print(run.report.second)  # type: ignore[attr-defined]
assert_type(run.predict(wells["north"], target="level"), pd.DataFrame)
cs.run("predict", from_=run, data="points.csv")
cs.run("bc3e-wine", cs.BC3E(alpha=1), sites=3, seed=1)
cs.run("bc3e-wine", min_site=3)  # type: ignore[call-arg]
cs.run("bc3e-wine", repetitions="two")  # type: ignore[arg-type]
cs.run(3)  # type: ignore[arg-type]
cs.check(wells, cs.Coreset(), sensitive="sex")
try:
    cs.load("results")
except cs.DataError as error:
    print(error.column)  # type: ignore[attr-defined]
