"""A fault whose detail stands in the site's own log, beside the line that says what the fusion center gets."""

from __future__ import annotations

import logging

from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")


class LoggedFault(SiteFault):
    """A fault whose detail is one line for the site's operator: it is logged at once.

    Parameters
    ----------
    fault : Fault
        The code, which travels.
    detail : str
        What is wrong, and where; stays at the site.

    Examples
    --------
    >>> LoggedFault(Fault.NO_DATA_FILE, "ward.csv: there is no such file").fault.slug
    'no-data-file'
    """

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(fault, detail)
        logger.error("%s", detail)
