"""Versions of the software behind a result."""

from __future__ import annotations

import importlib.metadata
import platform
import tomllib
from functools import cache
from pathlib import Path

from server.report.protocol import report_of

__all__ = ["versions"]


def versions(protocol: str = "") -> dict[str, str]:
    """Return the versions of Python, consilience and the packages that a result of `protocol` may depend on.

    Packages that are not installed are left out. The last entry is the platform, such as ``Linux x86_64``.

    Examples
    --------
    >>> list(versions())
    ['python', 'consilience', 'flwr', 'numpy', 'scipy', 'scikit-learn', 'platform']
    """
    packages = ("flwr", "numpy", "scipy", "scikit-learn", *report_of(protocol).packages)
    return {
        "python": platform.python_version(),
        "consilience": _own_version(),
        **{name: version for name in packages if (version := _version(name))},
        "platform": f"{platform.system()} {platform.machine()}",
    }


@cache
def _version(package: str) -> str:
    """Return a package's version, empty if it is not installed; cached, because it parses the whole metadata."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


@cache
def _own_version() -> str:
    """Return the version of consilience: that of pyproject.toml, if Flower has unpacked the app, else as installed."""
    pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
    if pyproject.is_file():
        return str(tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"])
    return _version("consilience")
