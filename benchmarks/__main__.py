"""Comparisons of protocols with others, and growth of cost: ``python -m benchmarks`` writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.page import page
from benchmarks.results import Results, collect, say_aloud
from benchmarks.side import PEERS, PROTOCOLS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PARTS = ("side", "growth")
LIMIT, BUDGET, QUICK_BUDGET = 120.0, 80.0, 4.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    parser: Any = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition(":")[0])
    parser.add_argument("--quick", action="store_true", help="a trial of a minute or two on little data")
    parser.add_argument("--only", type=_listed(PROTOCOLS), default=list(PROTOCOLS), metavar="gp,coreset")
    parser.add_argument("--parts", type=_listed(PARTS), default=list(PARTS), metavar="side,growth")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="a Python that has fair-kmeans and bico")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a method on a data set, all draws")
    parser.add_argument(
        "--budget", type=float, default=0.0, help="seconds of an axis of growth; by default 80, quick 4"
    )
    parser.add_argument("--output", type=Path, help="the page; by default docs/benchmarks.md if all is measured")
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write all numbers to a JSON file")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: write the page of that JSON file")
    options = parser.parse_args(arguments)
    if options.peers:
        os.environ[PEERS] = str(Path(options.peers).absolute())
    if options.read:
        results = Results.of_json(options.read.read_text(encoding="utf-8"))
    else:
        budget = options.budget or (QUICK_BUDGET if options.quick else BUDGET)
        results = collect(
            options.only,
            options.parts,
            command=_command(options),
            quick=options.quick,
            limit=options.limit,
            budget=budget,
            say=say_aloud,
        )
    if options.save:
        options.save.write_text(results.to_json(), encoding="utf-8")
    output = options.output or (PAGE if _whole(options) and not options.read else None)
    if output is None:
        print(page(results))
    else:
        output.write_text(page(results), encoding="utf-8")
        say_aloud(f"written: {output}")


def _whole(options: Any) -> bool:
    """Return whether everything is measured."""
    return (options.only, options.parts, options.quick) == (list(PROTOCOLS), list(PARTS), False)


def _command(options: Any) -> str:
    """Return the command that makes the same page."""
    if _whole(options) and (options.limit, options.budget) == (LIMIT, 0.0):
        return "make bench"
    choices = {"only": (options.only, PROTOCOLS), "parts": (options.parts, PARTS)}
    words = [f"--{name} {','.join(chosen)}" for name, (chosen, known) in choices.items() if chosen != list(known)]
    words += ["--quick"] if options.quick else []
    words += [f"--limit {options.limit:g}"] if options.limit != LIMIT else []
    words += [f"--budget {options.budget:g}"] if options.budget else []
    return " ".join(["python -m benchmarks", *words])


def _listed(known: Sequence[str]) -> Any:
    """Return a parser of known words separated by commas, which returns them in the order of `known`."""

    def words(text: str) -> list[str]:
        typed = text.replace(",", " ").split()
        unknown = [each for each in typed if each not in known]
        if unknown or not typed:
            raise argparse.ArgumentTypeError(f"{text!r}: choose among {', '.join(known)}")
        return [each for each in known if each in typed]

    return words


if __name__ == "__main__":
    main()
