"""The log of a run on the terminal: passed through, folded into one moving line, or kept for the case of failure."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from consilience.run_log import message, round_of, without_colour

Show = Callable[[str], None]


@contextlib.contextmanager
def followed(console: Console, waiting: str) -> Iterator[Show]:
    """Print lines to the console; at a terminal the rounds become one line with round, measure and time elapsed.

    Parameters
    ----------
    console : Console
        Where to print.
    waiting : str
        What that line says before the first round.
    """
    if not console.is_terminal:
        # Each line at once, so that the reader of a pipe sees the rounds as they happen.
        yield lambda line: print(message(line), file=console.file, flush=True)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[measure]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(waiting, total=None, measure="")

        def show(line: str) -> None:
            if current := round_of(line):
                progress.update(task, description=f"round {current[0]}", measure=current[1])
            else:
                console.print(Text.from_ansi(line), soft_wrap=True)

        yield show


@contextlib.contextmanager
def kept(lines: deque[str]) -> Iterator[Show]:
    """Append lines to `lines` only, without colours."""
    yield lambda line: lines.append(without_colour(line))
