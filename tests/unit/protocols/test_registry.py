"""The registry: protocols of this package and of others, and the modules of each."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from clients.policy import Policy
from consilience.app_folder import with_keys
from protocols import registry
from protocols.registry import RegistryError
from protocols.settings import run_keys, site_keys
from protocols.wire.message import Ask, Parcel, asks_of, find, ledger_lines, read_ask, write_ask
from tests.support.documentation import ROOT

PAYLOADS = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from protocols.wire.payload import Payload


@dataclass(frozen=True)
class Counts(Payload, summed=True):
    at_most: Int64[np.ndarray, "t"]


@dataclass(frozen=True)
class Count(Payload, answer=Counts):
    thresholds: Float64[np.ndarray, "t"]
"""
SETTINGS = """
from __future__ import annotations

from dataclasses import dataclass

from common import settings
from common.settings import setting
from common.value_ranges import at_least
from protocols.settings import ProtocolSettings


@dataclass(frozen=True)
class Settings(ProtocolSettings, prefix="quantile"):
    steps: int = setting(7, "how many steps", at_least(1), unset=0)


@dataclass(frozen=True)
class Consents(settings.Settings):
    allow_steps: bool = setting(False, "answer steps")
"""

Install = Callable[..., None]


def _forget() -> None:
    importlib.invalidate_caches()
    for cached in (registry._packages, registry._has_module, run_keys):
        cached.cache_clear()  # type: ignore[attr-defined]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with an entry point on the path, as pip would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(distribution: str, name: str, package: str, **modules: str) -> None:
        about = tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {package}\n")
        folder = tmp_path / package.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for module, text in {"__init__": "", **modules}.items():
            (folder / f"{module}.py").write_text(text)
        _forget()

    _forget()
    yield put
    for module in [each for each in sys.modules if each.partition(".")[0] == "company"]:
        del sys.modules[module]
    _forget()


@pytest.fixture
def quantile(install: Install) -> None:
    """A protocol of another package."""
    install("company-quantile", "quantile", "company.quantile", payloads=PAYLOADS, settings=SETTINGS)


# -- protocols of this package ----------------------------------------------------------------------------------------


def test_the_protocols_of_this_package() -> None:
    assert registry.names() == ("bc3e", "coreset", "gp", "residual", "sec")
    assert registry.exists("gp")
    assert not registry.exists("fedavg")
    assert not registry.exists("secure_aggregation")


@pytest.mark.parametrize("room", ["payloads", "settings", "handlers", "shard", "check", "strategy", "scenarios"])
@pytest.mark.parametrize("protocol", registry.BUILT_IN)
def test_every_protocol_has_its_rooms(protocol: str, room: str) -> None:
    assert registry.has_room(protocol, room)


def test_a_room_is_a_module() -> None:
    assert registry.room("gp", "settings").__name__ == "protocols.gp.settings"
    assert registry.room("secure_aggregation", "payloads").__name__ == "protocols.secure_aggregation.payloads"


def test_unknown_protocols_and_rooms_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RegistryError, match=r"^there is no protocol 'fedavg'; there are: bc3e, .*, sec$"):
        registry.room("fedavg", "payloads")
    monkeypatch.setitem(registry._ROOMS, "kitchen", "protocols.{}.kitchen")
    assert not registry.has_room("gp", "kitchen")
    with pytest.raises(RegistryError, match=r"^the protocol 'gp' has no module protocols\.gp\.kitchen$"):
        registry.room("gp", "kitchen")


# -- protocols of other packages --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quantile")
def test_a_protocol_of_another_package_is_found() -> None:
    assert registry.names() == ("bc3e", "coreset", "gp", "quantile", "residual", "sec")
    assert registry.exists("quantile")
    assert registry.room("quantile", "payloads").__name__ == "company.quantile.payloads"
    assert not registry.has_room("quantile", "figures")
    with pytest.raises(RegistryError, match=r"^the protocol 'quantile' has no module company\.quantile\.figures$"):
        registry.room("quantile", "figures")


@pytest.mark.usefixtures("quantile")
def test_its_payloads_cross_the_wire() -> None:
    kind = find("quantile.Count")
    assert (kind.__module__, kind.title()) == ("company.quantile.payloads", "quantile.Count")
    assert asks_of("quantile") == [kind]
    parcel = Parcel("0", kind(np.array([1.0, 2.0])))  # type: ignore[call-arg]
    content = write_ask(Ask("s", 1, 0, [parcel]))
    [read] = read_ask(content).parcels
    assert isinstance(read.payload, kind)
    _, line = ledger_lines(content, [parcel], round_number=1, direction="to_site", site="north")
    assert line["payload"] == "quantile.Count"


@pytest.mark.usefixtures("quantile")
def test_a_policy_can_name_it() -> None:
    parcels = [Parcel("0", find("quantile.Count")(np.zeros(1)))]  # type: ignore[call-arg]
    Policy(protocols=("quantile",)).admit(parcels)
    with pytest.raises(Exception, match=r"quantile\.Count is not answered"):
        Policy(protocols=("gp",)).admit(parcels)


@pytest.mark.usefixtures("quantile")
def test_its_keys_are_keys_of_a_run_and_of_a_site() -> None:
    assert run_keys()["quantile.steps"].default == 7
    assert site_keys("quantile")["allow-steps"].default is False
    pyproject = with_keys((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert tomllib.loads(pyproject)["tool"]["flwr"]["app"]["config"]["quantile"] == {"steps": 0}
    assert "steps = 0  # 7, or what the scenario sets\n" in pyproject


def test_the_same_entry_point_twice_is_one_protocol(install: Install) -> None:
    install("company-quantile", "quantile", "company.quantile")
    install("company-copy", "quantile", "company.quantile")
    assert registry.exists("quantile")


@pytest.mark.parametrize("name", ["gp", "secure_aggregation"])
def test_a_name_of_this_package_is_taken(install: Install, name: str) -> None:
    install("company-x", name, f"company.{name}")
    with pytest.raises(RegistryError, match=rf"the protocol '{name}' of company\.{name} has a name that is taken$"):
        registry.names()


def test_a_name_of_another_package_is_taken(install: Install) -> None:
    install("company-x", "quantile", "company.quantile")
    install("company-y", "quantile", "company.other.quantile")
    with pytest.raises(RegistryError, match="has a name that is taken"):
        registry.exists("quantile")


@pytest.mark.parametrize(
    ("name", "package"), [("quantile", "company.quantiles"), ("my-quantile", "company.my-quantile")]
)
def test_a_package_called_otherwise_is_refused(install: Install, name: str, package: str) -> None:
    install("company-x", name, package)
    with pytest.raises(RegistryError, match=r"package company-x: .*the module's last part must be the protocol's name"):
        registry.names()
