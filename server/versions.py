"""Which software made a result."""

from __future__ import annotations

import importlib.metadata
import platform
import tomllib
from functools import cache
from pathlib import Path

__all__ = ["versions"]


def versions(protocol: str = "") -> dict[str, str]:
    """Version of Python, of consilience, of the packages that a result of `protocol` depends on, and the platform."""
    packages = ("flwr", "numpy", "scipy", "scikit-learn", *_PACKAGES.get(protocol, ()))
    return {
        "python": platform.python_version(),
        "consilience": _own_version(),
        **{name: _version(name) for name in packages},
        "platform": _platform(),
    }


_PACKAGES = {"coreset": ("ortools",), "gp": ("torch", "gpytorch")}
"""By protocol, what its results depend on beside what all do."""


@cache
def _platform() -> str:
    """System and machine, as ``Linux x86_64``: a kernel's build says more of the center than of the result."""
    return f"{platform.system()} {platform.machine()}"


@cache
def _version(package: str) -> str:
    """Kept: the package's whole description is read for it."""
    return importlib.metadata.version(package)


@cache
def _own_version() -> str:
    """Flower unpacks the app beside its pyproject.toml and does not install it, so that is asked first."""
    pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if pyproject.is_file():
        return str(tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"])
    return _version("consilience")
