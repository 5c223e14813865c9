"""Errors of the Python interface: one exception with one sentence, without the calls inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from clients.data import DataError
from common.settings import ConfigError, SettingError

P = ParamSpec("P")
T = TypeVar("T")


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function raise errors that the user can correct without their inner calls and causes.

    Examples
    --------
    >>> @plain_errors
    ... def read(name: str) -> str:
    ...     try:
    ...         return {}[name]
    ...     except KeyError:
    ...         raise SettingError(f"there is no {name}")
    >>> try:
    ...     read("key")
    ... except ConfigError as error:
    ...     print(error, error.__context__)
    there is no key None
    """

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*args, **keywords)
        except Exception as error:
            plain = _plain(error)
            if plain is None:
                raise
        raise plain

    return call


def _plain(error: Exception) -> Exception | None:
    """Return the error to show; None if the user cannot correct it."""
    from consilience.flower_programs import LaunchError
    from consilience.predict.interface import RequestError
    from server.app import REFUSALS
    from strategies.errors import FusionError

    if isinstance(error, LaunchError):
        return FusionError(str(error))
    of_settings = isinstance(error, DataError) and error.code == "bad-configuration"
    if (
        of_settings
        or isinstance(error, RequestError)
        or (isinstance(error, SettingError) and not isinstance(error, ConfigError))
    ):
        return ConfigError(str(error))
    if not isinstance(error, (ConfigError, *REFUSALS)):
        return None
    if not isinstance(error, DataError):  # whose cause is an error in the user's own function
        error.__cause__ = None
    error.__context__ = error.__cause__
    return error.with_traceback(None)
