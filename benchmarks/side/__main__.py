"""Measures one method on one case: ``python -m benchmarks.side PROTOCOL CASE METHOD [--quick]``."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.side import PROTOCOLS, NotHereError
from benchmarks.side.measurement import measure, side_of
from scenarios.registry import ScenarioError


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a `Measurement` as JSON, or ``{"missing": why}``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("protocol", choices=PROTOCOLS)
    parser.add_argument("case")
    parser.add_argument("method")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    side = side_of(options.protocol, options.quick)
    cases = {each.name: each for each in side.cases}
    methods = {each.name: each for each in side.methods}
    known: Mapping[str, object]
    for name, known in ((options.case, cases), (options.method, methods)):
        if name not in known:
            parser.error(f"{options.protocol} has no {name!r}; there are: {'; '.join(known)}")
    try:
        print(json.dumps(asdict(measure(side, cases[options.case], methods[options.method]))))
    except (NotHereError, ScenarioError) as error:
        print(json.dumps({"missing": str(error)}))


if __name__ == "__main__":
    main()
