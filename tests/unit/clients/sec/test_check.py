"""``consilience check FILE --protocol sec``: what a site is told before it joins, and bad inputs in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from clients.data import DataError, read_table
from clients.sec.check import describe
from clients.sec.shard import rows_of
from consilience import cli
from numerics.shared.candidates import ROW_MODELS
from tests.support.sec_sites import draw_rows

RUNNER = CliRunner()
SAYS_ROWS = ("ALL YOUR ROWS", "SOME OF YOUR ROWS")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Forty rows: inputs ``a b c``, outcome ``y``, a column of text."""
    path = tmp_path / "lab.csv"
    draw_rows(0, 40, 0).to_csv(path, index=False)
    return path


def check(path: Path, *assignments: str, target: str = "y") -> Result:
    settings = [f"target={target}", *assignments] if target else list(assignments)
    options = [word for each in settings for word in ("--set", each)]
    return RUNNER.invoke(cli.app, ["check", str(path), "--protocol", "sec", *options])


def told(path: Path, *assignments: str) -> str:
    if not any("sec.candidates" in each for each in assignments):
        assignments = (*assignments, "sec.candidates=lr")  # the quickest to fit
    result = check(path, *assignments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def candidate_line(text: str, method: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith(f"    {method}")]
    return line


# -- what would be used -----------------------------------------------------------------------------------------------


def test_the_columns_and_what_they_are_used_for(lab: Path) -> None:
    text = told(lab)
    assert f"{lab}: 40 rows" in text
    assert "  outcome y\n" in text
    assert "  inputs, in this order at every site: a, b, c\n" in text
    assert "  columns not used: remark\n" in text


def test_columns_that_are_left_out_are_named(lab: Path) -> None:
    text = told(lab, "features=a", "id=b")
    assert "inputs, in this order at every site: a\n" in text
    [line] = [line for line in text.splitlines() if "columns not used" in line]
    assert set(line.partition(": ")[2].split(", ")) == {"b", "c", "remark"}


def test_where_all_columns_are_used_there_is_none_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "lab.csv"
    draw_rows(0, 40, 0).drop(columns="remark").to_csv(path, index=False)
    assert "columns not used: none\n" in told(path)


@pytest.mark.parametrize(("holdout", "learned", "held"), [("0.2", 35, 5), ("0", 40, 0), ("0.5", 20, 20)])
def test_how_many_rows_are_held_out(lab: Path, holdout: str, learned: int, held: int) -> None:
    text = told(lab, f"sec.holdout={holdout}")
    assert f"40 rows to learn from; predictions are compared on {held} of them (sec.holdout)" in text
    assert f"the numbers of rows ({learned}, and {held} held out)" in text
    assert ("fits without these rows stand for your model" in text) == (held > 0)


# -- what would leave -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(ROW_MODELS))
def test_a_model_that_holds_rows_is_said_in_capital_letters_only_where_it_is_allowed(lab: Path, method: str) -> None:
    refused = told(lab, f"sec.candidates=lr {method}")
    assert not any(words in refused for words in SAYS_ROWS)
    assert "not tried: such a model holds rows, and allow-row-models is not set" in candidate_line(refused, method)
    assert "  single rows, predictions of single rows, and every column not used" in refused

    allowed = told(lab, f"sec.candidates=lr {method}", "sec.allow-row-models=true")
    assert any(words in candidate_line(allowed, method) for words in SAYS_ROWS)
    assert "  single rows (but see above), predictions of single rows" in allowed


def test_what_is_allowed_and_no_candidate_is_not_spoken_of(lab: Path) -> None:
    text = told(lab, "sec.candidates=lr", "sec.allow-row-models=true")
    assert not any(words in text for words in SAYS_ROWS)
    assert "but see above" not in text


def test_a_node_says_itself_what_its_models_may_hold(lab: Path) -> None:
    """The node's key comes before the run's, as it does in a run."""
    table = read_table(lab)
    config = {"target": "y", "candidates": "knn", "sec.candidates": "lr", "sec.allow-row-models": True}
    rows = rows_of(table, config)
    assert "ALL YOUR ROWS" in "\n".join(describe(rows, table, {**config, "allow-row-models": True}))
    with pytest.raises(DataError, match=r"all candidate methods \(knn, svr\) make models that hold rows"):
        describe(rows, table, {**config, "allow-row-models": False})


@pytest.fixture
def no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds and memory of an answer are not measured."""
    monkeypatch.setattr("clients.sec.check.cost_lines", lambda *_: [])


@pytest.mark.usefixtures("no_cost")
def test_the_smallest_leaf_is_told_of_trees_and_of_nothing_else(lab: Path) -> None:
    trees = {"rf": True, "gb": True, "hgb": True, "lr": False, "nn": False}
    text = told(lab, f"sec.candidates={' '.join(trees)}", "sec.min-leaf=7")
    for method, tree in trees.items():
        assert ("(7 rows or more in a leaf)" in candidate_line(text, method)) is tree, method


@pytest.mark.usefixtures("no_cost")
def test_every_candidate_has_a_line_with_its_own_settings(lab: Path) -> None:
    text = told(lab, "sec.candidates=lr rf(max_depth=3) lasso")
    for method in ("lr: its coefficients", "rf(max_depth=3): its trees", "lasso: its coefficients"):
        assert f"    {method}" in text


def test_pooled_moments_are_told_where_they_are_asked_for(lab: Path) -> None:
    assert "sums of products" not in told(lab)
    text = told(lab, "sec.combine=pooled-linear")
    assert "because of sec.combine=pooled-linear: the mean of every column used, and the sums of products" in text


def test_rows_are_told_where_they_would_be_pooled(lab: Path) -> None:
    text = told(lab, "sec.combine=pooled-rows")
    assert "no rows, whatever sec.combine=pooled-rows asks for: allow-pooling is not set" in text
    assert "but see above" not in text
    text = told(lab, "sec.combine=pooled-rows", "allow-pooling=true")
    assert "ALL 35 ROWS that are not held out" in text
    assert "single rows (but see above)" in text


def test_nothing_of_a_cell_is_printed(lab: Path) -> None:
    """The lines may be shown around: they hold names and counts, no value."""
    text = told(lab)
    values = np.unique(np.loadtxt(lab, dtype=str, delimiter=",", skiprows=1))
    assert not [value for value in values if len(value) > 4 and value in text]


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "assignments", "message"),
    [
        (None, [], "FILE: there is no such file"),
        ("", [], "FILE: is empty; the first line must name the columns"),
        (
            "a,y\n1,2\n", [],
            "FILE: has one row; any statistic of it would disclose that row, so at least two are needed",
        ),
        ("a,z\n1,2\n3,4\n", [], "FILE: there is no column 'y'; it has 'a', 'z'"),
        ("a,y\n1,2\n3,\n", [], "FILE, line 3, column 'y': is empty; fill it, or set missing=impute"),
        ("a,y\n1,2\n3,x\n", ["task=regression"], "FILE, line 3, column 'y': 'x' is text where a number belongs"),
        ("a,y\n1,2\ninf,3\n", [], "FILE, line 3, column 'a': is infinite; give a finite number or leave out the row"),
        ("a,y\n1,2\nx,3\n", ["features=a"], "FILE, line 3, column 'a': 'x' is text where a number belongs"),
        ("a,y\nu,2\nv,3\n", [], "FILE: no column beside the target holds numbers; it has 'a', 'y'"),
        (
            "a,y\n1,2\n2,3\n3,4\n4,5\n5,6\n6,7\n", ["sec.holdout=0.9"],
            "FILE, line 7, column 'y': is the last of 6 rows, and sec.holdout takes 5 of them; at least two must remain"
            " to select a model on",
        ),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(
    tmp_path: Path, content: str | None, assignments: list[str], message: str
) -> None:
    path = tmp_path / "lab.csv"
    if content is not None:
        path.write_text(content)
    result = check(path, *assignments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == message.replace("FILE", str(path)) + "\n"


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["sec.candidates=lr forest"], ["configuration: ", "forest"]),
        (["sec.candidates=rf(depth=3)"], ["configuration: ", "depth"]),
        (["features=q*"], ["no column beside the target matches features='q*'"]),
    ],
)
def test_bad_settings_are_refused_in_one_line(lab: Path, assignments: list[str], words: list[str]) -> None:
    result = check(lab, *assignments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("sec.holdout=-0.2", ["sec.holdout", "-0.2"]),
        ("sec.combine=median", ["sec.combine", "'median'"]),
        ("sec.min-leaf=-1", ["sec.min-leaf", "-1"]),
        ("sec.holdouts=0.1", ["sec.holdouts", "did you mean"]),
    ],
)
def test_settings_that_no_run_would_take_are_refused_as_a_run_refuses_them(
    lab: Path, assignment: str, words: list[str]
) -> None:
    result = check(lab, assignment)
    assert (result.exit_code, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    assert all(word in line for word in words)


def test_without_a_target_its_candidates_are_named(lab: Path) -> None:
    result = check(lab, target="")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("configuration: target is not set; name the outcome's column, one of ")
    assert all(f"'{name}'" in line for name in ("a", "b", "c", "y", "remark"))
