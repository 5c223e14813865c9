"""Where the app's packages lie, and that Python finds them there.

They have names that anybody may use: ``clients``, ``server``, ... In a checkout, and in the bundle that Flower makes of
it, they lie beside this package. A wheel has them in the folder ``_app`` of this package, so that site-packages get no
such name. That folder comes to the front of the path when ``consilience`` is imported, unless they are found already.
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
    """A module that is no part of consilience was loaded under the name of one of its packages."""


def make_importable() -> None:
    """Let Python find the app's packages, before others of their names.

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
    """Whether an import of this name would find the app's package; nothing is imported."""
    spec = PathFinder.find_spec(name)
    return spec is not None and Path(spec.origin or "no file").resolve().parent == APP_FOLDER / name
