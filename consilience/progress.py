"""The log of a run on the terminal: passed through, folded into one moving line, or kept for the case of failure."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from consilience.run_log import message, round_of, without_color

Show = Callable[[str], None]


@contextlib.contextmanager
def follow(console: Console, waiting: str) -> Iterator[Show]:
    """Print lines to the console; at a terminal, the rounds become one line with round, measure and time elapsed.

    Parameters
    ----------
    console : Console
        The console.
    waiting : str
        Text of that line before the first round.
    """
    if not console.is_terminal:
        # Each line at once, so that the reader of a pipe sees the rounds as they happen.
        yield lambda line: print(message(line), file=console.file, flush=True)
        return
    with moving_line(console, waiting) as move:

        def show(line: str) -> None:
            if not move(line):
                console.print(Text.from_ansi(line), soft_wrap=True)

        yield show


@contextlib.contextmanager
def moving_line(console: Console, waiting: str, *, transient: bool = False) -> Iterator[Callable[[str], bool]]:
    """Show one line with round, measure and time elapsed.

    The yielded function takes a line of the log, and returns whether it was a round's.

    Parameters
    ----------
    console : Console
        A terminal.
    waiting : str
        Text of the line before the first round.
    transient : bool
        Whether the line disappears at the end.
    """
    words = (TextColumn("{task.description}", markup=False), TextColumn("{task.fields[measure]}", markup=False))
    with Progress(SpinnerColumn(), *words, TimeElapsedColumn(), console=console, transient=transient) as progress:
        task = progress.add_task(waiting, total=None, measure="")

        def move(line: str) -> bool:
            current = round_of(line)
            if current:
                progress.update(task, description=f"round {current[0]}", measure=current[1])
            return bool(current)

        yield move


@contextlib.contextmanager
def keep(lines: deque[str]) -> Iterator[Show]:
    """Append lines to `lines` only, without colors."""
    yield lambda line: lines.append(without_color(line))
