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
    """A model that cannot be written, or a file that holds no model; the message says why."""


def model_file(name: str, ending: str) -> str:
    """Return the path of a model in the site's directory: ``models/NAME.ENDING``.

    Raises
    ------
    SiteFault
        ``MALFORMED_ASK``: the fusion center chooses the name, which must not lead to another folder.

    Examples
    --------
    >>> model_file("run-1", "npz")
    'models/run-1.npz'
    """
    if not usable_name(name):
        raise SiteFault(Fault.MALFORMED_ASK, f"{name!r} is no name of a run")
    return f"{FOLDER}/{name}.{ending}"


def save_model(site: Site, name: str, ending: str, write: Callable[[Path], object]) -> None:
    """Write a model; nothing where the site has set no directory.

    Parameters
    ----------
    site : Site
        Whose model it is.
    name : str
        Of the run, or of the part of it that the model belongs to.
    ending : str
        Of the file.
    write : Callable
        Writes the model to the path that it is given.

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
    """Return what a site has saved in an earlier run: in a simulation of the run that ``from`` names.

    Parameters
    ----------
    site, name, ending
        As in `save_model`.
    read : Callable
        Reads the model from a path; raises a `ValueError` if the file holds something else.

    Raises
    ------
    SiteFault
        ``NO_SAVED_MODEL``: there is no such file, or it holds something else; ``MALFORMED_ASK`` as `model_file`.
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
