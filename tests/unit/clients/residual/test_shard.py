"""A site's table as an agent's columns, the same columns again for prediction, and what `check` says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data import DataError, Table, make_table, read_table
from clients.data.simulated_sites import simulated_sites
from clients.residual.check import describe
from clients.residual.prediction import log_new_categories
from clients.residual.shard import MOST_CATEGORIES, columns_like, columns_of

CONFIG = {"id": "customer", "target": "y"}
TEXT = st.lists(st.sampled_from(["red", "green", "blue", "", "4A", "12"]), min_size=2, max_size=40)


def bank(**more: object) -> Table:
    columns: dict[str, object] = {
        "customer": ["p1", "p2", "p3", "p4"],
        "y": [1.0, 2.0, 3.0, 4.0],
        "z": [0.5, 1.5, 2.5, 3.5],
        "age": [20, 30, 40, 50],
        "colour": ["red", "", "blue", "red"],
    }
    return make_table("bank.csv", (columns | more).items())


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DataError) as refused:
        call()
    assert "\n" not in str(refused.value)
    return str(refused.value), refused.value.code


# -- which columns ----------------------------------------------------------------------------------------------------


def test_every_column_of_numbers_without_a_role_by_default() -> None:
    columns = columns_of(bank(group=[1, 1, 2, 2]), {**CONFIG, "sensitive": "group"})
    assert columns.features == ("age", "z")
    assert columns.x.tolist() == [[20, 0.5], [30, 1.5], [40, 2.5], [50, 3.5]]
    assert columns.entity is not None
    assert columns.entity.tolist() == ["p1", "p2", "p3", "p4"]
    assert columns.entity_kind == "text"
    assert columns.y is not None
    assert columns.y.tolist() == [1, 2, 3, 4]
    assert columns.categories == {}


def test_columns_come_by_name_whatever_their_order_in_the_file() -> None:
    table = bank()
    turned = make_table("bank.csv", reversed(table.columns.items()))
    config = {**CONFIG, "features": "z colour age"}
    first, second = columns_of(table, config), columns_of(turned, config)
    assert first.features == second.features == ("age", "colour=blue", "colour=red", "z")
    assert np.array_equal(first.x, second.x)


def test_text_is_used_where_it_is_named_only() -> None:
    columns = columns_of(bank(), {**CONFIG, "features": "col*"})
    assert columns.features == ("colour=blue", "colour=red")
    assert columns.categories == {"colour": ("blue", "red")}
    assert columns.x.tolist() == [[0, 1], [0, 0], [1, 0], [0, 1]]  # an empty cell is no category


def test_a_glob_leaves_roles_out_and_a_name_may_not_have_two() -> None:
    assert columns_of(bank(), {**CONFIG, "features": "*"}).features == ("age", "colour=blue", "colour=red", "z")
    for role, name in (("target", "y"), ("id", "customer")):
        message, code = refusal(partial(columns_of, bank(), {**CONFIG, "features": f"age {name}"}))
        assert message == (
            f"configuration: column {name!r} is named as one of features and as {role}; it can be one only"
        )
        assert code == "bad-configuration"


def test_numbers_with_words_for_what_is_unknown_are_no_categories() -> None:
    table = bank(income=["10.5", "?", "30", "20"])
    message, code = refusal(lambda: columns_of(table, {**CONFIG, "features": "income"}))
    assert message == (
        "bank.csv, row 2, column 'income': '?' is text where a number belongs; leave the row out where nothing is known"
    )
    assert code == "not-numeric"
    codes = columns_of(bank(income=["012", "", "30", "012"]), {**CONFIG, "features": "income"})
    assert codes.features == ("income=012", "income=30")


@pytest.mark.parametrize(
    ("config", "message", "code"),
    [
        ({"features": "agee"}, "bank.csv: there is no column 'agee'; did you mean 'age'?", "missing-column"),
        ({"features": "x*"}, "bank.csv: no column matches features='x*'; it has 'customer', 'y', ", "missing-column"),
        ({"id": "name"}, "bank.csv: there is no column 'name'; it has ", "missing-column"),
        ({"id": "colour"}, "bank.csv, row 2, column 'colour': is empty; every row needs a name", "missing-value"),
    ],
)
def test_what_is_not_there(config: Mapping[str, str], message: str, code: str) -> None:
    found = refusal(lambda: columns_of(bank(), {**CONFIG, **config}))
    assert found[0].startswith(message)
    assert found[1] == code


def test_without_a_column_of_numbers_the_columns_of_text_are_named() -> None:
    table = make_table("shop.csv", [("customer", ["a", "b"]), ("town", ["x", "y"])])
    assert refusal(lambda: columns_of(table, {"id": "customer"})) == (
        "shop.csv: no column beside id 'customer' holds numbers; to use columns of text as categories, name them: "
        "features='town'",
        "missing-column",
    )
    alone = make_table("shop.csv", [("customer", [1, 2])])
    assert refusal(lambda: columns_of(alone, {"id": "customer"}))[0].endswith("holds numbers; it has 'customer'")


@pytest.mark.parametrize(
    ("cells", "message", "code"),
    [
        ([1.0, np.nan, 3.0, np.nan], "row 2, column 'age': is empty; fill it, or set missing=impute", "missing-value"),
        ([1.0, 2.0, 3.0, np.inf], "row 4, column 'age': is infinite", "not-finite"),
        ([None, None, None, None], "row 1, column 'age': is empty; fill it, or set missing=impute", "missing-value"),
    ],
)
def test_bad_numbers_name_the_first_row(cells: list[object], message: str, code: str) -> None:
    found = refusal(lambda: columns_of(bank(age=np.array(cells)), {**CONFIG, "features": "age"}))
    assert found[0].startswith(f"bank.csv, {message}")
    assert found[1] == code


# -- the outcome ------------------------------------------------------------------------------------------------------


def test_where_the_center_has_the_labels_the_column_is_neither_outcome_nor_input() -> None:
    columns = columns_of(bank(), {**CONFIG, "labels": "labels.csv"})
    assert columns.y is None
    assert columns.features == ("age", "z")


def test_a_file_of_a_simulation_may_lack_the_outcome_and_a_site_s_own_may_not() -> None:
    config = {"target": "outcome", "features": "age"}
    assert columns_of(bank(), {**config, "partition-id": 0}).y is None
    message, code = refusal(lambda: columns_of(bank(), {**config, "site": "bank"}))
    assert message.startswith("bank.csv: there is no column 'outcome'; it has ")
    assert message.endswith("; leave target out where the site holds no outcome")
    assert code == "missing-column"
    assert columns_of(bank(), {**config, "site": "bank", "from": "results/1"}).y is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A simulation's folder; what is wrong with the third file is for its own site to say."""
    (tmp_path / "bank.csv").write_text("customer,income,debt,y\n1,20,3,1\n2,30,4,2\n")
    (tmp_path / "shop.csv").write_text("customer,visits,basket\n1,5,7\n2,6,8\n")
    (tmp_path / "town.csv").write_text("customer,zip,zip\n1,5,7\n2,6,8\n")
    return tmp_path


def features_of(folder: Path, name: str, features: str, **more: object) -> tuple[str, ...]:
    sites = simulated_sites(str(folder))
    config = sites.config(sites.names.index(name), 3, {"id": "customer", "target": "y", "features": features, **more})
    return columns_of(read_table(folder / f"{name}.csv"), config).features


def test_a_list_of_all_sites_names_columns_of_other_files(folder: Path) -> None:
    features = "visits, income basket"
    assert features_of(folder, "bank", features) == ("income",)
    assert features_of(folder, "shop", features) == ("basket", "visits")
    assert features_of(folder, "bank", "visits d*") == ("debt",)
    # It brings the outcome alone; a site without it has no part.
    assert features_of(folder, "bank", "visits") == ()
    message, code = refusal(lambda: features_of(folder, "shop", "income"))
    assert message.startswith(f"{folder / 'shop.csv'}: no column matches features='income'; it has 'customer'")
    assert code == "missing-column"
    assert refusal(lambda: features_of(folder, "bank", "visits", labels="labels.csv"))[1] == "missing-column"


def test_a_name_that_no_file_has_is_a_slip(folder: Path) -> None:
    for name in ("bank", "shop"):
        assert refusal(partial(features_of, folder, name, "incme debt visits")) == (
            f"configuration: no file in {folder} has the column 'incme' of features; did you mean 'income'?",
            "missing-column",
        )


def test_of_a_site_s_own_list_every_name_must_be_there(folder: Path) -> None:
    path = folder / "bank.csv"
    config = {"id": "customer", "target": "y", "features": "income visits", "data": str(path), "site": "bank"}
    message, code = refusal(lambda: columns_of(read_table(path), config))
    assert message.startswith(f"{path}: there is no column 'visits'; it has ")
    assert code == "missing-column"


def test_who_held_the_outcome_needs_no_input_to_sum_up_predictions() -> None:
    table = make_table("holder.csv", [("customer", ["a", "b"])])
    columns = columns_of(table, {**CONFIG, "from": "results/1"})
    assert (columns.n, columns.features, columns.y) == (2, (), None)


def test_an_empty_outcome_is_refused() -> None:
    table = bank(y=[1.0, 2.0, np.nan, 4.0])
    assert refusal(lambda: columns_of(table, CONFIG)) == (
        "bank.csv, row 3, column 'y': is empty; fill it, or set missing=impute",
        "missing-value",
    )
    assert columns_of(table, {**CONFIG, "from": "results/1"}).y is None


def test_by_row_the_names_are_not_read() -> None:
    twice = bank(customer=["p1", "p1", "p3", "p4"])
    assert refusal(lambda: columns_of(twice, CONFIG))[1] == "duplicate-entity"
    columns = columns_of(twice, {**CONFIG, "residual.align": "row-order"})
    assert (columns.entity, columns.entity_kind, columns.features) == (None, "", ("age", "z"))


# -- categories -------------------------------------------------------------------------------------------------------


def test_of_many_categories_the_most_frequent_and_of_equals_the_first_by_name() -> None:
    names = [f"c{number:03d}" for number in range(60)]
    cells = [*names, *names[40:]]
    columns = columns_of(make_table("t.csv", [("c", cells)]), {"features": "c"})
    assert columns.categories == {"c": tuple(sorted([*names[:30], *names[40:]]))}
    assert columns.x.shape == (80, MOST_CATEGORIES)
    assert columns.x.sum() == 80 - 10


def test_a_column_named_as_a_category_is_refused() -> None:
    table = bank(**{"colour=red": [1, 2, 3, 4]})
    message, code = refusal(lambda: columns_of(table, {"features": "colour*"}))
    assert message.startswith("bank.csv: two inputs would be called 'colour=red'")
    assert code == "bad-shape"


@given(TEXT.filter(any), TEXT)
def test_the_same_categories_again(first: list[str], second: list[str]) -> None:
    """Every row of the second file has a 1 where its value is known, and zeros where it is not."""
    config = {"features": "c n"}
    learned = columns_of(make_table("a.csv", [("c", first), ("n", np.arange(len(first)))]), config)
    table = make_table("b.csv", [("n", np.arange(len(second))), ("c", second), ("more", ["x"] * len(second))])
    again = columns_like(table, {}, learned.features, learned.categories)
    assert again.features == learned.features
    assert again.categories == learned.categories
    for row, value in zip(again.x, second, strict=True):
        ones = [learned.features[place] for place in np.flatnonzero(row[:-1])]
        assert ones == ([f"c={value}"] if value in learned.categories["c"] else [])
    assert np.array_equal(again.x[:, -1], np.arange(len(second)))


def test_a_column_without_any_category_is_refused() -> None:
    table = make_table("a.csv", [("c", ["", ""])])
    assert refusal(lambda: columns_of(table, {"features": "c"})) == (
        "a.csv, column 'c': every cell is empty; leave it out of features",
        "missing-value",
    )


def test_codes_that_look_like_numbers_in_a_later_file() -> None:
    learned = columns_of(make_table("a.csv", [("c", ["12", "4A", "7"])]), {"features": "c"})
    for cells in ([7, 12], [7.0, 12.0]):
        again = columns_like(make_table("b.csv", [("c", cells)]), {}, learned.features, learned.categories)
        assert again.x.tolist() == [[0, 0, 1], [1, 0, 0]]
    empty = make_table("b.csv", [("c", [7.0, np.nan])])
    assert columns_like(empty, {}, learned.features, learned.categories).x.tolist() == [[0, 0, 1], [0, 0, 0]]


def test_the_log_names_categories_from_which_the_model_has_not_learned(caplog: pytest.LogCaptureFixture) -> None:
    learned = columns_of(bank(), {**CONFIG, "features": "age colour"})
    rows = bank(colour=["red", "", "violet", "violet"])
    with caplog.at_level("WARNING", "flwr"):
        log_new_categories("bank", columns_like(bank(), CONFIG, learned.features, learned.categories), bank())
        assert not caplog.messages
        log_new_categories("bank", columns_like(rows, CONFIG, learned.features, learned.categories), rows)
    [line] = caplog.messages
    assert "site bank: 2 of 4 rows are of categories of 'colour' that the model does not know (violet)" in line


def test_rows_to_predict_need_the_model_s_columns_and_no_other() -> None:
    learned = columns_of(bank(), {**CONFIG, "features": "age colour"})
    rows = bank(z=[np.nan, 1.0, 1.0, 1.0], y=[np.nan] * 4)
    again = columns_like(rows, CONFIG, learned.features, learned.categories)
    assert np.array_equal(again.x, learned.x)
    assert again.entity is not None
    assert again.y is None
    del rows.columns["age"]
    message, code = refusal(lambda: columns_like(rows, CONFIG, learned.features, learned.categories))
    assert message.startswith(
        "bank.csv: there is no column 'age', which the kept model learned from; it has 'customer'"
    )
    assert code == "missing-column"


# -- check ------------------------------------------------------------------------------------------------------------


def told(config: Mapping[str, object], table: Table | None = None) -> str:
    table = table or bank()
    lines = describe(columns_of(table, config), table, config)
    assert max(map(len, lines)) <= 120
    return "\n".join(lines)


def test_check_names_every_column_and_its_use() -> None:
    text = told({**CONFIG, "features": "age colour"})
    assert text.startswith("bank.csv: 4 rows\n")
    assert "  inputs: age, colour\n    colour: 2 categories, blue, red; 1 rows have none of these\n" in text
    assert "  outcome: y\n" in text
    assert "  entities: named by customer (text)" in text
    assert "  columns not used: z\n" in text
    assert "  agent: tree(max_leaf_nodes=8), 20 rows or more in a leaf (fewer of few rows)\n" in text
    text = told({**CONFIG, "residual.algorithm": "parallel"})
    assert "  agent: tree, 40 rows or more in a leaf (fewer of few rows, more of many)\n" in text


def test_check_says_who_can_test_names(tmp_path: Path) -> None:
    assert "can test whether a name that it guesses" in told(CONFIG)
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    assert "cannot test guesses" in told({**CONFIG, "align-key-file": str(key)})
    assert "hash of each entity's name" not in told({"target": "y"})
    assert refusal(lambda: told({**CONFIG, "align-key-file": str(tmp_path / "none")}))[1] == "bad-configuration"


@pytest.mark.parametrize(
    ("agent", "features", "says"),
    [
        ("tree", "age", "entities of one leaf get equal numbers"),
        ("hgb", "age", "many trees together"),
        ("lr", "age", "THESE NUMBERS ARE YOUR COLUMN"),
        ("ridge", "age z", "a weighted sum of your 2 columns"),
        ("sklearn.linear_model.HuberRegressor", "age", "THESE NUMBERS ARE YOUR COLUMN"),
        ("sklearn.ensemble.ExtraTreesRegressor", "age", "many trees together"),
        ("sklearn.tree.ExtraTreeRegressor", "age", "of one leaf get equal numbers"),
        ("sklearn.svm.SVR(C=3)", "age", "entities that are alike in them"),
    ],
)
def test_check_says_what_the_agent_s_numbers_tell(agent: str, features: str, says: str) -> None:
    text = told({**CONFIG, "features": features, "residual.agent": agent})
    assert says in text
    assert f"  agent: {agent}" in text


def test_check_says_who_reads_the_outcome() -> None:
    text = told(CONFIG)
    assert "does the fusion center's arithmetic" in text
    assert "common entity learned from: THE OUTCOME, in the first round minus its mean, later minus" in text
    assert "at the end p, and each agent's coefficient and\n    mean square" in text
    assert "Who reads these numbers" not in text
    text = told({"id": "customer", "features": "age"})
    assert "OUTCOME" not in text
    assert "Who reads these numbers: the fusion center, if it holds the outcome; if a site does" in text
    text = told({"id": "customer", "labels": "labels.csv"})
    assert "Who reads these numbers: the fusion center, which holds the outcome\n" in text


def test_check_says_what_is_sent_to_compare_with_each_site_alone() -> None:
    for config, says in (
        (CONFIG, "after learning, to the other sites, sealed: THE OUTCOME minus its mean"),
        ({"id": "customer", "features": "age"}, "what boosted trees of this site's columns alone predict"),
    ):
        assert says in told(config)
        for off in ({"residual.baselines": False}, {"residual.topology": "ring"}):
            assert says not in told({**config, **off})


def test_check_says_what_bins_tell_and_only_with_consent() -> None:
    config = {"id": "customer", "features": "age colour", "residual.algorithm": "bins"}
    refused = told(config)
    assert "no bins, whatever residual.algorithm=bins asks for: allow-bins is not set" in refused
    assert "every round, for each entity" in refused
    allowed = told({**config, "allow-bins": True, "bins-epsilon": 4.0})
    assert "FOR EACH COMMON ENTITY, TEST ROWS TOO, ITS BIN" in allowed
    assert "randomized response, eps 4 a column: 36% of 32 bins are others" in allowed
    assert "every round" not in allowed
    assert "bins" not in told({**config, "allow-bins": True, "residual.algorithm": "boosted"})


def test_check_says_that_in_a_ring_nobody_does_the_arithmetic_and_test_rows_go_round() -> None:
    ring = {"residual.topology": "ring", "features": "age"}
    holder, other = told({**CONFIG, **ring}), told({"id": "customer", **ring})
    for text in (holder, other):
        assert "test rows too" in text
        assert "arithmetic" not in text
        assert "Who reads these numbers" not in text
        assert "mean squares of the residual, of this site's step, and of its steps' sum" in text
        assert "The seals protect from a fusion center that follows the protocol and reads along" in text
    assert "THE OUTCOME minus its mean" in holder
    assert "THE OUTCOME" not in other
    assert "in the clear" in told({"id": "customer", **ring, "labels": "labels.csv"})


def test_check_of_a_site_that_answers_sealed_only(tmp_path: Path) -> None:
    config = {"id": "customer", "features": "age", "sealed-only": True}
    text = told(config)
    assert "Who reads these numbers: the site that holds the outcome; they are sent sealed" in text
    assert "A real site seals nothing without a secret" in text
    assert "sealed-only=true refuses such a run" in told({**config, "labels": "labels.csv"})
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    assert "A real site seals nothing" not in told({**config, "align-key-file": str(key)})


def test_check_says_that_every_site_learns_whom_all_know() -> None:
    assert "which of its own entities all sites know" in told(CONFIG)


def test_check_of_a_site_with_the_outcome_alone() -> None:
    table = make_table("holder.csv", [("customer", ["a", "b"]), ("y", [1.0, 2.0])])
    text = told(CONFIG, table)
    assert "  inputs: none; this site takes part with its outcome alone\n" in text
    assert "  agent: " not in text
    assert "your columns" not in text


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"min-leaf": 60}, "tree(max_leaf_nodes=8), 60 rows or more in a leaf\n"),
        ({"min-leaf": 60, "residual.min-leaf": 80}, "tree(max_leaf_nodes=8), 80 rows or more in a leaf\n"),
        ({"agent": "lr", "min-leaf": 60}, "agent: lr\n"),
        ({"agent": "hgb(max_depth=3)", "residual.agent": "lr"}, "agent: hgb(max_depth=3), 20 rows or more in a leaf ("),
    ],
)
def test_check_of_a_site_s_own_method(config: Mapping[str, object], says: str) -> None:
    assert says in told({**CONFIG, **config})


@pytest.mark.parametrize("own", ["abc", 0, -3, 2.5, True])
def test_check_refuses_a_leaf_that_is_no_number_of_rows(own: object) -> None:
    assert refusal(lambda: told({**CONFIG, "min-leaf": own})) == (
        f"configuration: min-leaf must be a whole number, 1 or greater, not {own!r}",
        "bad-configuration",
    )


def test_check_refuses_an_agent_that_cannot_be_read() -> None:
    message, code = refusal(lambda: told({**CONFIG, "residual.agent": "forest"}))
    assert message.startswith("configuration: agent forest: there is no method 'forest'")
    assert code == "bad-configuration"


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bank.csv"
    path.write_text("customer,age,colour\n1,20,red\n2,,blue\n", encoding="utf-8")
    assert refusal(lambda: columns_of(read_table(path), {"id": "customer"}))[0] == (
        f"{path}, line 3, column 'age': is empty; fill it, or set missing=impute"
    )
    columns = columns_of(read_table(path), {"id": "customer", "features": "colour"})
    assert columns.entity_kind == "number"
    assert columns.x.tolist() == [[0, 1], [1, 0]]
