"""Which protocols there are, and where the modules of each one lie.

A protocol is declared once, room by room: in every room of the framework it has a module, or package, of its own.
Shared code asks the registry for that module by the room's name and never names a protocol itself.

===========  ==========================  =================================================================
room         of a built-in protocol      what shared code finds there
===========  ==========================  =================================================================
payloads     ``protocols.NAME``          payload classes: everything that can cross the wire
settings     ``protocols.NAME``          ``Settings``, ``Consents``, ``PREDICTION`` (`protocols.settings`)
handlers     ``clients.NAME``            functions decorated with `clients.dispatch.answers`
shard        ``clients.NAME``            ``open_shard``: a site's private data
check        ``clients.NAME``            ``check_lines``: what would be used and what would leave
strategy     ``strategies.NAME``         ``from_config``: the fusion center
scenarios    ``scenarios.NAME``          scenarios, registered on import
report       ``server.report.NAME``      ``REPORT``: question, metrics, headline, disclosure
figures      ``server.figures.NAME``     ``figures``: what is drawn
predict      ``consilience.predict``     ``predict``: new rows by what the fusion center holds (optional)
===========  ==========================  =================================================================

A protocol of another package registers with the entry point group ``consilience.protocols``. The entry point's name is
the protocol's name, its value the package that holds all rooms as modules of the names above: ``quantile =
"my_company.quantile"`` finds its payloads in ``my_company.quantile.payloads``. The last part of the package's name
must be the protocol's name.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from common.settings import ConfigError

BUILT_IN = ("bc3e", "coreset", "gp", "residual", "sec")
"""Protocols of this package."""

SHARED = ("secure_aggregation",)
"""Payloads that several protocols use; ``clients/NAME.py`` answers their asks."""

GROUP = "consilience.protocols"
"""Entry point group of protocols in other packages."""

_ROOMS = {
    "payloads": "protocols.{}.payloads",
    "settings": "protocols.{}.settings",
    "handlers": "clients.{}.handlers",
    "shard": "clients.{}.shard",
    "check": "clients.{}.check",
    "strategy": "strategies.{}",
    "scenarios": "scenarios.{}",
    "report": "server.report.{}",
    "figures": "server.figures.{}",
    "predict": "consilience.predict.{}",
}


class RegistryError(ConfigError):
    """A protocol that does not exist, or whose declaration cannot be used; the message is one line."""


@cache
def _packages() -> dict[str, str]:
    """Packages of the protocols that other distributions declare, by name of the protocol."""
    packages: dict[str, str] = {}
    for each in entry_points(group=GROUP):
        name, package = each.name, each.value
        if name in BUILT_IN or name in SHARED or packages.get(name, package) != package:
            raise RegistryError(f"entry point {GROUP}: the protocol {name!r} of {package} has a name that is taken")
        if not name.isidentifier() or package.rpartition(".")[2] != name:
            raise RegistryError(
                f"entry point {GROUP}: {name} = {package!r}: the package's last part must be the protocol's name"
            )
        packages[name] = package
    return packages


def names() -> tuple[str, ...]:
    """Names of all protocols, in alphabetical order.

    Examples
    --------
    >>> "gp" in names()
    True
    """
    return tuple(sorted((*BUILT_IN, *_packages())))


def exists(protocol: str) -> bool:
    """Whether there is a protocol of this name."""
    return protocol in BUILT_IN or protocol in _packages()


def room(protocol: str, name: str) -> ModuleType:
    """Import a protocol's module of one room.

    Parameters
    ----------
    protocol : str
        One of `names`, or for ``payloads`` and ``handlers`` one of `SHARED`.
    name : str
        The room: ``payloads``, ``settings``, ``handlers``, ...

    Raises
    ------
    RegistryError
        If there is no such protocol, or it has no such module.

    Examples
    --------
    >>> room("gp", "payloads").__name__
    'protocols.gp.payloads'
    """
    path = _path(protocol, name)
    if not _has_module(path):
        raise RegistryError(f"the protocol {protocol!r} has no module {path}")
    return importlib.import_module(path)


def has_room(protocol: str, name: str) -> bool:
    """Whether a protocol has a module in this room; the module itself is not imported."""
    return _has_module(_path(protocol, name))


def _path(protocol: str, name: str) -> str:
    if protocol in BUILT_IN:
        return _ROOMS[name].format(protocol)
    if protocol in SHARED:
        return {"payloads": f"protocols.{protocol}.payloads", "handlers": f"clients.{protocol}"}[name]
    if protocol not in _packages():
        raise RegistryError(f"no protocol {protocol!r}; there are: {', '.join(names())}")
    return f"{_packages()[protocol]}.{name}"


@cache
def _has_module(path: str) -> bool:
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError:
        return False
