"""The protocols, and where the modules of each one lie.

A protocol is declared once, room by room: in every room of the framework it has a module, or package, of its own.
Shared code asks the registry for that module by the room's name and never names a protocol itself.

===========  ===========================  =================================================================
room         of a built-in protocol       what shared code finds there
===========  ===========================  =================================================================
payloads     ``protocols.NAME``           payload classes: everything that can cross the wire
settings     ``protocols.NAME``           ``Settings``, ``Consents``, ``PREDICTION`` (`protocols.settings`)
handlers     ``clients.NAME``             functions decorated with `clients.dispatch.answers`
shard        ``clients.NAME``             ``open_shard``: a site's data; optionally ``check_columns``, ``check_rows``,
                                          ``check_together``: all sites' data before a simulation
check        ``clients.NAME``             ``check_lines``: what would be used and what would leave
fit          ``clients.NAME``             ``propose``: settings for files without a configuration (optional)
strategy     ``strategies.NAME``          ``from_config``: the fusion center
scenarios    ``scenarios.NAME``           scenarios, registered on import
report       ``server.report.NAME``       ``REPORT``: question, metrics, headline, disclosure
figures      ``server.figures.NAME``      ``figures``: the figures of a run
predict      ``consilience.predict``      ``predict``: new rows by what the fusion center holds (optional)
attack       ``consilience.attack``       ``ATTACKS``: what a lying fusion center tries on a site (optional)
prepare      ``consilience.preparation``  ``prepare``: the protocol's data from raw rows (optional)
===========  ===========================  =================================================================

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

from common.settings import ConfigError, did_you_mean

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
    "fit": "clients.{}.fit",
    "strategy": "strategies.{}",
    "scenarios": "scenarios.{}",
    "report": "server.report.{}",
    "figures": "server.figures.{}",
    "predict": "consilience.predict.{}",
    "attack": "consilience.attack.{}",
    "prepare": "consilience.preparation.{}",
}


class RegistryError(ConfigError):
    """Error: a protocol does not exist, or its declaration cannot be used. The message is one line."""


@cache
def _packages() -> dict[str, str]:
    """Return the packages of protocols that other distributions declare, by name of the protocol."""
    packages: dict[str, str] = {}
    for each in entry_points(group=GROUP):
        name, package = each.name, each.value
        where = f"entry point {GROUP} of the installed package {each.dist.name if each.dist else '?'}"
        if name in BUILT_IN or name in SHARED or packages.get(name, package) != package:
            raise RegistryError(f"{where}: the protocol {name!r} of {package} has a name that is taken")
        if not name.isidentifier() or package.rpartition(".")[2] != name:
            raise RegistryError(f"{where}: {name} = {package!r}: the module's last part must be the protocol's name")
        packages[name] = package
    return packages


def names() -> tuple[str, ...]:
    """Return the names of all protocols, in alphabetical order.

    Examples
    --------
    >>> "gp" in names()
    True
    """
    return tuple(sorted((*BUILT_IN, *_packages())))


def exists(protocol: str) -> bool:
    """Return whether there is a protocol of this name.

    Examples
    --------
    >>> exists("gp"), exists("fedavg")
    (True, False)
    """
    return protocol in BUILT_IN or protocol in _packages()


def find(protocol: str) -> str:
    """Return the name of a protocol that exists.

    Raises
    ------
    RegistryError
        If there is none of this name; the message has the nearest names, or all.

    Examples
    --------
    >>> find("gp")
    'gp'
    """
    if not exists(protocol):
        raise RegistryError(f"there is no protocol {protocol!r}; {did_you_mean(protocol, names())}")
    return protocol


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
        If there is no such protocol, it has no such module, or the module of another package cannot be imported.

    Examples
    --------
    >>> room("gp", "payloads").__name__
    'protocols.gp.payloads'
    """
    path = _path(protocol, name)
    if not _has_module(path):
        raise RegistryError(f"the protocol {protocol!r} has no module {path}")
    try:
        return importlib.import_module(path)
    except Exception as error:
        if protocol in BUILT_IN or protocol in SHARED:
            raise
        raise _unimportable(path, error) from error


def has_room(protocol: str, name: str) -> bool:
    """Return whether a protocol has a module in this room, without importing it.

    Examples
    --------
    >>> has_room("gp", "handlers"), has_room("bc3e", "predict")
    (True, False)
    """
    return _has_module(_path(protocol, name))


def _path(protocol: str, name: str) -> str:
    if protocol in BUILT_IN:
        return _ROOMS[name].format(protocol)
    if protocol in SHARED:
        return {"payloads": f"protocols.{protocol}.payloads", "handlers": f"clients.{protocol}"}[name]
    return f"{_packages()[find(protocol)]}.{name}"


@cache
def _has_module(path: str) -> bool:
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError:
        return False
    except Exception as error:  # looking for a module runs code of its package
        raise _unimportable(path, error) from error


def _unimportable(path: str, error: Exception) -> RegistryError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return RegistryError(f"{path}, of a protocol in another package, cannot be imported ({reason}): mend or remove it")
