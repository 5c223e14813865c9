"""A site's own data as rows with groups, read in blocks of any size, and what `check` says of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from clients import shards
from clients.coreset.check import check_lines
from clients.coreset.shard import MOST_VALUES, open_rows, open_shard
from clients.data import DataError
from clients.data import blocks as blocks_module
from consilience import cli
from numerics.coreset.grouped_rows import GroupedRows, RowBlock
from protocols.wire.faults import Fault, SiteFault
from tests.support.examples import examples

WARD = """key,y,weight,age,sex,race,note
7,1,60.5,41,Female,White,x
8,0,80,33,Male,Black,y
9,1,70,25,Female,Black,z
10,1,55,61,Male,White,x
11,0,90,18,Female,White,x
"""
CONFIG = {"sensitive": "sex", "target": "y", "id": "key"}


@pytest.fixture
def ward(tmp_path: Path) -> Callable[..., dict[str, object]]:
    """A site's configuration, of a CSV file with that text."""

    def written(text: str = WARD, **config: object) -> dict[str, object]:
        (tmp_path / "ward.csv").write_text(text, encoding="utf-8")
        return {"data": str(tmp_path / "ward.csv"), **CONFIG, **config}

    return written


def together(points: GroupedRows) -> RowBlock:
    """All rows of one pass; the groups' names only grow."""
    blocks = list(points.blocks())
    for earlier, later in pairwise(blocks):
        assert later.group_names[: len(earlier.group_names)] == earlier.group_names
    for block in blocks:
        assert block.x.dtype == np.float64
        assert block.group.dtype == np.int64
        assert set(block.group.tolist()) <= set(range(len(block.group_names)))
    entity = None if blocks[0].entity is None else np.concatenate([block.entity for block in blocks])
    x, group = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("x", "group"))
    return RowBlock(x, group, blocks[-1].group_names, entity)


def refusal(action: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.code


def read(config: Mapping[str, object]) -> RowBlock:
    return together(open_rows(config))


# -- which columns ----------------------------------------------------------------------------------------------------


def test_every_column_of_numbers_without_a_role_by_default(ward: Callable[..., dict[str, object]]) -> None:
    points = open_rows(ward())
    assert points.features == ("age", "weight")
    for _ in range(2):
        block = together(points)
        assert block.x.tolist() == [[41, 60.5], [33, 80], [25, 70], [61, 55], [18, 90]]
        assert block.group_names == ("Female", "Male")
        assert block.group.tolist() == [0, 1, 0, 1, 0]
        assert block.entity is not None
        assert block.entity.tolist() == ["7", "8", "9", "10", "11"]
    assert read(ward(id="")).entity is None


@pytest.mark.parametrize(
    ("config", "features"),
    [
        ({"features": "weight age"}, ("age", "weight")),
        ({"features": "w*, a*"}, ("age", "weight")),
        ({"features": "age y"}, ("age", "y")),
        ({"truth": "age"}, ("weight",)),
        ({"target": "", "id": ""}, ("age", "key", "weight", "y")),
        ({"features": "*g*"}, ("age", "weight")),
    ],
)
def test_features_by_name_whatever_their_order(
    ward: Callable[..., dict[str, object]], config: dict[str, object], features: tuple[str, ...]
) -> None:
    assert open_rows(ward(**config)).features == features


def test_a_glob_of_features_leaves_roles_out(ward: Callable[..., dict[str, object]]) -> None:
    text = "sex,key,y,age\n0,1,1,40\n1,2,1,50\n"
    assert open_rows(ward(text, features="*")).features == ("age",)


def test_the_order_of_the_columns_in_a_file_does_not_matter(ward: Callable[..., dict[str, object]]) -> None:
    config = ward(sensitive="sex race")
    first = read(config)
    frame = pd.read_csv(str(config["data"]))
    frame[frame.columns[::-1]].to_csv(str(config["data"]), index=False)
    second = read({**config, "sensitive": "race, sex"})
    assert first.group_names == second.group_names
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(first.group, second.group)


@pytest.mark.parametrize(
    ("config", "message", "code"),
    [
        (
            {"sensitive": ""},
            "configuration: sensitive is not set; fair clustering needs the column of the groups that get their "
            "share of every cluster: one or several of 'key', 'y', 'weight', 'age', 'sex', 'race', 'note'",
            "bad-configuration",
        ),
        ({"sensitive": "sexe"}, "FILE: there is no column 'sexe'; did you mean 'sex'?", "missing-column"),
        ({"sensitive": "q*"}, "FILE: no column matches sensitive='q*'; it has 'key', 'y', ", "missing-column"),
        ({"features": "ages"}, "FILE: there is no column 'ages'; did you mean 'age'?", "missing-column"),
        (
            {"features": "q*"},
            "FILE: no column beside 'y', 'sex', 'key' matches features='q*'; it has 'key', 'y', ",
            "missing-column",
        ),
        ({"id": "keys"}, "FILE: there is no column 'keys'; did you mean 'key'?", "missing-column"),
        (
            {"features": "age sex"},
            "configuration: column 'sex' is named as one of features and as sensitive; it can be one only",
            "bad-configuration",
        ),
        (
            {"features": "age key"},
            "configuration: column 'key' is named as one of features and as id; it can be one only",
            "bad-configuration",
        ),
        (
            {"id": "sex"},
            "configuration: column 'sex' is named as id and as sensitive; it can be one only",
            "bad-configuration",
        ),
        ({"sensitive": 3}, "configuration: sensitive must be text, not 3", "bad-configuration"),
        ({"data": ""}, "configuration: data is not set; give a CSV", "bad-configuration"),
    ],
)
def test_columns_that_cannot_be_used(
    ward: Callable[..., dict[str, object]], config: dict[str, object], message: str, code: str
) -> None:
    configured = {**ward(), **config}
    found = refusal(lambda: open_rows(configured))
    assert found[0].startswith(message.replace("FILE", str(configured["data"])))
    assert found[1] == code


def test_without_a_column_of_numbers(ward: Callable[..., dict[str, object]]) -> None:
    config = ward("sex,key,note\nf,1,x\nm,2,y\n")
    assert refusal(lambda: open_rows(config)) == (
        f"{config['data']}: no column beside 'sex', 'key' holds numbers; it has 'sex', 'key', 'note'",
        "missing-column",
    )


# -- groups -----------------------------------------------------------------------------------------------------------


def test_several_sensitive_columns_are_one_group_together(ward: Callable[..., dict[str, object]]) -> None:
    for sensitive in ("sex race", "race,sex", "[rs]*"):
        block = read(ward(sensitive=sensitive))
        assert block.group_names == (
            "race=White, sex=Female",
            "race=Black, sex=Male",
            "race=Black, sex=Female",
            "race=White, sex=Male",
        )
        assert block.group.tolist() == [0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["1", "2", "1"], ("1", "2")),
        (["1.0", "2.0", "1"], ("1", "2")),
        (["1.5", "2", "2.00"], ("1.5", "2")),
        (["007", "7", "7"], ("007", "7")),
        (["True", "False", "True"], ("True", "False")),
        (["NA", "?", "None"], ("NA", "?", "None")),
        (["1", "x", "1.0"], ("1", "x")),
        (["é ü", "a, b", "-1.0"], ("é ü", "a, b", "-1")),
        (["f ", "f", " m"], ("f", "m")),
    ],
)
def test_a_group_is_the_text_of_the_cell_whatever_the_block(
    ward: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch, cells: list[str], names: tuple[str, ...]
) -> None:
    rows = "".join(f'{i},"{cell}"\n' for i, cell in enumerate(cells))
    for most in (1, 2, 100):
        monkeypatch.setattr(blocks_module, "BLOCK_ROWS", most)
        block = read(ward(f"age,sex\n{rows}", id="", target=""))
        assert block.group_names == names
        expected = [name[:-2] if name.endswith(".0") else name.replace("2.00", "2").strip() for name in cells]
        assert [names[place] for place in block.group] == expected


def test_the_same_groups_from_every_kind_of_source(
    ward: Callable[..., dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ward("age,sex,kind,key\n1.5,2,a,11\n2,1,b,12\n3,1,a,13\n", sensitive="kind sex")
    frame = pd.read_csv(str(config["data"]))
    frame.astype({"sex": float, "key": float}).to_parquet(tmp_path / "ward.parquet")
    np.savez(tmp_path / "ward.npz", **{name: frame[name].to_numpy("U" if name == "kind" else None) for name in frame})
    code = f"import pandas as pd\ndef rows(config):\n    f = pd.read_parquet({str(tmp_path / 'ward.parquet')!r})\n"
    (tmp_path / "ward_source.py").write_text(code + "    return iter([f[:1], f[1:]])\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ward_source", raising=False)
    for data in (config["data"], tmp_path / "ward.parquet", tmp_path / "ward.npz", "ward_source:rows"):
        block = read({**config, "data": str(data)})
        assert block.group_names == ("kind=a, sex=2", "kind=b, sex=1", "kind=a, sex=1")
        assert block.group.tolist() == [0, 1, 2]
        assert block.x.tolist() == [[1.5], [2], [3]]
        assert block.entity is not None
        assert block.entity.tolist() == ["11", "12", "13"]


CELLS = st.tuples(
    st.floats(-1e6, 1e6),
    st.integers(-5, 5),
    st.sampled_from(["a", "b", "1", "2"]),
    st.integers(0, 2),
    st.text("xyz9", min_size=1),
)


@examples(40)
@given(st.lists(CELLS, min_size=2, max_size=30), st.integers(1, 8))
def test_where_blocks_end_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], most: int
) -> None:
    path = tmp_path_factory.mktemp("ward") / "ward.csv"
    pd.DataFrame(rows, columns=["u", "v", "sex", "race", "key"]).to_csv(path, index=False)
    config = {"data": str(path), "sensitive": "sex race", "features": "u v", "id": "key"}
    whole = read(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_ROWS", most)
        blocks = list(open_rows(config).blocks())
        assert max(len(block.x) for block in blocks) <= most
        parts = read(config)
    assert parts.group_names == whole.group_names
    for name in ("x", "group", "entity"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.x[:, 0].tolist() == [row[0] for row in rows]


# -- bad rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("row", "message", "code"),
    [
        ("4,,Male,9", ", line 5, column 'age': is empty; fill it, or set missing=impute", "missing-value"),
        ("4,?,Male,9", ", line 5, column 'age': '?' is text where a number belongs; leave the row out", "not-numeric"),
        ("4,inf,Male,9", ", line 5, column 'age': is infinite", "not-finite"),
        (
            "4,-1e200,Male,9",
            ", line 5, column 'age': -1e+200 is too large; numbers up to 1e+50 can be squared",
            "not-finite",
        ),
        (
            "4,8,,9",
            ", line 5, column 'sex': is empty; every row needs a group: write a name for missing "
            "values, such as unknown",
            "missing-value",
        ),
        ("4,8,Male,", ", line 5, column 'key': is empty; every row needs a name", "missing-value"),
        ("4,8,Male", ", line 5: has 3 cells, but the header names 4 columns", "bad-shape"),
    ],
)
def test_a_bad_row_is_named_in_any_block(
    ward: Callable[..., dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    row: str,
    message: str,
    code: str,
) -> None:
    config = ward(f"n,age,sex,key\n1,5,Male,a\n2,6,Female,b\n3,7,Male,c\n{row}\n5,6,Male,d\n", features="age n")
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", most)
    found = refusal(lambda: read(config))
    assert found[0].startswith(f"{config['data']}{message}")
    assert found[1] == code


def test_a_sensitive_column_of_too_many_values(
    ward: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 7)

    def aged(n: int) -> dict[str, object]:
        rows = "".join(f"{i},{i % n}\n" for i in range(2 * n))
        return ward(f"x,age\n{rows}", sensitive="age", id="", target="")

    assert len(read(aged(MOST_VALUES)).group_names) == MOST_VALUES
    config = aged(MOST_VALUES + 1)
    assert refusal(lambda: read(config)) == (
        f"{config['data']}, column 'age': has more than 50 different values; a sensitive column needs few categories: "
        "merge them, or name another column",
        "bad-configuration",
    )


def test_truth_values_are_coordinates_where_the_whole_column_holds_them(
    ward: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 2)
    config = {"features": "flag", "id": "", "target": ""}
    block = read(ward("flag,sex\nTrue,f\nFalse,f\nTrue,m\n", **config))
    assert block.x.tolist() == [[1], [0], [1]]
    mixed = ward("flag,sex\n1,f\n0,f\nTrue,m\n", **config)
    assert refusal(lambda: read(mixed)) == (
        f"{mixed['data']}, line 4, column 'flag': the column begins with numbers and here has True or False; write it "
        "in one way",
        "bad-shape",
    )


# -- a site's shard ---------------------------------------------------------------------------------------------------


def test_what_a_shard_s_blocks_raise_is_a_fault_with_its_line_in_the_site_s_log(
    ward: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 2)
    monkeypatch.setattr(shards.logger, "propagate", True)
    config = ward("age,sex\n1,f\n2,m\n3,\n", id="", target="")
    blocks = open_shard(config).blocks()
    assert len(next(blocks).x) == 2
    with pytest.raises(SiteFault) as caught:
        next(blocks)
    assert caught.value.fault == Fault.MISSING_VALUE
    assert f"{config['data']}, line 4, column 'sex': is empty" in caplog.text


def test_a_site_opens_its_own_data(ward: Callable[..., dict[str, object]]) -> None:
    config = {**ward(), "protocol": "coreset"}
    points = shards.shard(config, 0, 1, 0, simulated=False)
    assert isinstance(points, GroupedRows)
    assert together(points).x.shape == (5, 2)
    with pytest.raises(SiteFault) as caught:
        shards.shard({**config, "sensitive": ""}, 0, 1, 0, simulated=False)
    assert caught.value.fault == Fault.BAD_CONFIGURATION


# -- check ------------------------------------------------------------------------------------------------------------


def told(config: Mapping[str, object]) -> str:
    lines = check_lines(config)
    assert max(map(len, lines)) <= 120
    return "\n".join(lines)


@pytest.fixture
def census(ward: Callable[..., dict[str, object]]) -> Callable[..., dict[str, object]]:
    """100 rows: 60 of one group, 37 of another, 3 of a third."""
    sexes = ["Female"] * 60 + ["Male"] * 37 + ["Other"] * 3
    rows = "".join(f"p{i},{i},{1000 * (i % 7)},4,{sex},n\n" for i, sex in enumerate(sexes))
    return partial(ward, f"key,age,income,same,sex,note\n{rows}", target="")


def test_check_says_what_is_used_and_what_leaves(
    census: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_ROWS", 9)
    config = census(features="age income")
    text = told(config)
    assert text.startswith(f"{config['data']}: 100 rows\n")
    assert "  features: age, income\n    each measured in its standard deviation over all sites\n" in text
    assert (
        "  groups: 3, by sex\n    Female: 60 rows, 60.0%\n    Male: 37 rows, 37.0%\n    Other: 3 rows, 3.0%\n" in text
    )
    assert "  rows: named by key, in this site's own list of clusters\n" in text
    assert "  columns not used: same, note\n" in text
    assert "the number of rows (100); the names of the 2 features, and of the 2 groups with 5 rows or more\n" in text
    assert "at most 19 points, up to 2000 for each of these groups. A point is the mean of 5 or more rows" in text
    assert "for every feature, the sum over all rows of the squared distance to their points (2 numbers)" in text
    assert "3 rows belong to groups with fewer than 5 rows: only their number leaves" in text
    assert "rounds of prices" not in text
    assert "Worth a look" not in text
    never = text.split("What never leaves this site\n")[1]
    assert "rows as they are, their names; the names of rarer groups; columns not used" in never


ONE_ROW = {"min-weight": 1, "coreset.min-weight": 1}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"min-weight": 10}, "at most 9 points, up to 2000"),
        ({"coreset.min-weight": 10}, "the mean of 10 or more rows"),
        (ONE_ROW, "at most 100 points, up to 2000 for each of these groups. A point is the mean of 1 or more"),
        (ONE_ROW, "and their group\n    A point of 1 row IS THAT ROW: set min-weight"),
        ({"min-weight": 2, "coreset.min-weight": 3}, "of the 3 groups with 3 rows or more"),
        ({"coreset.size": 4}, "at most 8 points, up to 4 for"),
        ({"coreset.k": 3}, "up to 600 for"),
        ({"coreset.scale": "none"}, "each measured in its own unit (coreset.scale=none)"),
        ({"coreset.assignment": "exact"}, "in every round of prices"),
        (
            {"coreset.assignment": "exact", "coreset.k": 21},
            "100 rows are fewer than 5 for each of coreset.k=21 clusters",
        ),
        ({"id": ""}, "rows: by their number, in this site's own list"),
        ({"min-weight": 61}, "no group has 61 rows: this site can send nothing, and takes no part"),
    ],
)
def test_check_of_other_settings(
    census: Callable[..., dict[str, object]], config: dict[str, object], says: str
) -> None:
    assert says in told(census(**config))


def test_check_warns_of_columns_that_do_not_count(census: Callable[..., dict[str, object]]) -> None:
    text = told(census())
    assert "Worth a look\n  same: every row has the same value, so it adds nothing at this site" in text
    assert "hardly counts" not in text
    text = told(census(**{"coreset.scale": "none", "features": "age income"}))
    assert "hardly counts" not in text  # 2000 against 29
    config = census(**{"coreset.scale": "none", "features": "age income"})
    path = Path(str(config["data"]))
    frame = pd.read_csv(path)
    frame.assign(income=frame.income * 10).to_csv(path, index=False)
    assert "coreset.scale=none: age (standard deviation 28.9) hardly counts beside income (2.01e+04)" in told(config)


def test_a_column_far_from_zero_is_not_taken_for_a_constant(ward: Callable[..., dict[str, object]]) -> None:
    config = ward("a,b,sex\n1000000000.5,3.3,f\n1000000001.5,3.3,m\n", id="", target="")
    text = told(config)
    assert "b: every row has the same value" in text
    assert "a: every row" not in text


def test_check_of_a_site_of_one_group_is_no_complaint(ward: Callable[..., dict[str, object]]) -> None:
    text = told(ward("a,sex\n" + "".join(f"{i},f\n" for i in range(9)), id="", target=""))
    assert "groups: 1, by sex\n    f: 9 rows, 100.0%" in text
    assert "this site has one group only; fairness is about the rows of all sites, so this is no fault" in text


def test_check_of_many_groups_lists_the_most_frequent(ward: Callable[..., dict[str, object]]) -> None:
    rows = "".join(f"{i},c{c}\n" for c in range(30) for i in range(c + 1))
    text = told(ward(f"a,sex\n{rows}", id="", target=""))
    assert "    c29: 30 rows, 6.5%\n" in text
    assert "    and 10 more\n" in text
    assert "c9: " not in text


@pytest.mark.parametrize("own", ["abc", 0, -3, 2.5, True])
def test_check_refuses_a_weight_that_is_no_number_of_rows(
    census: Callable[..., dict[str, object]], own: object
) -> None:
    config = census(**{"min-weight": own})
    assert refusal(lambda: check_lines(config)) == (
        f"configuration: min-weight must be a whole number, 1 or greater, not {own!r}",
        "bad-configuration",
    )


def test_the_command_checks_what_a_node_says_of_itself(census: Callable[..., dict[str, object]]) -> None:
    file = str(census()["data"])
    sets = ["--set=sensitive=sex", "--set=features=age income", "--set=min-weight=10"]
    result = CliRunner().invoke(cli.app, ["check", file, "--protocol", "coreset", *sets])
    assert result.exit_code == 0, result.stderr
    assert "at most 9 points, up to 2000" in result.stdout
    refused = CliRunner().invoke(cli.app, ["check", file, "--protocol", "coreset"])
    assert refused.exit_code == 1
    assert refused.stderr.startswith("configuration: sensitive is not set; ")
    assert len(refused.stderr.splitlines()) == 1


def test_check_refuses_a_bad_row(ward: Callable[..., dict[str, object]]) -> None:
    config = ward("age,sex\n1,f\n2,m\n3,\n", id="", target="")
    assert refusal(lambda: check_lines(config))[0].startswith(f"{config['data']}, line 4, column 'sex': is empty")
