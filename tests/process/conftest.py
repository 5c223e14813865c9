"""One SuperLink for all simulations of a session: it takes a second to start, and holds no state between runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.processes import FlowerHome, flower_home


@pytest.fixture(scope="session")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerHome]:
    with flower_home(tmp_path_factory.mktemp("flower")) as home:
        yield home
