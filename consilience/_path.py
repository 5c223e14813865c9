"""The folder of the app's packages, which this module adds to the import path.

Their names are common ones: ``clients``, ``server``, ... In a checkout, and in the bundle that Flower makes of it, they
lie beside this package. A wheel has them in the folder ``_app`` of this package, to keep such names out of
site-packages. On import, ``consilience`` puts that folder first on the path, unless Python finds the packages already.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = ("clients", "common", "numerics", "protocols", "scenarios", "server", "strategies")
"""The app's packages besides this one."""

OWN_FOLDER = Path(__file__).resolve().parent
"""The folder of this package."""

_INSIDE = OWN_FOLDER / "_app"

APP_FOLDER = _INSIDE if _INSIDE.is_dir() else OWN_FOLDER.parent
"""The folder that holds the app's packages."""


class ForeignModuleError(ImportError):
    """Error: a foreign module was loaded under the name of one of consilience's packages."""


def make_importable() -> None:
    """Let Python find the app's packages before others of their names.

    Raises
    ------
    ForeignModuleError
        If a foreign module of such a name is loaded already.
    """
    for name in PACKAGES:
        if (loaded := sys.modules.get(name)) is not None and not _is_own(loaded):
            raise ForeignModuleError(
                f"the module {name!r} of {_place(loaded)} is loaded, and consilience has a package of that name: "
                f"rename it, or import consilience in another process"
            )
    if not all(map(_is_found, PACKAGES)):
        sys.path[:] = [str(APP_FOLDER), *(entry for entry in sys.path if entry != str(APP_FOLDER))]


def _is_own(module: ModuleType) -> bool:
    return _place(module).parent == APP_FOLDER / module.__name__


def _place(module: ModuleType) -> Path:
    return Path(getattr(module, "__file__", None) or "no file").resolve()


def _is_found(name: str) -> bool:
    """Whether an import of this name would find the app's package, without importing it."""
    spec = PathFinder.find_spec(name)
    return spec is not None and Path(spec.origin or "no file").resolve().parent == APP_FOLDER / name
