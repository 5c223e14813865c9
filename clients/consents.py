"""A site's consents: keys of its own configuration that no run can override."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clients.policy import Policy
from protocols.settings import site_keys
from protocols.wire.faults import Fault, SiteFault

_FLOORS = ("min-combination", "min-leaf", "min-rows", "min-weight")
"""Keys of numbers of rows, which a site's policy may raise."""


def with_floors(config: Mapping[str, Any], policy: Policy, protocol: str) -> dict[str, Any]:
    """Return a site's configuration with its numbers of rows as its policy raises them.

    Parameters
    ----------
    config : Mapping
        The run configuration overridden by the site's own.
    policy : Policy
        The site's.
    protocol : str
        Protocol that the site is asked in.

    Examples
    --------
    >>> from protocols.registry import names
    >>> [with_floors({"min-rows": least}, Policy(min_rows=20), names()[0])["min-rows"] for least in (5, 30)]
    [20, 30]
    """
    keys = site_keys(protocol)
    return {**config, **{key: policy.at_least(config.get(key, keys[key].default)) for key in _FLOORS if key in keys}}


class Consents:
    """A site's consents. A simulated site consents to everything, unless a key of the run decides.

    Parameters
    ----------
    config : Mapping
        The run configuration overridden by the site's own.
    policy : Policy
        The site's policy.
    rows_that_hold : Callable or None
        Turns a number of persons into rows (`clients.site.Site.rows_that_hold`); None: every row is a person.

    Examples
    --------
    >>> consents = Consents({"allow-rows": True}, Policy(min_rows=20))
    >>> consents.allows("allow-rows"), consents.allows("allow-inputs"), consents.number("min-leaf", 5)
    (True, False, 20)
    >>> Consents({}, Policy.unlimited()).allows("allow-inputs")
    True
    """

    def __init__(
        self, config: Mapping[str, Any], policy: Policy, rows_that_hold: Callable[[int], int] | None = None
    ) -> None:
        self._config, self._policy = config, policy
        self._rows_that_hold = rows_that_hold or policy.at_least

    def allows(self, key: str, run_key: str = "") -> bool:
        """Return whether the site gives the consent of this key.

        Parameters
        ----------
        key : str
            Key of the site's own configuration.
        run_key : str
            Key of the run configuration that decides for a simulated site; empty: a simulated site consents.

        Raises
        ------
        SiteFault
            If the value is neither true nor false: a text such as "false" must not count as consent.
        """
        if self._policy.trusts_center:
            return not run_key or self._flag(run_key)
        return self._flag(key)

    def _flag(self, key: str) -> bool:
        value = self._config.get(key, False)
        if type(value) is not bool:
            raise SiteFault(Fault.BAD_CONFIGURATION, f"configuration: {key} must be true or false, not {value!r}")
        return value

    def number(self, key: str, default: int) -> int:
        """Return the whole number under `key`, 1 or greater; a number of rows is raised to the policy's `min-rows`.

        Parameters
        ----------
        key : str
            Key of the site's own configuration.
        default : int
            The number if the site sets none. For a number of rows, the default of a simulated site is 1.

        Raises
        ------
        SiteFault
            If the value is not such a number.
        """
        floor = key in _FLOORS
        value = self._config.get(key, self._policy.private_floor(default) if floor else default)
        if type(value) is not int or value < 1:
            raise SiteFault(
                Fault.BAD_CONFIGURATION, f"configuration: {key} must be a whole number, 1 or greater, not {value!r}"
            )
        return self._rows_that_hold(value) if floor else value
