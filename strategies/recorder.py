"""The record of a run: its ledger, its failed sites, and its rounds."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import RecordDict

from common.grouping import group_messages
from protocols.wire.message import Parcel, ledger_lines, refused_line
from strategies.result import FusionResult

logger = logging.getLogger("flwr")

EncodedAsk = tuple[RecordDict, list[Parcel]]
"""A message to a site, and the parcels it holds."""


class RunRecorder:
    """Records one run in its result.

    Parameters
    ----------
    result : FusionResult
        Result whose `ledger`, `missing` and `convergence` are written.

    Examples
    --------
    >>> result = FusionResult()
    >>> RunRecorder(result).record_failures(2, {"north": "no answer within 5 s"})
    >>> result.missing
    {'north': ['round 2: no answer within 5 s']}
    """

    def __init__(self, result: FusionResult) -> None:
        self._result = result
        self._bytes_of_round: Counter[str] = Counter()

    def record_asks(self, number: int, asks: Mapping[str, EncodedAsk]) -> int:
        """Record messages to sites, by site.

        Returns
        -------
        int
            Their bytes; a message to several sites counts once.
        """
        lines_by_content: dict[int, list[dict[str, Any]]] = {}
        for site, (content, parcels) in asks.items():
            if id(content) not in lines_by_content:
                lines = ledger_lines(content, parcels, round_number=number, direction="to_site", site=site)
                lines_by_content[id(content)] = list(lines)
            self._write([{**line, "site": site} for line in lines_by_content[id(content)]])
        return sum(line["bytes"] for lines in lines_by_content.values() for line in lines)

    def record_reply(self, number: int, site: str, content: RecordDict, parcels: Sequence[Parcel]) -> None:
        """Record an answer, or a fault, which holds no parcels."""
        lines = ledger_lines(content, parcels, round_number=number, direction="from_site", site=site)
        self._write(list(lines))

    def record_refusal(self, number: int, site: str, content: RecordDict) -> None:
        """Record an answer that broke its contract."""
        self._write([refused_line(content, round_number=number, site=site)])

    def record_failures(self, number: int, failures: Mapping[str, str]) -> None:
        """Record the sites without a usable answer, and the reasons; the log has equal reasons once."""
        for site, reason in sorted(failures.items()):
            self._result.missing.setdefault(site, []).append(f"round {number}: {reason}")
        for line in group_messages(sorted(failures.items())):
            logger.warning("round %d: %s", number, line)

    def record_round(
        self, number: int, answered: int, recipients: int, measure: Mapping[str, float], seconds: float
    ) -> None:
        """Record the end of a round, and log it: number, sites, the strategy's measure, bytes each way, seconds."""
        down, up = self._bytes_of_round["to_site"], self._bytes_of_round["from_site"]
        self._bytes_of_round.clear()
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
        values = "".join(f" {name}={value:.10g}" for name, value in measure.items())
        logger.info(
            "round %3d  sites %d/%d %s  down=%s up=%s  %.2f s",
            number, answered, recipients, values, format_bytes(down), format_bytes(up), seconds,
        )  # fmt: skip

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        self._result.ledger += lines
        for line in lines:
            self._bytes_of_round[line["direction"]] += line["bytes"]


def format_bytes(size: int) -> str:
    """Write a number of bytes in a suitable unit.

    Examples
    --------
    >>> format_bytes(20_500)
    '20.5 kB'
    """
    return f"{size} B" if size < 1000 else f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
