"""What an agent keeps of a run in its own directory: its model and the columns that this takes, to predict with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from clients.site import Site, model_file
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_TRUSTED = ("sklearn.", "numpy.", "scipy.")
"""Packages of which a kept file may hold any type; it never holds a pickle."""


class ModelFileError(ValueError):
    """Bytes that hold no model that an agent has kept."""


@dataclass(frozen=True)
class Kept:
    """An agent's part in the prediction.

    Attributes
    ----------
    features : tuple of str
        As in `Columns`, of the columns that the models take.
    categories : Mapping[str, tuple of str]
        As in `Columns`.
    parts : tuple of (float, estimator)
        Coefficient and model of every part; none: the agent has no part in the prediction.
    reader : str
        The site that may read the predictions, sealed for it; empty: the fusion center may.
    """

    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    parts: tuple[tuple[float, BaseEstimator], ...]
    reader: str = ""

    def predict(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        """Sum over the parts of coefficient times prediction.

        Parameters
        ----------
        x : ndarray
            ``(n, p)`` rows with the columns `features`.

        Raises
        ------
        AgentError
            If a model cannot predict these rows.
        """
        from clients.residual.agents import predict

        total = np.zeros(len(x))
        for coefficient, model in self.parts:
            total += coefficient * predict(model, x)
        return total


def dump(model: Any) -> bytes:
    """A fitted estimator as a skops file, or what is made of such and of plain values.

    Raises
    ------
    ModelFileError
        If skops cannot write it.
    """
    import skops.io  # here and below: it takes half a second, and most asks need no file

    try:
        return bytes(skops.io.dumps(model))
    except (TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"a {type(model).__name__} cannot be written as a skops file: {error}") from error


def restore(data: bytes) -> Any:
    """What `dump` has written: it predicts bit for bit as it did.

    Raises
    ------
    ModelFileError
        If this is no skops file of this scikit-learn, or holds a type that is not of scikit-learn, NumPy or SciPy.
    """
    import skops.io

    try:
        types = skops.io.get_untrusted_types(data=data)
        foreign = [each for each in types if not each.startswith(_TRUSTED)]
        if not foreign:
            return skops.io.loads(data, trusted=types)
    except Exception as error:  # whatever reading a damaged file raises
        raise ModelFileError(f"is no skops file that can be read here: {type(error).__name__}") from error
    raise ModelFileError(f"holds {foreign[0]}, which is not of scikit-learn, NumPy or SciPy")


def keep(site: Site, run: str, kept: Kept) -> None:
    """Write ``models/RUN.skops`` in the site's own directory, with everything that predicting takes.

    Parameters
    ----------
    site : Site
        Whose model it is; nothing is written where it has set no directory.
    run : str
        Of which run.
    kept : Kept
        The agent's part in the prediction.

    Raises
    ------
    SiteFault
        As `keep_file`.
    """
    content = {
        "features": list(kept.features),
        "categories": {name: list(values) for name, values in kept.categories.items()},
        "coefficients": [float(coefficient) for coefficient, _ in kept.parts],
        "models": [model for _, model in kept.parts],
        "reader": kept.reader,
    }
    keep_file(site, run, content)


def recall(site: Site, run: str) -> Kept:
    """What the site has kept of a run.

    Raises
    ------
    SiteFault
        As `recall_file`; ``NO_SAVED_MODEL`` too where the file holds something else.
    """
    content = recall_file(site, run)
    try:
        parts = zip(content["coefficients"], content["models"], strict=True)
        return Kept(
            features=tuple(content["features"]),
            categories={name: tuple(values) for name, values in content["categories"].items()},
            parts=tuple((float(coefficient), model) for coefficient, model in parts),
            reader=str(content["reader"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{model_file(run, 'skops')}: holds no model of an agent") from error


def keep_file(site: Site, name: str, content: Mapping[str, Any]) -> None:
    """Write ``models/NAME.skops`` in the site's own directory; nothing where it has set none.

    Parameters
    ----------
    site : Site
        Whose file it is.
    name : str
        What it is of.
    content : Mapping
        Estimators, arrays, and lists and mappings of these and of plain values.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK``: the name could lead elsewhere. ``OUTPUT_NOT_WRITTEN``; ``HANDLER_FAILED``: skops cannot write
        a model.
    """
    if site.directory is None:
        return
    path = model_file(name, "skops")
    try:
        data = dump(dict(content))
    except ModelFileError as error:
        raise SiteFault(Fault.HANDLER_FAILED, str(error)) from error
    site.write(path, partial(Path.write_bytes, data=data))


def recall_file(site: Site, name: str) -> dict[str, Any]:
    """What `keep_file` has written.

    Parameters
    ----------
    site : Site
        In a simulation its files lie in the results directory that `from` names, else in its own.
    name : str
        What it is of.

    Raises
    ------
    SiteFault
        ``NO_SAVED_MODEL``: there is no such file, or it cannot be read. ``MALFORMED_ASK`` as `keep_file`.
    """
    path = site.earlier_files("from") / site.of_repetition(model_file(name, "skops"))
    try:
        content = restore(path.read_bytes())
    except OSError as error:
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: {error.strerror or error}") from error
    except ModelFileError as error:
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: holds a {type(content).__name__}")
    return content
