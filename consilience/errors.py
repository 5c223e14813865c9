"""Errors as Python shows them: one exception with one sentence, whatever led to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from clients.data import DataError
from common.settings import ConfigError, SettingError


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what the user can correct as it is, without the errors that led to it."""
    from consilience.flower_programs import LaunchError
    from consilience.predict.interface import RequestError
    from server.app import REFUSALS
    from strategies.errors import FusionError

    try:
        yield
    except LaunchError as error:
        raise FusionError(str(error)) from None
    except RequestError as error:
        raise ConfigError(str(error)) from None
    except SettingError as error:
        if isinstance(error, ConfigError):
            raise error.with_traceback(None) from None
        raise ConfigError(str(error)) from None
    except REFUSALS as error:
        cause = error.__cause__ if isinstance(error, DataError) else None  # an error in the user's own function
        raise error.with_traceback(None) from cause
