"""Categories by name: any value can be named, in quotes where it has a sign of the setting."""

from __future__ import annotations

import shlex
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data.categories import MOST_VALUES, Category, can_be_named, categories_of, categories_text
from clients.data.inspection import suggested_categories
from clients.data.preparation import prepare, prepare_new_rows
from clients.data.table import DataError, Table
from consilience.python_request import values_as_text
from tests.support.examples import examples

NAMES = st.text("ab |;=<'\"*", min_size=1, max_size=6).map(str.strip).filter(bool).filter(can_be_named)
WARD = np.array(["a|b", "n;s", "<5", "plain", "o'clock"], object)


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, min_size=1, max_size=4, unique=True)), min_size=1, max_size=3))
@examples(120)
def test_a_setting_names_what_it_was_written_of(columns: list[tuple[str, list[str]]]) -> None:
    for ordinal, key in ((False, "categories"), (True, "ordinal")):
        categories = [Category(name, tuple(values), ordinal) for name, values in columns]
        assert categories_of({key: categories_text(categories)}) == categories


def test_values_with_signs_of_the_setting_become_columns() -> None:
    config = {"categories": """ward='a|b'|'n;s'|"<5"|o'clock|*"""}
    prepared = prepare(Table("a.csv", {"ward": WARD}), config).table
    names = ["ward=a|b", "ward=n;s", "ward=<5", "ward=o'clock", "ward=*"]
    assert list(prepared.columns) == names
    assert np.column_stack([prepared.columns[name] for name in names]).argmax(axis=1).tolist() == [0, 1, 2, 4, 3]
    new = prepare_new_rows(Table("b.csv", {"ward": WARD[:1]}), config, {})
    assert new.columns["ward=a|b"].tolist() == [1.0]


def test_amounts_as_text_have_an_order() -> None:
    cells = np.array(["<5", "5 to 10", ">10"], object)
    config = {"ordinal": "days='<5'<5 to 10<>10"}
    assert prepare(Table("a.csv", {"days": cells}), config).table.columns["days"].tolist() == [0.0, 1.0, 2.0]


def test_the_quotes_pass_through_a_shell_and_a_file() -> None:
    word = "categories=ward='a|b'|c"
    assert shlex.split(f'--set "{word}"') == ["--set", word]
    assert tomllib.loads("""categories = "ward='a|b'|c" """) == {"categories": "ward='a|b'|c"}


@pytest.mark.parametrize("text", ["ward='a|b|c", "ward=a|'b", "ward='a|b'|'a|b'", "ward=''|b", "'ward'"])
def test_what_cannot_be_read_is_one_sentence(text: str) -> None:
    with pytest.raises(DataError, match=r"categories has .*; write NAME=VALUE\|VALUE, .*in quotes$"):
        categories_of({"categories": text})


def test_a_suggestion_and_a_dictionary_have_the_quotes() -> None:
    cells = np.array(["a|b", "c"] * MOST_VALUES, object)
    assert suggested_categories([Table("a.csv", {"ward": cells})], {}) == "ward='a|b'|c"
    assert values_as_text("categories", {"ward": ["a|b", "c"]}) == "ward='a|b'|c"
    assert values_as_text("ordinal", {"days": ["<5", "more"]}) == "days='<5'<more"
