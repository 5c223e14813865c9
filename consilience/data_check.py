"""What of a site's rows would be used in a run, and what would leave the site."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clients.data.in_memory import hold
from consilience.python_data import table_of_rows
from protocols import registry


@dataclass(frozen=True)
class DataCheck:
    """What a site should know before it joins a run.

    Attributes
    ----------
    protocol : str
        The protocol for which the rows were checked.
    lines : tuple of str
        What would be used, what would leave the site, and what never would.

    Examples
    --------
    >>> print(DataCheck("mean", ("rows: 3", "", "What would leave this site", "  the mean")).text)
    rows: 3
    <BLANKLINE>
    What would leave this site
      the mean
    """

    protocol: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, rows: Any, protocol: str, config: Mapping[str, Any]) -> DataCheck:
        """Check rows for a protocol with a configuration; raises as the protocol's ``check_lines``."""
        kept = None
        data = str(rows)
        if not hasattr(rows, "__fspath__") and not isinstance(rows, str):
            kept = hold({"data": table_of_rows("data", rows)})
            data = kept.reference
        return cls(protocol, tuple(registry.room(protocol, "check").check_lines({**config, "data": data})))

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre-wrap">{html.escape(self.text)}</pre>'
