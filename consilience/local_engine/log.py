"""The log of a run in this process, line by line."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

logger = logging.getLogger("flwr")


class _Lines(logging.Handler):
    """Hands every line of a record to a function, with the level before it as in Flower's log."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        for place, line in enumerate(self.format(record).splitlines()):
            self._show(line if place else f"{record.levelname} : {line}")


@contextlib.contextmanager
def log_lines(show: Callable[[str], None]) -> Iterator[None]:
    """Hand the lines of the run's log to `show` only, until the block ends.

    Examples
    --------
    >>> lines = []
    >>> with log_lines(lines.append):
    ...     logger.warning("round 3: site-1: no answer")
    >>> lines
    ['WARNING : round 3: site-1: no answer']
    """
    handlers, propagate = logger.handlers[:], logger.propagate
    logger.handlers[:], logger.propagate = [_Lines(show)], False
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
