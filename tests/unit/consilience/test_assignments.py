"""What a user types after ``--set``."""

from __future__ import annotations

import pytest

from common.settings import SettingError
from consilience.assignments import parse
from tests.unit.common.test_settings import KEYS


def test_typed_values_take_the_type_of_their_key() -> None:
    typed = ["example.flag=FALSE", "example.k=3", "example.share=1", "example.file=a=b c", "example.min-leaf= 7 "]
    values = parse(typed, KEYS)
    assert values == {
        **{"example.flag": False, "example.k": 3, "example.share": 1.0},
        **{"example.file": "a=b c", "example.min-leaf": 7},
    }
    assert [type(value) for value in values.values()] == [bool, int, float, str, int]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("example.k", "--set takes key=value, not 'example.k'"),
        ("example.kk=3", "unknown key 'example.kk'; did you mean example.k"),
        ("zzzz=3", "unknown key 'zzzz'; there are: example.flag, example.k,"),
        ("example.k=1.5", "example.k takes a whole number, not '1.5'"),
        ("example.share=inf", "example.share takes a finite number, not 'inf'"),
        ("example.share=2", "example.share must be 0 (not set), or from 0.5 to 1, got 2.0"),
        ("example.flag=maybe", "example.flag takes true or false, not 'maybe'"),
        ("example.file=twice", "example.file is set twice"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(assignment: str, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        parse(["example.file=once", assignment], KEYS)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
