"""The outcomes that the fusion center holds, from its own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data import DataError, outcomes
from clients.data.outcomes import CenterOutcomes

FRAME = pd.DataFrame({"customer": ["p1", "p2", "p3"], "y": [1.5, 2.5, 3.5], "note": ["a", "b", "c"]})
CONFIG = {"target": "y", "id": "customer"}


def center_outcomes(config: dict[str, object], *, by_row: bool = False) -> CenterOutcomes | None:
    return outcomes.center_outcomes(config, by_row=by_row)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DataError) as refused:
        call()
    assert "\n" not in str(refused.value)
    return str(refused.value), refused.value.code


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".npz"])
def test_outcomes_in_every_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"labels{ending}"
    if ending == ".npz":
        np.savez(path, customer=FRAME["customer"].to_numpy("U"), y=FRAME["y"].to_numpy())
    elif ending == ".parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False)
    found = center_outcomes({**CONFIG, "labels": str(path)})
    assert found is not None
    assert found.y.tolist() == [1.5, 2.5, 3.5]
    assert found.entity is not None
    assert found.entity.tolist() == ["p1", "p2", "p3"]
    assert (found.n_test, found.entity_kind) == (0, "text")


def test_the_center_may_have_no_file(tmp_path: Path) -> None:
    write(tmp_path / "bank.csv", "customer,age\np1,3\np2,4\n")
    for data in ("", str(tmp_path), str(tmp_path / "none")):
        assert center_outcomes({**CONFIG, "data": data}) is None
    assert center_outcomes({}) is None


def test_the_files_of_a_simulation_s_folder(tmp_path: Path) -> None:
    write(tmp_path / "_labels.csv", "customer,y\n1,5\n2,6\n3,7\n")
    config = {**CONFIG, "data": str(tmp_path)}
    alone = center_outcomes(config)
    assert alone is not None
    assert (alone.y.tolist(), alone.n_test, alone.entity_kind) == ([5, 6, 7], 0, "number")
    write(tmp_path / "_test.csv", "y,customer\n9,8\n10,7\n")
    found = center_outcomes(config)
    assert found is not None
    assert found.y.tolist() == [5, 6, 7, 9, 10]
    assert found.entity is not None
    assert found.entity.tolist() == ["1", "2", "3", "8", "7"]
    assert found.n_test == 2
    elsewhere = write(tmp_path / "mine.csv", "customer,y\n11,1\n12,2\n")
    named = center_outcomes({**config, "labels": str(elsewhere)})
    assert named is not None
    assert named.y.tolist() == [1, 2, 9, 10]


def test_without_names_entities_go_by_their_row(tmp_path: Path) -> None:
    write(tmp_path / "_labels.csv", "customer,y\np1,5\np1,6\n")
    write(tmp_path / "_test.csv", "customer,y\np1,7\np1,8\n")
    for config, by_row in (({"target": "y"}, False), (CONFIG, True)):
        found = center_outcomes({**config, "data": str(tmp_path)}, by_row=by_row)
        assert found is not None
        assert (found.y.tolist(), found.entity, found.n_test, found.entity_kind) == ([5, 6, 7, 8], None, 2, "")


def test_an_entity_is_learned_from_or_tested_on(tmp_path: Path) -> None:
    write(tmp_path / "_labels.csv", "customer,y\np1,5\np2,6\n")
    write(tmp_path / "_test.csv", "customer,y\np3,5\np2,6\n")
    assert refusal(lambda: center_outcomes({**CONFIG, "data": str(tmp_path)})) == (
        f"{tmp_path}/_test.csv, line 3, column 'customer': 'p2' is in {tmp_path}/_labels.csv, line 3, too; an entity "
        "is learned from or tested on, so leave it out of one file",
        "duplicate-entity",
    )
    write(tmp_path / "_test.csv", "customer,y\n3,5\n4,6\n")
    message, code = refusal(lambda: center_outcomes({**CONFIG, "data": str(tmp_path)}))
    assert message == (
        f"{tmp_path}/_test.csv, column 'customer': holds names of the kind number, but that of {tmp_path}/_labels.csv "
        "holds text; store them alike"
    )
    assert code == "bad-shape"


def test_test_rows_alone_are_refused_unless_a_kept_model_predicts_them(tmp_path: Path) -> None:
    path = write(tmp_path / "_test.csv", "customer,y\np1,5\np2,6\n")
    config = {**CONFIG, "data": str(tmp_path)}
    message, code = refusal(lambda: center_outcomes(config))
    assert message.startswith(f"{path}: gives outcomes to test on, but the fusion center has none to learn from")
    assert code == "bad-configuration"
    found = center_outcomes({**config, "from": "results/1"})
    assert found is not None
    assert (found.y.tolist(), found.n_test) == ([5, 6], 2)


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("customer,z\np1,1\np2,2\n", ": there is no column 'y'; ", "missing-column"),
        ("name,y\np1,1\np2,2\n", ": there is no column 'customer'; ", "missing-column"),
        ("customer,y\np1,1\np2,\n", ", line 3, column 'y': is empty; fill it, or set missing=impute", "missing-value"),
        ("customer,y\np1,1\np2,low\n", ", line 3, column 'y': 'low' is text where a number belongs", "not-numeric"),
        ("customer,y\np1,inf\np2,1\n", ", line 2, column 'y': is infinite", "not-finite"),
        ("customer,y\np1,1\np1,2\n", ", line 3, column 'customer': 'p1' is the name of line 2", "duplicate-entity"),
        ("customer,y\np1,1\n,2\n", ", line 3, column 'customer': is empty; every row needs a name", "missing-value"),
        ("customer,y\np1,1\n", ": has one row; ", "too-few-rows"),
    ],
)
def test_bad_outcomes_name_file_column_and_row(tmp_path: Path, text: str, message: str, code: str) -> None:
    path = write(tmp_path / "labels.csv", text)
    found = refusal(lambda: center_outcomes({**CONFIG, "labels": str(path)}))
    assert found[0].startswith(f"{path}{message}")
    assert found[1] == code


def test_a_file_that_is_not_there_and_a_target_that_is_not_set(tmp_path: Path) -> None:
    message, code = refusal(lambda: center_outcomes({**CONFIG, "labels": str(tmp_path / "none.csv")}))
    assert (message, code) == (f"{tmp_path}/none.csv: there is no such file", "no-data-file")
    path = write(tmp_path / "labels.csv", "customer,y\np1,1\np2,2\n")
    assert refusal(lambda: center_outcomes({"labels": str(path)})) == (
        f"configuration: target is not set; name the outcome's column of {path}, one of 'customer', 'y'",
        "bad-configuration",
    )


def test_outcomes_to_be_predicted_may_be_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", "customer,y\np1,1\np2,\n")
    config = {"labels": str(path), "id": "customer", "from": "results/1"}
    found = center_outcomes({**config, "target": "y"})
    assert found is not None
    np.testing.assert_array_equal(found.y, [1, np.nan])
    without = center_outcomes(config)
    assert without is not None
    assert np.isnan(without.y).all()
    assert without.entity is not None
    assert without.entity.tolist() == ["p1", "p2"]


def test_two_files_of_outcomes_are_refused(tmp_path: Path) -> None:
    for name in ("_labels.csv", "_labels.parquet"):
        (FRAME.to_csv if name.endswith("csv") else FRAME.to_parquet)(tmp_path / name, index=False)
    assert refusal(lambda: center_outcomes({**CONFIG, "data": str(tmp_path)})) == (
        f"{tmp_path}: holds _labels.csv and _labels.parquet; keep one",
        "bad-configuration",
    )


def test_rows_without_an_outcome_are_left_out_where_missing_says_so(tmp_path: Path) -> None:
    config = {"labels": str(write(tmp_path / "labels.csv", "p,y,x\na,1.5,\nb,,2\nc,3.5,1\n")), "target": "y", "id": "p"}
    assert refusal(lambda: center_outcomes(config))[1] == "missing-value"
    for missing in ("drop", "impute"):
        found = center_outcomes({**config, "missing": missing})
        assert found is not None
        assert found.y.tolist() == [1.5, 3.5], "x is no input, and its gap does not count"
        assert found.entity is not None
        assert found.entity.tolist() == ["a", "c"]
    assert refusal(lambda: center_outcomes({**config, "missing": "drop"}, by_row=True))[1] == "missing-value"
