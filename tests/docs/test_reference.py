"""The tables of keys and payloads in the reference pages are those of the declarations (``make keys`` writes them)."""

from __future__ import annotations

import pytest

from consilience.reference import write
from tests.support.documentation import pages, read

PAGES = [page for page in pages() if page.endswith("-reference.md")]


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_declarations(page: str) -> None:
    text = read(page)
    assert text.count("written by make keys -->") == 2
    assert text == write(text), f"{page}: run make keys"
