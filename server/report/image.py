"""The image of a figure, in the forms in which it is kept."""

from __future__ import annotations


class Image(bytes):
    """A PNG image with the same drawing as SVG, and its data as CSV.

    Attributes
    ----------
    svg : bytes
        SVG document, sharp in every size; empty without one.
    data : str
        CSV text with the columns ``panel, kind, series, x, y, value``; empty without numbers.

    Examples
    --------
    >>> Image(b"png", b"<svg/>").svg
    b'<svg/>'
    """

    svg: bytes
    data: str

    def __new__(cls, png: bytes, svg: bytes = b"", data: str = "") -> Image:
        """Return the image; `png` are its bytes."""
        image = super().__new__(cls, png)
        image.svg, image.data = svg, data
        return image


def svg_of(image: bytes) -> bytes:
    """Return the SVG document of an image; empty if there is only a PNG image.

    Examples
    --------
    >>> svg_of(b"png")
    b''
    """
    return image.svg if isinstance(image, Image) else b""
