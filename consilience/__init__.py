"""Sites that may not share rows learn together: the command line of the Flower app."""

__version__ = "0.1.0"
