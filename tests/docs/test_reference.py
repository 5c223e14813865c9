"""The reference pages, and the stub of the settings, are those of the declarations (`make keys` writes them)."""

from __future__ import annotations

import pytest

from consilience.reference import write
from consilience.signatures import STUB, stub
from tests.support.documentation import pages, read

PAGES = [page for page in pages() if page.endswith("-reference.md")]


@pytest.mark.parametrize("page", PAGES)
def test_lists_are_those_of_the_declarations(page: str) -> None:
    text = read(page)
    assert text.count("written by make keys -->") == 2
    assert text == write(text), f"{page}: run make keys"


def test_the_stub_of_the_settings_is_that_of_the_declarations() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run make keys"
