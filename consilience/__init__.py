"""Sites that may not share rows learn together: the command line of the Flower app."""

from consilience._path import make_importable

__version__ = "0.1.0"

make_importable()
