"""What a target is taken for, and what is refused of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.data import load
from clients.data.table import DataError, make_table
from clients.data.target import TASKS, check_targets, read_target, target_lines, task_of
from protocols.classes import MOST_CLASSES, ClassListError, agree_on_classes
from protocols.settings import check_task, declared


def table(values: Sequence[Any], source: str = "ward.csv") -> Any:
    return make_table(source, [("y", np.array(values, object)), ("x", np.arange(len(values)))])


def config(task: str = "auto") -> dict[str, object]:
    return {"target": "y", "task": task}


FEW = [0, 1] * 10


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["yes", "no"] * 3, "classification"),
        ([True, False] * 3, "classification"),
        (FEW, "classification"),
        ([0.0, 1.0] * 10, "classification"),
        (["1", "2"] * 3, "classification"),
        (list(range(20)) * 2, "classification"),
        (list(range(21)) * 2, "regression"),
        (list(range(6)), "regression"),  # each once: amounts
        ([0.5, 1.0] * 10, "regression"),
        ([7] * 20, "regression"),
        ([1.25, 2.5, 3.75, "x"] * 3, "regression"),  # an error will name the text
        (["a", "b", "3", None] * 3, "classification"),
    ],
)
def test_the_column_decides_unless_the_task_is_set(values: list[Any], task: str) -> None:
    text = [value if value is None or not isinstance(values[-1], str) else str(value) for value in values]
    assert task_of(table(text), config(), TASKS) == task
    assert {task_of(table(text), config(each), TASKS) for each in TASKS} == set(TASKS)
    assert task_of(table(text), config(), ("regression",)) == "regression"


def test_amounts_are_equal_to_the_bit_whatever_the_tasks() -> None:
    y = np.random.default_rng(0).normal(size=50)
    one, two = (read_target(table(y.tolist()), config(), tasks) for tasks in (TASKS, ("regression",)))
    assert one.classes == two.classes == ()
    np.testing.assert_array_equal(one.y, y)
    np.testing.assert_array_equal(two.y, y)


@pytest.mark.parametrize(
    ("values", "classes", "y"),
    [
        (["True", "FALSE", "true", "False"], ("false", "true"), [1, 0, 1, 0]),
        ([True, False, True, False], ("false", "true"), [1, 0, 1, 0]),
        ([1.0, 0.0, 1.0, 1.0], ("0", "1"), [1, 0, 1, 1]),
        ([10, 9, 10, 9], ("9", "10"), [1, 0, 1, 0]),
        ([" b ", "a", "b", "a"], ("a", "b"), [1, 0, 1, 0]),
        (["re\u0301el", "r\u00e9el", "a", "a"], ("a", "r\u00e9el"), [1, 1, 0, 0]),
    ],
)
def test_classes_have_one_form_whatever_the_column(values: list[Any], classes: tuple[str, ...], y: list[int]) -> None:
    target = read_target(table(values), config("classification"), TASKS)
    assert (target.classes, target.y.tolist()) == (classes, y)


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (
            ["a", None, "b", "a"], "auto",
            "ward.csv, row 2, column 'y': is empty; every row needs a class: leave the row out where it is"
            " not known, or set missing=drop",
        ),
        (
            ["a", "N/A", "b", "a"], "auto",
            "ward.csv, row 2, column 'y': is 'N/A'; every row needs a class: leave the row out where it is"
            " not known, or set missing=drop",
        ),
        (
            [0.5, 1.0, 0.5, 1.0], "classification",
            "ward.csv, row 1, column 'y': 0.5 has decimals and is no class; set task=regression for amounts",
        ),
        (
            ["ann", "bob", "cid", "dan", "eve"], "auto",
            "ward.csv, column 'y': has 5 different values in 5 rows; classes are 100 at most, each of two rows on"
            " average: name another target",
        ),
        (
            ["a" * 65, "b"] * 2, "auto",
            "ward.csv, row 1, column 'y': a class has a name of 64 printable characters at most; rename it",
        ),
        (
            ["1.5", "2.5", "high", "3.5"], "auto",
            "ward.csv, row 3, column 'y': 'high' is text where a number belongs; if the column holds classes, set"
            " task=classification",
        ),
        (
            [None, None], "auto",
            "ward.csv, column 'y': is empty in each row; name another target, or leave the site out",
        ),
    ],
)  # fmt: skip
def test_bad_targets_are_refused_in_one_sentence(values: list[Any], task: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        read_target(table(values), config(task), TASKS)
    assert str(refused.value) == message


def test_sites_must_mean_the_same() -> None:
    classes, amounts = table(FEW, "a.csv"), table([0.5, 1.5] * 3, "b.csv")
    with pytest.raises(DataError, match=r"holds classes at a\.csv and amounts at b") as refused:
        check_targets({"a.csv": classes, "b.csv": amounts}, config(), TASKS)
    assert refused.value.code == "bad-shape"
    check_targets({"a.csv": classes, "b.csv": amounts}, config("regression"), TASKS)
    with pytest.raises(DataError, match="has one class at all sites, 'a'; there is nothing to learn"):
        check_targets({"a.csv": table(["a", "a"])}, config(), TASKS)


def test_a_run_goes_on_without_unreadable_targets_unless_all_are() -> None:
    good, bad = table(["a", "b"] * 3, "a.csv"), table(["a", None, "b", "a"], "b.csv")
    check_targets({"a.csv": good, "b.csv": bad}, config(), TASKS)
    with pytest.raises(DataError, match=r"b\.csv, row 2, column 'y': is empty; every row needs a class"):
        check_targets({"b.csv": bad}, config(), TASKS)
    with pytest.raises(DataError, match=r"a\.csv, row 1, column 'y': 'a' is text where a number belongs$"):
        check_targets({"a.csv": good}, config("regression"), TASKS)


def test_a_site_that_lacks_a_class_goes_on() -> None:
    check_targets({"a.csv": table(["a", "a"]), "b.csv": table(["b", "a", "b", "a"])}, config(), TASKS)
    assert agree_on_classes({"a": ("a",), "b": ("b", "c")}, "y") == ("a", "b", "c")
    with pytest.raises(ClassListError, match="has 101 classes over all sites, more than 100"):
        agree_on_classes({str(i): (f"c{i}", "d") for i in range(MOST_CLASSES)}, "y")


def test_a_class_in_upper_and_lower_case_is_refused_unless_a_site_tells_them_apart() -> None:
    message = r"target 'y' has a class 'Yes' at b and 'yes' at a, which would be two: write them alike"
    with pytest.raises(ClassListError, match=message):
        agree_on_classes({"a": ("no", "yes"), "b": ("Yes", "no")}, "y")
    assert agree_on_classes({"a": ("A", "a"), "b": ("a", "b")}, "y") == ("A", "a", "b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 1", "no yes"), ("1 2 3", "high low middle"), ("false true", "no yes"), ("n y", "no yes"), ("F T", "no yes"),
        ("01 02", "1 2"), ("new\u00a0york rome", "new_york rome"),
    ],
)  # fmt: skip
def test_other_names_of_the_same_classes_are_refused(one: str, other: str) -> None:
    lists = {name: tuple(each.replace("_", " ") for each in own.split(" ")) for name, own in (("a", one), ("b", other))}
    with pytest.raises(
        ClassListError, match=r"^the target 'y' has .* at [ab] and .* at [ab], which would .*: write them alike$"
    ):
        agree_on_classes(lists, "y")


@pytest.mark.parametrize(
    "lists", [("0 1", "2 3"), ("1 2", "none"), ("1 2", "none 3a"), ("no yes", "maybe no yes"), ("1 01", "1 2")]
)
def test_other_classes_are_no_other_names(lists: tuple[str, str]) -> None:
    own = {str(place): tuple(each.split()) for place, each in enumerate(lists)}
    assert len(agree_on_classes(own, "y")) == len({*own["0"], *own["1"]})


def test_amounts_may_be_all_the_same_and_have_no_class_weights() -> None:
    amounts = {"a.csv": table([7.5] * 3, "a.csv"), "b.csv": table([7.5] * 2, "b.csv")}
    check_targets(amounts, config(), TASKS)
    with pytest.raises(DataError, match=r"^class-weight is for classes, and 'y' is an amount: leave it out"):
        check_targets(amounts, {**config(), "class-weight": "balanced"}, TASKS)


def test_check_says_how_to_decide() -> None:
    assert len(target_lines(table(FEW), config(), TASKS)) == 2
    assert target_lines(table(FEW), config("classification"), TASKS) == [
        "outcome y: 2 classes, with their rows: 0 (10), 1 (10)"
    ]
    assert target_lines(table(FEW), config("regression"), TASKS) == ["outcome y"]


def test_a_protocol_without_a_target_refuses_a_task() -> None:
    check_task(declared(), "coreset")
    with pytest.raises(ValueError, match="coreset has no such target: leave it out"):
        check_task({**declared(), "task": "regression"}, "coreset")
    with pytest.raises(ValueError, match="class-weight is for classes"):
        check_task({**declared(), "class-weight": "balanced"}, "coreset")


def test_whole_numbers_that_differ_between_sites_are_no_classes_unless_asked() -> None:
    tables = {"a.csv": table(list(range(11)) * 2), "b.csv": table(list(range(10, 21)) * 2)}
    refusal = r"^the target 'y' has 21 different whole numbers over all sites: set task=regression, or task=class"
    with pytest.raises(DataError, match=refusal):
        check_targets(tables, config(), TASKS)
    for task in TASKS:
        check_targets(tables, config(task), TASKS)
    texts = {name: table([f"ward {label}" for label in each.columns["y"]]) for name, each in tables.items()}
    check_targets(texts, config(), TASKS)


def test_a_site_without_any_outcome_is_named(tmp_path: Path) -> None:
    """All its rows are left out; what remained ended in an IndexError."""
    path = tmp_path / "east.csv"
    path.write_text("x,y\n1,\n2,\n3,\n")
    for missing in ("drop", "impute"):
        settings = {**config(), "missing": missing}
        with pytest.raises(
            DataError, match=r"east.csv: no row is left, since 'y', or an input, is empty in each: fill"
        ):
            read_target(load({**settings, "data": str(path)}), settings, TASKS)
