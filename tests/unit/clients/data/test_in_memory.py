"""Data given in Python: held by a digest, read as any function's."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pandas as pd
import pytest

from clients.data import DataError, load
from clients.data.in_memory import adopt, export, hold, table_of_frame
from clients.data.simulated_sites import simulated_sites
from clients.data.testset import center_columns, center_queries


def frame(value: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame({"x": [value, 2.0], "n": [1, 2], "ward": ["a", None]})


def test_sites_are_the_keys_in_the_order_of_files() -> None:
    tables = {name: table_of_frame(name, frame(place)) for place, name in enumerate(("south", "north"))}
    kept = hold(tables)
    sites = simulated_sites(kept.reference)
    assert sites.names == ("north", "south")
    table = load(sites.config(0, 2, {}))
    assert (table.source, table.columns["x"].tolist()) == ("north", [1.0, 2.0])
    assert table.columns["ward"].tolist() == ["a", None]


def test_equal_data_have_the_same_name() -> None:
    first, again, other = (hold({"a": table_of_frame("a", frame(value))}) for value in (1.0, 1.0, 3.0))
    assert first is again
    assert first.reference != other.reference
    assert hold({"b": table_of_frame("b", frame())}).reference != first.reference
    whole_numbers = frame().astype({"x": "int64"})
    assert hold({"a": table_of_frame("a", whole_numbers)}).reference != first.reference


def test_the_frame_may_change_afterwards() -> None:
    own = frame()
    own["flag"] = [True, False]
    kept = hold({"a": table_of_frame("a", own)})
    own.loc[0, ["x", "flag"]] = [9.0, False]
    assert kept().columns["x"][0] == 1.0
    assert kept().columns["flag"].tolist() == [True, False]


def test_a_named_index_is_a_column() -> None:
    assert list(table_of_frame("a", frame().set_index("n")).columns) == ["n", "x", "ward"]


def test_data_are_forgotten_with_their_owner() -> None:
    kept = hold({"a": table_of_frame("a", frame(7.0))})
    reference = kept.reference
    assert simulated_sites(reference).number == 1
    del kept
    gc.collect()
    with pytest.raises(DataError, match="given in Python and are gone"):
        simulated_sites(reference)


def test_another_process_adopts_them() -> None:
    kept = hold({"a": table_of_frame("a", frame(5.0))})
    reference, content = kept.reference, pickle.dumps([each for each in export() if each is kept])
    del kept
    gc.collect()
    adopt(pickle.loads(content))
    np.testing.assert_array_equal(load(simulated_sites(reference).config(0, 1, {})).columns["x"], [5.0, 2.0])


def test_names_of_columns_and_sites_are_checked() -> None:
    with pytest.raises(DataError, match="north: column 1 is named 3"):
        table_of_frame("north", pd.DataFrame({3: [1, 2]}))
    with pytest.raises(DataError, match="'the north' is no site's name"):
        hold({"the north": table_of_frame("n", frame())})


def test_the_fusion_center_has_tables_of_its_own() -> None:
    points = table_of_frame("queries", pd.DataFrame({"x": [1.0]}), whole=False)
    kept, test = hold({"queries": points}), hold({"test": table_of_frame("test", frame())})
    assert center_queries({}, kept.reference)["x"].tolist() == [1.0]
    assert center_columns({"test": test.reference, "target": "x"})["x"].tolist() == [1.0, 2.0]
    assert center_columns({}) == {}


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([1.5, "x", None], ["1.5", "x", None]),
        ([True, "x", np.nan], ["True", "x", None]),
        (pd.period_range("2020-01", periods=3, freq="M"), ["2020-01", "2020-02", "2020-03"]),
        (pd.cut([1.0, 3.0, np.nan], [0, 2, 4]), ["(0, 2]", "(2, 4]", None]),
        (pd.to_timedelta([1, 2, None], "D"), ["1 days 00:00:00", "2 days 00:00:00", None]),
    ],
)
def test_what_is_neither_number_nor_text_is_what_it_shows(cells: object, text: list[str | None]) -> None:
    """As a spreadsheet or a DataFrame has it: such a column is no input, and no reason to refuse the others."""
    table = table_of_frame("a", pd.DataFrame({"x": [1.0, 2.0, 3.0], "odd": cells}))
    assert table.columns["odd"].tolist() == text


@pytest.mark.parametrize("cells", [[[1], [2]], [b"a", b"b"], [(1, 2), (3,)], [{}, {1}]])
def test_cells_that_hold_several_values_are_refused_with_what_to_do(cells: object) -> None:
    with pytest.raises(DataError, match=r"column 'odd': holds objects such as lists or bytes; .* leave it out"):
        table_of_frame("a", pd.DataFrame({"odd": cells}))
