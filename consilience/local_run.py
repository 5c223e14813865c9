"""A run by the local engine for the command: its log shown, its end as an `Outcome`."""

import logging
from collections.abc import Callable

from consilience.flower_programs import LaunchError
from consilience.outcome import COMPLETED, FAILED, Outcome
from consilience.processes import Interruption, OverdueError, limit_time
from consilience.run_log import Transcript
from consilience.run_request import RunRequest

logger = logging.getLogger("flwr")


def run(request: RunRequest, workers: int | None, show: Callable[[str], None]) -> Outcome:
    """Run in this process, and hand every line of the log to `show`.

    Parameters
    ----------
    request : RunRequest
        The run.
    workers : int or None
        Number of processes that share the sites; None: they are in this one.
    show : Callable
        Takes a line.

    Raises
    ------
    Interrupted
        On SIGINT or SIGTERM (inside `interruptible`).
    LaunchError
        If the run took longer than the request allows.
    """
    # Imported here: they load what a mistyped command need not wait for.
    from consilience.local_engine import engine
    from consilience.local_engine.log import log_lines
    from server.app import REFUSALS

    transcript = Transcript(str(run_id := engine.new_run_id()))
    with log_lines(show):
        try:
            with limit_time(request.seconds):
                transcript.results = engine.run(
                    request.settings, request.sites, run_id=run_id, workers=workers, plan=request.plan
                )
        except REFUSALS as error:
            transcript.refused = str(error)
            return Outcome(transcript, FAILED)
        except Interruption as interrupt:
            interrupt.run_id = transcript.run_id
            raise
        except OverdueError:
            raise LaunchError(f"the run took longer than {request.seconds:g} s and was stopped") from None
        except Exception as error:
            logger.exception("the run failed")
            return Outcome(transcript, FAILED, f"{type(error).__name__}: {error}")
    return Outcome(transcript, COMPLETED)
