"""The schema of settings: what a key is made of, what it accepts, and how it is typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from flwr.common.config import parse_config_args

from common.settings import ConfigError, SettingError, Settings, absolute, did_you_mean, setting, to_toml
from common.value_ranges import NOT_EMPTY, ValueRange, at_least, below, between, one_of


@dataclass(frozen=True)
class Example(Settings, prefix="example"):
    """One key of every kind, and a field that is none."""

    flag: bool = setting(True, "a flag")
    k: int = setting(10, "number of clusters", at_least(1), unset=0)
    share: float = setting(1, "a share", between(0.5, 1), unset=0, other_source="what the file says")
    method: Literal["one", "other"] = setting("one", "a method")
    min_leaf: int = setting(0, "rows of a leaf", at_least(0), words="as many as there are")
    file_: str = setting("", "a file", path=True)
    masked: bool = False


KEYS = Example.keys()


def test_a_field_is_a_key() -> None:
    assert list(KEYS) == [f"example.{name}" for name in ("flag", "k", "share", "method", "min-leaf", "file")]
    assert [each.kind for each in KEYS.values()] == [bool, int, float, str, int, str]
    assert KEYS["example.method"].allowed.words == "one of 'one', 'other'"


def test_a_key_without_a_prefix_is_the_name_of_its_field() -> None:
    @dataclass(frozen=True)
    class Own(Settings):
        min_rows: int = setting(5, "rows")

    assert list(Own.keys()) == ["min-rows"]


def test_what_is_declared_is_the_default_or_what_counts_as_not_set() -> None:
    assert {key: each.declared for key, each in KEYS.items()} == {
        **{"example.flag": True, "example.k": 0, "example.share": 0.0, "example.method": "one"},
        **{"example.min-leaf": 0, "example.file": ""},
    }
    assert type(KEYS["example.share"].declared) is float
    assert type(KEYS["example.share"].default) is float


def test_the_meaning_says_in_words_what_holds() -> None:
    assert KEYS["example.k"].meaning == "number of clusters; 0: 10, or what the scenario sets"
    assert KEYS["example.share"].meaning == "a share; 0: 1, or what the file says"
    assert KEYS["example.min-leaf"].meaning == "rows of a leaf; 0: as many as there are"
    assert KEYS["example.method"].meaning == "a method"


def test_settings_of_a_configuration() -> None:
    assert Example.of({}) == Example()
    assert Example.of({"example.k": 0, "example.share": 0.0}) == Example(k=10, share=1.0)
    assert Example.of({"example.k": 3, "example.flag": False, "other.k": 4}) == Example(k=3, flag=False)
    assert not Example.of({"example.masked": True}).masked


def test_only_what_is_empty_can_stand_for_not_set() -> None:
    with pytest.raises(ValueError, match="-1 cannot stand for"):
        setting(3, "a number", unset=-1)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("flag", 1, "must be true or false, got 1"),
        ("k", "3", "must be a whole number, got '3'"),
        ("k", True, "must be a whole number, got True"),
        ("k", -1, "must be 0 (not set), or 1 or greater, got -1"),
        ("share", float("nan"), "must be a finite number, got nan"),
        ("share", 0.1, "must be 0 (not set), or from 0.5 to 1, got 0.1"),
        ("method", "third", "must be one of 'one', 'other', got 'third'"),
        ("method", None, "must be one of 'one', 'other', got None"),
        ("file", 3, "must be text in quotes, got 3"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        KEYS[f"example.{key}"].check(value)
    assert str(refused.value) == f"example.{key} {message}"


def test_a_right_value_is_returned_in_its_type() -> None:
    assert KEYS["example.k"].check(0) == 0
    value = KEYS["example.share"].check(1)
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize(
    ("allowed", "right", "wrong", "words"),
    [
        (at_least(1), [1, 5], [0, -3], "1 or greater"),
        (between(1, 10_000_000), [1, 10_000_000], [0, 10_000_001], "from 1 to 10000000"),
        (between(1e-9, 1), [1e-9, 1.0], [0.0, 2.0], "from 1e-09 to 1"),
        (below(1), [0.0, 0.99], [1.0, -0.1], "from 0 to below 1"),
        (one_of("", "a"), ["", "a"], ["b"], "one of '', 'a'"),
        (NOT_EMPTY, ["a"], [""], "not empty"),
    ],
)
def test_ranges(allowed: ValueRange, right: list[Any], wrong: list[Any], words: str) -> None:
    assert all(allowed.test(value) for value in right)
    assert not any(allowed.test(value) for value in wrong)
    assert allowed.words == words


# -- what Flower is told ----------------------------------------------------------------------------------------------


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = absolute({"example.file": "x/y", "example.method": "one", "unknown": "z"}, KEYS)
    assert values == {"example.file": str(tmp_path / "x/y"), "example.method": "one", "unknown": "z"}
    assert absolute({"example.file": ""}, KEYS) == {"example.file": ""}


def test_every_value_arrives_in_flower_as_it_was_given() -> None:
    values = {
        "a": True,
        "b": -3,
        "c": 1e-06,
        "d": 1e22,
        "e": "two words = 'x'",
        "f": 'say "hello"',
        "g": "",
        "group.h": "C:\\dir\\",
        "group.i": "ein Käse, 1.5",
    }
    assert parse_config_args([to_toml(values)]) == values


@pytest.mark.parametrize("text", ["line\nbreak", "tab\t", "'\""])
def test_text_that_flower_cannot_carry_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="data"):
        to_toml({"data": text})


def test_the_public_settings_are_shown_as_they_are_typed() -> None:
    import consilience as cs

    assert repr(cs.GP(kernel="se", experts=5)) == "GP(kernel='se', experts='5')"
    assert repr(cs.Coreset()) == "Coreset()"


def test_the_public_settings_document_every_field() -> None:
    import consilience as cs

    text = cs.GP.__doc__ or ""
    assert text.startswith("Kernel, gate and aggregation")
    assert "landmarks : int, default 32\n    gp.answers=1: landmarks of a query point (from 1 to 256)" in text


def test_a_hint_lists_no_hundreds_of_names() -> None:
    names = [f"{letter}{number}" for letter in "abcde" for number in range(20)]
    assert did_you_mean("zz", names).endswith("b19 and 60 more")
    assert did_you_mean("zz", names[:40]) == f"there are: {', '.join(names[:40])}"
