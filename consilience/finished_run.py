"""A finished run as a Python object."""

from __future__ import annotations

import html
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from common.csv_text import unescape
from common.extras import require
from common.value_ranges import Value
from consilience.errors import plain_errors
from consilience.python_data import table_of_rows
from server.report.data import ResultsError
from server.report.formatting import counted
from server.report.headline import answer
from server.report.verdict import verdict
from server.results import FIGURES, load
from server.run_names import take_number

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from consilience.public_types import Report, Verdict
    from consilience.python_data import Rows

T = TypeVar("T")

_FRAME = '<iframe srcdoc="{}" sandbox="allow-popups" style="width: 100%; height: 720px; border: 0"></iframe>'
"""The page in a frame, which separates its styles from the notebook's."""


class Run:
    """A finished run: its answer, its numbers and its ledger.

    Parameters
    ----------
    path : Path
        Results directory.
    keep : object
        Object that must live as long as the run: tables given in Python.

    Raises
    ------
    ResultsError
        If there are no results of a finished run.
    """

    def __init__(self, path: Path, keep: object = None) -> None:
        self._folder = path
        self._keep = keep
        self._report, self._arrays = load(path)

    @property
    def path(self) -> Path:
        """Results directory. A run without `output_dir` draws figures and page when they are first asked for."""
        if not (self._folder / FIGURES).is_dir():
            from server.app import add_page

            add_page(self._folder)
            self._report, _ = load(self._folder)
        return self._folder

    @property
    def report(self) -> Report:
        """The content of ``report.json``."""
        return cast("Report", self._report)

    @property
    def answer(self) -> str:
        """The answer to the protocol's question, in one sentence."""
        return answer(self._report)

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict of the run's own numbers on joining: ``decision`` and ``reason``."""
        return cast("Verdict", verdict(self._report))

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

        lines = (self._folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
        return pd.DataFrame([json.loads(line) for line in lines])

    @cached_property
    def sites(self) -> Mapping[str, SiteFiles]:
        """By site, its own output files, which in a simulation lie with the results."""
        return _ByName({name: SiteFiles(self._folder / "sites" / name) for name in self._report.sites})

    @cached_property
    @plain_errors
    def figures(self) -> Mapping[str, Figure]:
        """Figures by name.

        Raises
        ------
        ConfigError
            If there are none because Matplotlib is not installed.
        """
        images = {path.stem: path for path in (self.path / FIGURES).glob("*.png")}
        if not images:
            require("matplotlib", "a report with figures")
        texts = {each["name"]: each for each in self._report.figures}
        return _ByName(
            {
                name: Figure(name, images[name].read_bytes(), each["caption"], each["alt"])
                for name, each in texts.items()
                if name in images
            }
        )

    @plain_errors
    def predict(self, rows: Rows, **options: Value) -> pd.DataFrame:
        """Predict new rows with the fusion center's result.

        Parameters
        ----------
        rows : DataFrame, mapping, str or Path
            Rows with the run's input columns, in any order.
        **options
            ``id``, ``target`` or ``sensitive``, if they differ from the run's; and options of the protocol.

        Returns
        -------
        pandas.DataFrame
            One row for each of `rows`.

        Raises
        ------
        ConfigError
            If the sites must answer: ``consilience.run("predict", from_=run, data=...)`` asks them.
        DataError
            If a column is missing, or a cell cannot be used.
        """
        import pandas as pd

        from common.settings import ConfigError
        from consilience.predict.new_rows import SitesPredictError, predict_rows

        assignments = [f"{key.replace('_', '-')}={value}" for key, value in options.items()]
        try:
            prediction = predict_rows(
                self._folder, lambda text: table_of_rows("rows", rows, whole=False, text=text), assignments
            )
        except SitesPredictError:
            raise ConfigError(
                f"{self._report.protocol} predicts by its sites, which must answer:"
                ' consilience.run("predict", from_=run, data=...)'
            ) from None
        return pd.DataFrame(dict(prediction.columns))

    def save(self, output_dir: str | Path) -> Path:
        """Copy the results to ``OUTPUT-DIR/NAME/RUN-ID``, as the command does, and return that path.

        Raises
        ------
        ResultsError
            If they are there already, or cannot be written.
        """
        target = Path(output_dir).expanduser().absolute() / self.path.parent.name / self.path.name
        if target.exists():
            raise ResultsError(f"{target} exists already and is not overwritten")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copy-") as copy:
                shutil.copytree(self.path, Path(copy) / "results").rename(target)
            take_number(target)
        except OSError as error:
            raise ResultsError(f"the results cannot be copied to {target}: {error.strerror or error}") from None
        return target

    def __repr__(self) -> str:
        sites, rounds = counted(len(self._report.sites), "site"), counted(self._report.rounds, "round")
        return f"<Run {self._report.scenario}: {sites}, {rounds}. {self.answer}>"

    def _repr_html_(self) -> str:
        page = self.path / "report.html"
        if not page.is_file():
            return f"<p>{html.escape(self.answer)}</p>"
        return _FRAME.format(html.escape(page.read_text(encoding="utf-8"), quote=True))


def _no_such(name: str, names: Iterable[str]) -> KeyError:
    return KeyError(f"{name}; there is: {', '.join(names) or 'nothing'}")


class _ByName(dict[str, T]):
    """A dictionary whose errors list its names.

    Examples
    --------
    >>> _ByName({"north": 1})["nroth"]
    Traceback (most recent call last):
    KeyError: 'nroth; there is: north'
    """

    def __missing__(self, name: str) -> T:
        raise _no_such(name, self)


class SiteFiles(Mapping[str, Any]):
    r"""A site's own output files by name: tables as DataFrames, arrays by name, others as paths.

    Parameters
    ----------
    folder : Path
        The site's own directory; empty, or not there, if it keeps nothing.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "theta.csv").write_text("row,class\n0,1\n")
    14
    >>> SiteFiles(folder)["theta.csv"]["class"].tolist()
    [1]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Any:
        path = self.folder / name
        if name not in list(self):
            raise _no_such(name, self)
        if path.suffix == ".csv":
            import pandas as pd

            frame = pd.read_csv(path).rename(columns=unescape)
            for name in frame.columns:
                if not pd.api.types.is_numeric_dtype(frame[name]):
                    frame[name] = frame[name].map(unescape)
            return frame
        if path.suffix == ".npz":
            import numpy as np

            with np.load(path, allow_pickle=False) as archive:
                return {each: archive[each] for each in archive.files}
        return path

    def __iter__(self) -> Iterator[str]:
        paths = sorted(self.folder.rglob("*")) if self.folder.is_dir() else []
        return (path.relative_to(self.folder).as_posix() for path in paths if path.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<SiteFiles of {self.folder.name}: {', '.join(self) or 'none'}>"


@dataclass(frozen=True)
class Figure:
    """One figure of a run, which a notebook shows.

    Attributes
    ----------
    name : str
        Name of the figure.
    png : bytes
        The image.
    caption, alt : str
        Caption, and alternative text for readers who cannot see the image.
    """

    name: str
    png: bytes
    caption: str
    alt: str

    def __repr__(self) -> str:
        return f"<Figure {self.name}: {self.caption}>"

    def _repr_png_(self) -> bytes:
        return self.png
