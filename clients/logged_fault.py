"""A fault with a detail for the site's own log."""

from __future__ import annotations

import logging

from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")


class LoggedFault(SiteFault):
    """A fault with a line for the site's operator, which is logged at once.

    Parameters
    ----------
    fault : Fault
        The code, which travels to the fusion center.
    detail : str
        The line: what is wrong, and where. It stays at the site.

    Examples
    --------
    >>> LoggedFault(Fault.NO_DATA_FILE, "ward.csv: there is no such file").fault.slug
    'no-data-file'
    """

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(fault, detail)
        logger.error("%s", detail)
