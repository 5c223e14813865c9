"""Libraries of extras: what is said where one is missing, and that pyproject.toml installs what the table says."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from common.extras import EXTRA_OF, MissingLibraryError, is_installed, require
from tests.support.documentation import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s\[<>=]", each)[0] for each in requirements}


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)  # Python's own way to say that a module is not there
    assert not is_installed("ortools")
    with pytest.raises(MissingLibraryError) as refusal:
        require("ortools", "fair clustering")
    assert str(refusal.value) == "fair clustering needs ortools: pip install 'consilience[coreset]'"


def test_every_extra_installs_the_libraries_of_the_table() -> None:
    for library, extra in EXTRA_OF.items():
        assert library in names(EXTRAS[extra]) or (library, extra) == ("ray", "simulation")
        assert library not in names(PROJECT["dependencies"])
    assert EXTRAS["simulation"] == ["flwr[simulation]>=1.41,<2"]


def test_all_is_all_of_them() -> None:
    assert EXTRAS["all"] == [f"consilience[{','.join(sorted(set(EXTRA_OF.values())))}]"]
    assert any(each.startswith("consilience[all") for each in EXTRAS["dev"])
