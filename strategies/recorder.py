"""What the fusion center writes down of a run as it goes on: what crossed, who failed, and each round's figures."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import RecordDict

from protocols.wire.message import Parcel, ledger_lines, refused_line
from strategies.result import FusionResult

logger = logging.getLogger("flwr")

Sent = tuple[RecordDict, list[Parcel]]
"""A message to a site, and the parcels it holds."""


class Books:
    """Keeps the books of one run.

    Parameters
    ----------
    result : FusionResult
        What is written down goes into its `ledger`, `missing` and `convergence`.
    """

    def __init__(self, result: FusionResult) -> None:
        self._result = result
        self._of_round: Counter[str] = Counter()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        self._result.ledger += lines
        for line in lines:
            self._of_round[line["direction"]] += line["bytes"]

    def sent(self, number: int, sent: Mapping[str, Sent]) -> int:
        """Messages to sites, by site; returns their bytes, of those that several sites were sent once."""
        described: dict[int, list[dict[str, Any]]] = {}
        for site, (content, parcels) in sent.items():
            if id(content) not in described:
                about = ledger_lines(content, parcels, round_number=number, direction="to_site", site=site)
                described[id(content)] = list(about)
            self._write([{**line, "site": site} for line in described[id(content)]])
        return sum(line["bytes"] for lines in described.values() for line in lines)

    def came(self, number: int, site: str, content: RecordDict, parcels: Sequence[Parcel]) -> None:
        """An answer, or a refusal, which holds no parcels."""
        about = ledger_lines(content, parcels, round_number=number, direction="from_site", site=site)
        self._write(list(about))

    def refused(self, number: int, site: str, content: RecordDict) -> None:
        """An answer that broke its contract."""
        self._write([refused_line(content, round_number=number, direction="from_site", site=site)])

    def failed(self, number: int, failures: Mapping[str, str]) -> None:
        """Who gave no answer that could be used, and why."""
        for site, reason in sorted(failures.items()):
            self._result.missing.setdefault(site, []).append(f"round {number}: {reason}")
            logger.warning("round %d: %s: %s", number, site, reason)

    def round_ends(self, number: int, answered: int, asked: int, measure: Mapping[str, float], seconds: float) -> None:
        """One line a round: number, sites, the strategy's own measure, bytes each way, seconds."""
        down, up = self._of_round["to_site"], self._of_round["from_site"]
        self._of_round.clear()
        self._result.convergence.append(
            {
                "round": number,
                **measure,
                "sites": answered,
                "bytes_to_sites": down,
                "bytes_from_sites": up,
                "seconds": seconds,
            }
        )
        said = "".join(f" {name}={value:.10g}" for name, value in measure.items())
        logger.info(
            "round %3d  sites %d/%d %s  down=%s up=%s  %.2f s",
            number, answered, asked, said, human(down), human(up), seconds,
        )  # fmt: skip


def human(size: int) -> str:
    """Bytes in the unit that suits them."""
    return f"{size} B" if size < 1000 else f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
