"""Model store: what a site has learned in a run, in ``models/`` of its own directory, to predict with later."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from clients.site import Site
from protocols.wire.faults import Fault, SiteFault, usable_name

T = TypeVar("T")

FOLDER = "models"


class ModelFileError(ValueError):
    """Error: a model cannot be written, or a file holds no model. The message says why."""


def model_file(name: str, ending: str) -> str:
    """Return the path of a model in the site's directory: ``models/NAME.ENDING``.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK``: the fusion center's name for the model leads to another folder.

    Examples
    --------
    >>> model_file("run-1", "npz")
    'models/run-1.npz'
    """
    if not usable_name(name):
        raise SiteFault(Fault.MALFORMED_ASK, f"{name!r} is no name of a run")
    return f"{FOLDER}/{name}.{ending}"


def save_model(site: Site, name: str, ending: str, write: Callable[[Path], object]) -> None:
    """Write a model of this run; nothing if the site has no directory.

    Parameters
    ----------
    site : Site
        The site.
    name : str
        Name of the run, or of the model's part of it.
    ending : str
        Ending of the file.
    write : Callable
        Writes the model to a path.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK`` as `model_file`; ``HANDLER_FAILED``: the model cannot be written as such a file;
        ``OUTPUT_NOT_WRITTEN``.
    """
    if site.directory is None:
        return
    try:
        site.write(model_file(name, ending), write)
    except ModelFileError as error:
        raise SiteFault(Fault.HANDLER_FAILED, str(error)) from error


def load_model(site: Site, name: str, ending: str, read: Callable[[Path], T]) -> T:
    """Return a model that the site saved in an earlier run.

    Parameters
    ----------
    site, name, ending
        As in `save_model`.
    read : Callable
        Reads the model from a path; raises a `ValueError` if the file holds no model.

    Raises
    ------
    SiteFault
        ``NO_SAVED_MODEL``: there is no such file, or it holds no model; ``MALFORMED_ASK`` as `model_file`.
    """
    if site.earlier_directory is None:
        raise SiteFault(
            Fault.NO_SAVED_MODEL, "site-output-dir is not set, or the run is about a scenario, so there is no model"
        )
    path = site.earlier_directory / site.of_repetition(model_file(name, ending))
    try:
        return read(path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: {getattr(error, 'strerror', None) or error}") from error
