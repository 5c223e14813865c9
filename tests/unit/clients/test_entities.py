"""Entities' names and their keyed hashes: HMAC as RFC 2104 has it, and nothing matches that should not."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.bc3e.handlers import instance_keys
from clients.data import DataError, Table, make_table, read_table
from clients.entities import entity_names, keyed_hashes, read_secret, secret_check, shared_secret
from numerics.bc3e.ensemble import Ensemble
from protocols.wire.faults import Fault, SiteFault

SECRET = b"sixteen bytes or more of it"
SALT = "run-1"

names_of_any_kind = st.lists(st.text(max_size=90), max_size=12)


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


# -- keyed hashes -----------------------------------------------------------------------------------------------------


@given(names=names_of_any_kind, secret=st.binary(max_size=200), salt=st.text(max_size=20))
def test_a_hash_is_the_first_half_of_hmac_sha256(names: list[str], secret: bytes, salt: str) -> None:
    names = [name.replace("\0", "") for name in names]  # NumPy's text ends at a null
    found = keyed_hashes(np.array(names, dtype=np.str_), secret, salt)
    key = hmac.digest(secret, b"consilience: names of entities\0" + salt.encode(), "sha256")
    expected = b"".join(hmac.digest(key, name.encode(), hashlib.sha256)[:16] for name in names)
    assert (found.shape, found.dtype) == ((len(names), 2), np.dtype(np.uint64))
    assert found.astype("<u8").tobytes() == expected


def test_whole_numbers_and_their_digits_have_the_same_hash() -> None:
    numbers, text = np.array([12, 7]), np.array(["12", "7"])
    np.testing.assert_array_equal(keyed_hashes(numbers, SECRET, SALT), keyed_hashes(text, SECRET, SALT))
    np.testing.assert_array_equal(
        keyed_hashes(text.astype(object), SECRET, SALT), keyed_hashes(text, SECRET, SALT)
    )  # a party's own function may return objects


def test_another_secret_or_salt_or_name_has_another_hash() -> None:
    names = np.array(["a", "b"])
    found = [keyed_hashes(names, *of) for of in ((SECRET, SALT), (SECRET, "run-2"), (SECRET + b"x", SALT), (b"", SALT))]
    words = np.concatenate(found).ravel()
    assert len(set(words.tolist())) == words.size


def test_text_that_is_no_unicode_has_a_hash() -> None:
    found = keyed_hashes(np.array(["\ud800", "\ud801"], dtype=object), SECRET, SALT)
    assert found[0].tolist() != found[1].tolist()


# -- the sites' secret ------------------------------------------------------------------------------------------------


def test_the_check_tells_secrets_apart_and_is_no_name_s_hash() -> None:
    check = secret_check(SECRET, SALT)
    assert (check.shape, check.dtype) == ((16,), np.dtype(np.uint8))
    np.testing.assert_array_equal(check, secret_check(SECRET, SALT))
    others = [secret_check(SECRET + b"x", SALT), secret_check(SECRET, "run-2")]
    others += [keyed_hashes(np.array([name]), SECRET, SALT).view(np.uint8)[0] for name in ("", SALT)]
    assert all((check != other).any() for other in others)
    assert SECRET not in check.tobytes()
    assert secret_check(b"", SALT).shape == (0,)


def key_file(tmp_path: Path, content: bytes) -> dict[str, object]:
    path = tmp_path / "secret.key"
    path.write_bytes(content)
    return {"align-key-file": str(path)}


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (SECRET, SECRET),
        (SECRET + b"\n", SECRET),
        (SECRET + b"\r\n", SECRET),
        (SECRET + b"\n\n", SECRET + b"\n"),
        (SECRET + b"\r", SECRET + b"\r"),
        (b"\0" * 16, b"\0" * 16),
    ],
)
def test_a_secret_is_the_file_s_bytes_less_a_line_break(tmp_path: Path, content: bytes, secret: bytes) -> None:
    assert shared_secret(key_file(tmp_path, content)) == read_secret(key_file(tmp_path, content)) == secret


@pytest.mark.parametrize("config", [{}, {"align-key-file": ""}, {"align-key-file": "  "}])
def test_no_file_is_no_secret(config: dict[str, object]) -> None:
    assert read_secret(config) == shared_secret(config) == b""


def test_a_short_secret_is_refused_and_not_shown(tmp_path: Path) -> None:
    config = key_file(tmp_path, b"fifteen bytes !\n")
    with pytest.raises(DataError, match="holds 15 bytes; a secret needs at least 16") as caught:
        read_secret(config)
    assert "fifteen" not in str(caught.value)
    assert caught.value.code == "bad-configuration"
    with pytest.raises(SiteFault, match="holds 15 bytes") as refused:
        shared_secret(config)
    assert refused.value.fault == Fault.BAD_CONFIGURATION


@pytest.mark.parametrize("name", [".", "no/such/file", "~nobody-of-this-name/key", "a\0b", 7])
def test_a_secret_that_cannot_be_read(name: object) -> None:
    with pytest.raises(SiteFault, match="align-key-file") as caught:
        shared_secret({"align-key-file": name})
    assert caught.value.fault == Fault.BAD_CONFIGURATION


# -- BC3E's keys ------------------------------------------------------------------------------------------------------


def test_bc3e_s_keys_are_the_first_words() -> None:
    labels = {"m": np.zeros(3, np.int64)}
    named = Ensemble(3, labels, {}, entity=np.array(["a", "b", "c"]))
    keys = instance_keys(named, SALT, SECRET)
    np.testing.assert_array_equal(keys, keyed_hashes(np.array(["a", "b", "c"]), SECRET, SALT)[:, 0])
    assert keys.flags.c_contiguous
    numbered = instance_keys(Ensemble(3, labels, {}), SALT)
    np.testing.assert_array_equal(numbered, keyed_hashes(np.arange(3), b"", SALT)[:, 0])
