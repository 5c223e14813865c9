"""The end of a run, by any engine."""

from dataclasses import dataclass

from consilience.run_log import Transcript

COMPLETED, FAILED = "finished:completed", "finished:failed"
"""Flower's words for the two ends of a run."""


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes
    ----------
    transcript : Transcript
        Content of its log.
    status : str
        Flower's status, ``finished:completed`` after success; empty if no run was started.
    details : str
        The reason for another status, or the last line of ``flwr run`` if no run was started.

    Examples
    --------
    >>> Outcome(Transcript("7"), FAILED).completed
    False
    """

    transcript: Transcript
    status: str = ""
    details: str = ""

    @property
    def completed(self) -> bool:
        """Whether the run came to its end."""
        return self.status == COMPLETED
