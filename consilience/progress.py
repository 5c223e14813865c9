"""Shows a run's log: passed through, folded into one moving line at a terminal, or kept for the case of failure."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from consilience.flower_run import message, round_of

Show = Callable[[str], None]


@contextlib.contextmanager
def followed(console: Console) -> Iterator[Show]:
    """Lines to the console; at a terminal the rounds become one line with round, measure and time elapsed."""
    if not console.is_terminal:
        # Each line at once, so that who reads a pipe sees the rounds as they happen.
        yield lambda line: print(message(line), file=console.file, flush=True)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[measure]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting Flower", total=None, measure="")

        def show(line: str) -> None:
            if found := round_of(line):
                progress.update(task, description=f"round {found[0]}", measure=found[1])
            else:
                console.print(Text.from_ansi(line), soft_wrap=True)

        yield show


@contextlib.contextmanager
def kept(lines: deque[str]) -> Iterator[Show]:
    """Lines to `lines` only, without colours."""
    yield lambda line: lines.append(message(line))
