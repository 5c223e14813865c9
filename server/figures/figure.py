"""A figure of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from server.report.image import Image


@dataclass(frozen=True)
class Figure:
    """One figure: its image, and its texts.

    Attributes
    ----------
    name : str
        File name without ``.png``.
    image : Image
        PNG image, with SVG and data.
    caption : str
        Content of the figure, with units and sizes.
    alt : str
        The figure in numbers, for readers who cannot see it.
    shades : bool
        Whether light and dark have a meaning, so that a dark page must not invert them.
    """

    name: str
    image: Image
    caption: str
    alt: str
    shades: bool = False

    @property
    def texts(self) -> dict[str, Any]:
        """Name, caption, alternative text and whether shades have a meaning, as ``report.json`` keeps them."""
        shades = {"shades": True} if self.shades else {}
        return {"name": self.name, "caption": self.caption, "alt": self.alt, **shades}
