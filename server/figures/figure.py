"""A figure of a report."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    name: str
    image: Image
    caption: str
    alt: str

    @property
    def texts(self) -> dict[str, str]:
        """Name, caption and alternative text, as ``report.json`` keeps them."""
        return {"name": self.name, "caption": self.caption, "alt": self.alt}
