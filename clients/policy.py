"""A site's own policy: which asks it answers, and how many.

It is a TOML file that the node configuration names (``policy="policy.toml"``); docs/privacy.md explains the keys. A
simulated site has an unlimited policy: scenario data are synthetic or public, and all files of a simulation on own data
lie on one machine.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from clients.commitments import Commitments
from clients.logged_fault import LoggedFault
from protocols.budget import DEFAULT, Limit
from protocols.registry import SHARED, names
from protocols.settings import SiteSettings
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Parcel
from protocols.wire.payload import Payload

logger = logging.getLogger("flwr")

FEWEST_ROWS = SiteSettings.min_rows
"""Rows that a site needs to take part, unless its policy or its node configuration says otherwise (``min-rows``)."""
_MEGABYTE = 10**6
_ROUNDS, _BYTES = "policy.rounds", "policy.bytes"


class PolicyError(ValueError):
    """Error: a policy cannot be used. The message is one line: file, key, and what to write."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Which asks a site answers. The names of the attributes are the file's keys, with hyphens.

    Attributes
    ----------
    protocols : tuple of str
        Protocols in which the site takes part.
    payloads : tuple of str
        Titles of the asks that it answers; ``*`` stands for any characters.
    min_rows : int
        Fewest rows behind a statistic; 0: each protocol's own default.
    new_rows : int
        Fewest rows by which a changed data file must differ from the file of the last answers; 0: as `min_rows`.
    max_bytes, max_rounds : int
        Bytes that may leave the site, and asks that it answers, in one run.
    secure_aggregation : bool
        Whether answers that are only summed must be masked.
    max_ask_mb : float
        Largest size of an ask, in megabytes (10^6 bytes).
    budget : Mapping
        By kind, the largest amounts about the site's data, a day and in all runs together (clients/budget.py).

    Examples
    --------
    >>> policy = Policy(max_rounds=100, min_rows=20)
    >>> policy.at_least(5), policy.private_floor(30), policy.private_limit(1000)
    (20, 30, 1000)
    >>> simulated = Policy.unlimited()
    >>> simulated.trusts_center, simulated.private_floor(30), simulated.private_limit(1000) > 10**9
    (True, 1, True)
    >>> public = Policy(max_rounds=100).for_public_rows()
    >>> public.max_rounds, public.trusts_center
    (100, True)
    """

    protocols: tuple[str, ...] = field(default_factory=names)
    payloads: tuple[str, ...] = ("*",)
    min_rows: int = 0
    new_rows: int = 0
    max_bytes: int = 10**10
    max_rounds: int = 10_000
    secure_aggregation: bool = False
    max_ask_mb: float = 1000.0
    budget: Mapping[str, Limit] = field(default_factory=lambda: DEFAULT)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the policy in a file.

        Raises
        ------
        PolicyError
            If the file is missing or is not TOML, if any user may change it, or if a key is unknown or has an
            impossible value.
        """
        import difflib  # these two are for sites that have a policy: in deployment every ask is a process of its own
        import tomllib

        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            open_to_all = os.name == "posix" and path.stat().st_mode & stat.S_IWOTH
        except OSError as error:
            raise PolicyError(f"policy {path}: cannot be read ({error.strerror})") from None
        except ValueError as error:  # bad TOML, or no UTF-8
            raise PolicyError(f"policy {path}: is not TOML: {error}") from None
        if open_to_all:
            raise PolicyError(f"policy {path}: any user of this machine may change it; type: chmod o-w {path}")
        known = {each.name.replace("_", "-"): each.name for each in fields(cls)}
        values: dict[str, Any] = {}
        for key, value in content.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
                raise PolicyError(f"policy {path}: unknown key {key!r}; {hint}")
            try:
                values[known[key]] = _KINDS[key](value)
            except ValueError as problem:
                raise PolicyError(f"policy {path}: {key} {problem}, not {value!r}") from None
        return cls(**values)

    @staticmethod
    def unlimited() -> Policy:
        """Return the policy of a simulated site, which allows everything."""
        return _UNLIMITED

    def for_public_rows(self) -> Policy:
        """Return this policy for rows that need no protection: those of a scenario."""
        return _PublicPolicy(**{**vars(self), "min_rows": 1})

    def admit(self, parcels: Iterable[Parcel]) -> None:
        """Check asks against this policy.

        Raises
        ------
        SiteFault
            For the first ask that breaks a rule.
        """
        for parcel in parcels:
            self.admit_ask(type(parcel.payload))

    def admit_ask(self, ask: type[Payload], *, masked: bool = False) -> None:
        """Check one kind of ask; `masked`: only the sum of its answers over sites can be read."""
        fault = self.refusal(ask, masked=masked)
        if fault is not None:
            raise SiteFault(fault, f"policy: {ask.title()} is not answered [{fault.slug}]")

    def refusal(self, ask: type[Payload], *, masked: bool = False) -> Fault | None:
        """Return the fault with which an ask is refused; None if it is answered."""
        title = ask.title()
        protocol = title.partition(".")[0]
        if protocol in SHARED:  # keys and masks, which reveal nothing of rows; the asks that they wrap are checked
            return None
        if protocol not in self.protocols:
            return Fault.PROTOCOL_NOT_ALLOWED
        if not any(fnmatchcase(title, pattern) for pattern in self.payloads):
            return Fault.PAYLOAD_NOT_ALLOWED
        if self.secure_aggregation and not masked and ask.answer is not None and ask.answer.summed:
            return Fault.UNMASKED
        return None

    def admit_size(self, size: int) -> None:
        """Refuse an ask that is larger than `max_ask_mb`."""
        if size > self.max_ask_mb * _MEGABYTE:
            raise SiteFault(Fault.ASK_TOO_LARGE, f"policy: an ask of {size} bytes, max-ask-mb is {self.max_ask_mb:g}")

    def at_least(self, n_rows: int) -> int:
        """Raise a floor of rows to this policy's."""
        return max(n_rows, self.min_rows)

    @property
    def trusts_center(self) -> bool:
        """Whether the rows need no protection from the fusion center: one user has both, or the rows are public."""
        return False

    def private_floor(self, n_rows: int) -> int:
        """Raise a floor that protects single rows to this policy's; 1 if the site trusts the center."""
        return self.at_least(n_rows)

    def private_limit(self, most: int) -> int:
        """Return a limit that protects single rows; unlimited if the site trusts the center."""
        return most

    @property
    def fewest_new_rows(self) -> int:
        """Fewest rows by which a changed data file must differ from the file of the last answers."""
        return self.new_rows or self.at_least(FEWEST_ROWS)

    def to_take_part(self, min_rows: int) -> int:
        """Return the fewest rows with which the site takes part; `min_rows` is the node configuration's number."""
        return self.min_rows or min(FEWEST_ROWS, min_rows)

    def count_ask(self, commitments: Commitments, earlier: int = 0) -> None:
        """Count an ask of the run; refuse it if there are too many, or if it replays too many `earlier` rounds."""
        if commitments.count(_ROUNDS, 1) > self.max_rounds or earlier > self.max_rounds:
            raise SiteFault(Fault.TOO_MANY_ROUNDS, f"policy: max-rounds is {self.max_rounds}")

    def count_bytes(self, size: int, commitments: Commitments) -> None:
        """Count an answer's bytes; refuse it if too many bytes would leave in this run."""
        if commitments.count(_BYTES, 0) + size > self.max_bytes:
            raise SiteFault(Fault.TOO_MANY_BYTES, f"policy: an answer of {size} bytes, max-bytes is {self.max_bytes}")
        commitments.count(_BYTES, size)


class _PublicPolicy(Policy):
    @property
    def trusts_center(self) -> bool:
        return True

    def private_floor(self, n_rows: int) -> int:
        return 1

    def private_limit(self, most: int) -> int:
        return _UNBOUNDED


_UNBOUNDED = 2**62
_UNLIMITED = _PublicPolicy(min_rows=1, max_bytes=_UNBOUNDED, max_rounds=_UNBOUNDED, max_ask_mb=float("inf"))


def policy_of(node_config: Mapping[str, Any], *, simulated: bool) -> Policy:
    """Return the policy in the site's own file; without a file, the default or a simulated site's unlimited policy.

    Raises
    ------
    SiteFault
        If the file cannot be used; the reason goes to the site's own log.

    Examples
    --------
    >>> policy_of({}, simulated=False) == Policy(), policy_of({}, simulated=True).trusts_center
    (True, True)
    """
    path = node_config.get("policy", "")
    try:
        if not isinstance(path, str):
            raise PolicyError(f"configuration: policy must be the path of a file, not {path!r}")
        if path:
            policy = Policy.read(Path(path).expanduser())
            if policy.budget != DEFAULT and not (simulated or node_config.get("site-output-dir")):
                raise PolicyError(f"policy {path}: [budget] is counted in site-output-dir, which is not set")
            return policy
    except PolicyError as error:
        raise LoggedFault(Fault.BAD_CONFIGURATION, str(error)) from error
    return Policy.unlimited() if simulated else Policy()


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f'must be a list of texts, such as ["{names()[0]}"]')
    return tuple(value)


def _protocols(value: Any) -> tuple[str, ...]:
    for name in _names(value):
        if name not in names():
            raise ValueError(f"must name protocols ({', '.join(names())})")
    return tuple(value)


def _patterns(value: Any) -> tuple[str, ...]:
    for pattern in _names(value):
        if not any(fnmatchcase(name, pattern.partition(".")[0]) for name in names()):
            raise ValueError(f'must hold titles of asks, such as "{names()[0]}.*" ({", ".join(names())})')
    return tuple(value)


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value < 2**62:
        raise ValueError("must be a whole number, 1 or greater")
    return value


def _size(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise ValueError("must be a number greater than 0")
    return float(value)


def _choice(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


def _limits(value: Any) -> dict[str, Limit]:
    example = f"{next(iter(DEFAULT))} = {{ day = 10, all = 100 }}"
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise ValueError(f"must be a table of lines such as {example}")
    limits = dict(DEFAULT)
    for kind, each in value.items():
        if kind not in DEFAULT or each.keys() - set(Limit._fields):
            raise ValueError(f"must have lines such as {example}, of {', '.join(DEFAULT)}")
        if not all(type(most) is int and 0 <= most < 2**62 for most in each.values()):
            raise ValueError(f"must have whole numbers, 0 or greater, for {kind}")
        limits[kind] = Limit(**{**DEFAULT[kind]._asdict(), **each})
    return limits


_KINDS = {
    "protocols": _protocols,
    "payloads": _patterns,
    "min-rows": _whole,
    "new-rows": _whole,
    "max-bytes": _whole,
    "max-rounds": _whole,
    "secure-aggregation": _choice,
    "max-ask-mb": _size,
    "budget": _limits,
}


def check_lines(policy: Policy, asks: Sequence[type[Payload]], n_rows: int | None, min_rows: int = 0) -> list[str]:
    """Return the lines of `consilience check` about the asks of a protocol that a policy refuses.

    Parameters
    ----------
    policy : Policy
        The site's own.
    asks : Sequence of type[Payload]
        All asks of the protocol.
    n_rows : int or None
        Rows of the site's data; None: they are read in blocks, and the protocol has a floor of its own.
    min_rows : int
        ``min-rows`` of the node configuration; 0: not set.

    Examples
    --------
    >>> check_lines(Policy(), [], n_rows=3)[1]
    '  every ask: there are 3 rows, and min-rows is 5'
    """
    lines = []
    least = policy.to_take_part(min_rows or FEWEST_ROWS)
    if n_rows is not None and n_rows < least:
        lines.append(f"  every ask: there are {n_rows} rows, and min-rows is {least}")
    for ask in sorted(asks, key=lambda each: each.title()):
        fault = policy.refusal(ask)
        if fault is not None:
            lines.append(f"  {ask.title()}: {fault.message} [{fault.slug}]")
    megabytes = f"{policy.max_ask_mb:g} MB"
    return [
        "What your policy refuses",
        *(lines or ["  nothing that this protocol asks, but"]),
        f"  after {policy.max_rounds} asks or {policy.max_bytes} bytes in a run: every further one",
        f"  an ask of more than {megabytes}",
        *([f"  any statistic of fewer than {policy.min_rows} rows"] if policy.min_rows else []),
    ]
