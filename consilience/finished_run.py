"""A finished run as a Python object."""

from __future__ import annotations

import json
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from server.report.headline import answer
from server.results import load

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from server.report.data import Report


class Run:
    """A finished run: what it answers, its numbers, and what crossed the wire.

    Parameters
    ----------
    path : Path
        Results directory.
    keep : object
        What must live as long as the run: the temporary directory that holds the results.
    """

    def __init__(self, path: Path, keep: object = None) -> None:
        self.path = path
        self._keep = keep
        self._report, self._arrays = load(path)

    @property
    def report(self) -> Report:
        """The content of ``report.json``."""
        return self._report

    @property
    def answer(self) -> str:
        """The answer to the protocol's question, in one sentence."""
        return answer(self._report)

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers by name."""
        return self._report.metrics

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays by documented name."""
        return self._arrays

    @cached_property
    def table(self) -> pd.DataFrame:
        """The result table."""
        import pandas as pd

        return pd.DataFrame(self._report.table)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row a round: measures, bytes, seconds."""
        import pandas as pd

        return pd.DataFrame(self._report.convergence)

    @cached_property
    def ledger(self) -> pd.DataFrame:
        """One row for every payload that crossed the wire."""
        import pandas as pd

        lines = (self.path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
        return pd.DataFrame([json.loads(line) for line in lines])

    def save(self, output_dir: str | Path) -> Path:
        """Copy the results to ``OUTPUT-DIR/NAME/RUN-ID``, and return that path."""
        target = Path(output_dir).expanduser().absolute() / self.path.parent.name / self.path.name
        shutil.copytree(self.path, target)
        return target
