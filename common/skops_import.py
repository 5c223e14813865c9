"""Import of skops, which writes and reads models of scikit-learn, without importing PyTorch.

skops lists the estimators of scikit-learn when it is imported. To find them, scikit-learn imports all of its packages.
One of these has no estimator and imports PyTorch wherever it is installed, which takes two seconds.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_IMPORTS_TORCH = "sklearn.externals.array_api_compat.torch"


def skops_io() -> ModuleType:
    """Return the module ``skops.io``.

    Examples
    --------
    >>> skops_io().__name__
    'skops.io'
    """
    if "skops.io" not in sys.modules and _IMPORTS_TORCH not in sys.modules:
        sys.modules[_IMPORTS_TORCH] = None  # type: ignore[assignment]  # Python's word for: cannot be imported
    try:
        return importlib.import_module("skops.io")
    finally:
        if sys.modules.get(_IMPORTS_TORCH, importlib) is None:
            sys.modules.pop(_IMPORTS_TORCH, None)
