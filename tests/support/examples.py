"""How many examples a property is tested with: few by default, all with ``--hypothesis-profile slow``."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

SLOW = "slow"
"""The profile of ``make test-all``."""

QUICK = "quick"
"""The profile of every other run of the tests."""

SHARE = 6
"""The quick profile tests one example in so many."""

FEWEST = 5
"""Examples that the quick profile tests at least, if a test has as many."""


def register_profiles() -> None:
    """Make both profiles known to hypothesis, and the quick one the default."""
    # How long an example takes, or is drawn, says how busy the machine is.
    settings.register_profile(SLOW, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile(QUICK, settings.get_profile(SLOW), max_examples=_quick(100))
    settings.load_profile(QUICK)


def examples(number: int, **more: Any) -> settings:
    """Return the settings of a test with this number of examples, or a share of it in the quick profile."""
    slow = settings.get_current_profile_name() == SLOW
    return settings(max_examples=number if slow else _quick(number), **more)


def _quick(number: int) -> int:
    return max(number // SHARE, min(number, FEWEST))
