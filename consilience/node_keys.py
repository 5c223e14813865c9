"""Keys that a site sets in its node configuration only, with values of each key's type."""

from collections.abc import Mapping

from consilience.settings import Value

NODE_KEYS: Mapping[str, Mapping[str, Value]] = {
    "bc3e": {"allow-single-model": False},
    "coreset": {"min-weight": 0, "allow-prices": False},
    "gp": {
        "allow-gate-training": False,
        "allow-inputs": False,
        "allow-rows": False,
        "max-queries": 0,
    },
    "sec": {"candidates": "", "min-leaf": 0, "allow-row-models": False},
    "residual": {"agent": "", "min-leaf": 0, "sealed-only": False},
}
"""By protocol."""
OF_ALL_PROTOCOLS: Mapping[str, Value] = {"cache": True, "min-rows": 0}
