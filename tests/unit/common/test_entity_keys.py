"""Keyed hashes of entities' names: HMAC as RFC 2104 has it, and nothing matches that should not."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.entity_keys import SecretError, keyed_hashes, read_secret, secret_check

SECRET = b"sixteen bytes or more of it"
SALT = "run-1"

names_of_any_kind = st.lists(st.text(max_size=90), max_size=12)


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
    )  # a site's own function may return objects


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


def key_file(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "secret.key"
    path.write_bytes(content)
    return str(path)


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
    assert read_secret(key_file(tmp_path, content)) == secret


def test_no_file_is_no_secret() -> None:
    assert read_secret("") == b""


def test_a_short_secret_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="holds 15 bytes; a secret needs at least 16") as caught:
        read_secret(key_file(tmp_path, b"fifteen bytes !\n"))
    assert "fifteen" not in str(caught.value)


@pytest.mark.parametrize("name", [".", "no/such/file", "~nobody-of-this-name/key", "a\0b"])
def test_a_secret_that_cannot_be_read(name: str) -> None:
    with pytest.raises(SecretError, match="align-key-file cannot be read"):
        read_secret(name)
