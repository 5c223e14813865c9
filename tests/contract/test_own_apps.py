"""Strategies in a ServerApp, and handlers in a ClientApp, that somebody else has written (docs/own-apps.md)."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.client import mod as old
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, arrays_size_mod, fixedclipping_mod
from flwr.clientapp.mod import message_size_mod as flowers_message_size_mod
from flwr.common.constant import ErrorCode

from consilience import Coreset as CoresetSettings
from consilience.clients import handle, message_size_mod
from consilience.local_engine.grid import node_configs
from consilience.local_engine.wire import over_the_wire
from consilience.strategies import BC3E, GP, SEC, Coreset, FusionError, FusionResult, FusionStrategy
from protocols.bc3e.payloads import Survey
from protocols.wire.faults import Fault
from strategies.conversation import Broadcast, Conversation
from tests.support.grid import InProcessGrid
from tests.support.own_apps import files, write_shops
from tests.support.parameters import few

RUN = {"target": "spent", "sensitive": "sex"}

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    caplog.set_level(logging.INFO, logger="flwr")
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog


@pytest.fixture
def shops(tmp_path: Path) -> list[Path]:
    return write_shops(tmp_path / "shops")


class OwnGrid(InProcessGrid):
    """Nodes that run the ClientApp of the page."""

    def reply(self, node: int, ask: Message) -> Message:
        return over_the_wire(APP["client"]["app"](ask, self.contexts[node]))


def executed(name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": name}
    exec(compile(files()[f"my_app/{name}_app.py"], name, "exec"), names)
    return names


APP = {name: executed(name) for name in ("server", "client")}


@pytest.mark.parametrize("simulation", [True, False])
def test_the_app_of_the_page_runs_two_protocols_one_after_the_other(
    tmp_path: Path, shops: list[Path], capsys: pytest.CaptureFixture[str], simulation: bool
) -> None:
    nodes, config = node_configs(3), {**RUN, "data": str(shops[0].parent)}
    if not simulation:
        own = [(each.stem, {"data": str(each), "site-output-dir": str(tmp_path / each.stem)}) for each in shops]
        nodes, config = [{**RUN, "site": name, **node} for name, node in own], {}
    grid = OwnGrid(nodes, config, 7)
    APP["server"]["app"](grid, Context(7, 0, {}, RecordDict(), config))
    printed = capsys.readouterr().out
    assert "answered: ['shop-0', 'shop-1', 'shop-2'] left out: {}" in printed
    assert "clusters: 2.0" in printed
    assert "centers: [[" in printed
    assert "'round': 1, " in printed


def test_its_own_function_answers_other_messages() -> None:
    asked = over_the_wire(Message(RecordDict(), 5, "train"))
    reply = APP["client"]["app"](asked, Context(7, 5, {}, RecordDict(), {}))
    assert not reply.content


@pytest.mark.parametrize("nodes", [node_configs(2), [{"site": "a"}, {"site": "b"}]])
def test_a_site_without_data_says_what_to_set(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(FusionError) as refused:
        SEC().start(grid=InProcessGrid(nodes, {"num-server-rounds": 3}, 7), timeout=5)
    assert f"{Fault.NO_DATA.message} [no-data]" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_each_protocol_opens_the_data_as_it_wants_them(shops: list[Path]) -> None:
    """Data that one cannot use do not keep the other from using them."""
    grid = InProcessGrid(node_configs(3), {**RUN, "data": str(shops[0].parent)}, 7)
    with pytest.raises(FusionError, match=r"\[missing-column\]"):
        BC3E().start(grid=grid, timeout=5)
    assert Coreset().start(grid=grid, timeout=5).sites == ["shop-0", "shop-1", "shop-2"]


def test_what_fails_at_a_site_without_a_directory_is_in_the_log_of_its_process_only(
    shops: list[Path], log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise ZeroDivisionError("a private value")

    grid = InProcessGrid([{"site": "a", "data": str(shops[0]), **RUN}], {}, 7)
    monkeypatch.setattr("clients.shards.registry.room", failing)
    with pytest.raises(FusionError) as refused:
        Coreset().start(grid=grid, timeout=5)
    assert "private" not in str(refused.value)
    assert "ZeroDivisionError: a private value" in log.text
    assert "Traceback" in log.text
    crossed = b"".join(each.deflate() for _, content in grid.crossed for each in content.values())
    assert b"private" not in crossed


# -- mods -------------------------------------------------------------------------------------------------------------


class ModGrid(InProcessGrid):
    """Nodes whose ClientApp has a mod; an exception becomes the error that Flower sends."""

    mod: Any = None

    def reply(self, node: int, ask: Message) -> Message:
        app = ClientApp()
        app.train(mods=[self.mod])(handle)
        try:
            reply = app(ask, self.contexts[node])
        except Exception as error:
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code, f"{type(error)}:<'{error}'>"), reply_to=ask)
        return over_the_wire(reply)


def nodes_of(shops: list[Path]) -> list[dict[str, Any]]:
    return [{"site": each.stem, "data": str(each), **RUN} for each in shops]


def with_mod(mod: Any, shops: list[Path], strategy: FusionStrategy) -> FusionResult:
    grid = ModGrid(nodes_of(shops), {}, 7)
    grid.mod = mod
    return strategy.start(grid=grid, timeout=5)


def own_noise() -> Any:
    return LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("strategy", [Coreset, GP, SEC])
@pytest.mark.parametrize(
    "mod",
    [
        *(fixedclipping_mod, adaptiveclipping_mod, own_noise()),
        *(old.fixedclipping_mod, old.adaptiveclipping_mod, old.LocalDpMod(1.0, 1.0, 1.0, 1e-5)),
        *(old.secaggplus_mod, old.secagg_mod),
    ],
)
def test_mods_that_change_messages_are_refused_in_one_sentence(
    shops: list[Path], mod: Any, strategy: type[FusionStrategy]
) -> None:
    with pytest.raises(FusionError) as refused:
        with_mod(mod, shops, strategy())
    assert str(refused.value).count(f"{Fault.ALTERING_MOD.message} [altering-mod]") == 1
    assert "0 of 3 sites answered" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mod", few([arrays_size_mod, flowers_message_size_mod, message_size_mod]))
def test_mods_that_count_change_nothing(shops: list[Path], mod: Any, log: pytest.LogCaptureFixture) -> None:
    settings = CoresetSettings(k=2, size=40)

    def centers(result: FusionResult) -> Any:
        return Coreset().arrays(result.outcomes[0])["centers"].tolist()

    counted = centers(with_mod(mod, shops, Coreset(settings=settings)))
    assert re.search(r"message size: [1-9]\d* bytes|elements sent: [1-9]\d* bytes", log.text)
    plain = Coreset(settings=settings).start(grid=InProcessGrid(nodes_of(shops), {}, 7), timeout=5)
    assert counted == centers(plain)


def test_a_message_that_flowers_mod_cannot_count_is_named_with_what_can(shops: list[Path]) -> None:
    class Asker(FusionStrategy):
        def conversation(self, repetition: int = 0) -> Conversation[int]:
            return len((yield Broadcast(Survey("row", ""))))

    with pytest.raises(FusionError, match=r"use message_size_mod of consilience\.clients instead"):
        with_mod(flowers_message_size_mod, shops, Asker())
