"""Entities' names as text, and the secret by which a site hashes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clients.bc3e.handlers import instance_keys
from clients.data import DataError, Table, make_table, read_table
from clients.data.entities import configured_secret, entity_names
from clients.keys import shared_secret
from common.entity_keys import keyed_hashes
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.faults import Fault, SiteFault

SECRET = b"sixteen bytes or more of it"
SALT = "run-1"


def table(*names: object) -> Table:
    return make_table("records", [("id", np.array(names)), ("x", np.zeros(len(names)))])


def of_file(tmp_path: Path, *lines: str) -> Table:
    path = tmp_path / "records.csv"
    path.write_text("\n".join(["id,x", *(f"{line},1" for line in lines)]) + "\n")
    return read_table(str(path))


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "names", "kind"),
    [
        ((12, 7), ["12", "7"], "number"),
        ((12.0, -0.0), ["12", "0"], "number"),
        ((2.0**53 - 1, -3.0), ["9007199254740991", "-3"], "number"),
        ((2**63 - 1, -(2**63)), ["9223372036854775807", "-9223372036854775808"], "number"),
        (("12", "Zoë"), ["12", "Zoë"], "text"),
        (("012", "12"), ["012", "12"], "text"),
        ((True, False), ["True", "False"], "text"),
    ],
)
def test_names_are_text(cells: tuple[object, ...], names: list[str], kind: str) -> None:
    found, found_kind = entity_names(table(*cells), "id")
    assert (found.tolist(), found_kind) == (names, kind)
    assert found.dtype.kind == "U"


def test_numbers_and_text_of_the_same_digits_are_the_same_entity(tmp_path: Path) -> None:
    numbers, _ = entity_names(of_file(tmp_path, "12", "7"), "id")
    text, _ = entity_names(table("12", "7"), "id")
    np.testing.assert_array_equal(numbers, text)


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (("a", "", "b"), "missing-value", ["line 3", "'id'", "is empty"]),
        (("1", "", "2"), "missing-value", ["line 3", "'id'", "is empty"]),
        (("1", "2.5", "3.5"), "bad-shape", ["line 3", "'id'", "2.5 is no name", "whole number or text"]),
        (("1.5", "inf", "2"), "bad-shape", ["line 2", "1.5 is no name"]),
        (("1.0", "inf", "2.5"), "bad-shape", ["line 3", "inf is no name"]),
        (("1.0", "1e16", "2.0"), "bad-shape", ["line 3", "1e+16 is no name", "rounded", "as text"]),
        (("b", "a", "c", "a", "b"), "duplicate-entity", ["line 5", "'a'", "line 3", "a name of its own"]),
        (("3", "4", "4", "3"), "duplicate-entity", ["line 4", "'4'", "line 3"]),
        (("x" * 50, "x" * 50), "duplicate-entity", [f"'{'x' * 20}'"]),
    ],
)
def test_the_first_row_without_a_name_of_its_own_is_named(
    tmp_path: Path, lines: tuple[str, ...], code: str, words: list[str]
) -> None:
    with pytest.raises(DataError) as caught:
        entity_names(of_file(tmp_path, *lines), "id")
    assert caught.value.code == code
    for word in ["records.csv", *words]:
        assert word in str(caught.value)


def test_a_column_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'idd'; did you mean 'id'") as caught:
        entity_names(of_file(tmp_path, "1", "2"), "idd")
    assert caught.value.code == "missing-column"


# -- the sites' secret ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"align-key-file": ""}, {"align-key-file": "  "}])
def test_no_file_is_no_secret(config: dict[str, object]) -> None:
    assert configured_secret(config) == shared_secret(config) == b""


def test_a_secret_is_read_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_bytes(SECRET + b"\n")
    config = {"align-key-file": str(tmp_path / "secret.key")}
    assert configured_secret(config) == shared_secret(config) == SECRET


@pytest.mark.parametrize("name", [".", "no/such/file", 7])
def test_a_secret_that_cannot_be_read(name: object) -> None:
    with pytest.raises(DataError, match="align-key-file") as caught:
        configured_secret({"align-key-file": name})
    assert caught.value.code == "bad-configuration"
    with pytest.raises(SiteFault, match="align-key-file") as refused:
        shared_secret({"align-key-file": name})
    assert refused.value.fault == Fault.BAD_CONFIGURATION


# -- BC3E's keys ------------------------------------------------------------------------------------------------------


def test_bc3e_s_keys_are_the_first_words() -> None:
    labels = {"m": np.zeros(3, np.int64)}
    named = Ensemble(3, labels, {}, entity=np.array(["a", "b", "c"]))
    keys = instance_keys(named, SALT, SECRET)
    np.testing.assert_array_equal(keys, keyed_hashes(np.array(["a", "b", "c"]), SECRET, SALT)[:, 0])
    assert keys.flags.c_contiguous
    numbered = instance_keys(Ensemble(3, labels, {}), SALT)
    np.testing.assert_array_equal(numbered, keyed_hashes(np.arange(3), b"", SALT)[:, 0])
