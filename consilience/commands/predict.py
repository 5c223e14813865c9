"""``consilience predict``: predictions of new rows with the fusion center's result of a run."""

from pathlib import Path
from typing import Annotated

import typer

from common.settings import SettingError
from consilience.commands import terminal


def predict(
    results_dir: terminal.ResultsDir,
    file: Annotated[str, typer.Argument(metavar="DATA", help="A CSV, Parquet or NPZ file of new rows.")],
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the predictions go.")] = Path("predictions.csv"),
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="id, target or sensitive, where they differ from the run's, or an option of the protocol"
            " (docs/predict.md).",
        ),
    ] = None,
) -> None:
    """Predict new rows by what the fusion center holds of a run; where the sites must answer, print what to type."""
    from clients.data import DataError
    from common.files import encode_text, replacing
    from consilience.predict.interface import RequestError
    from consilience.predict.new_rows import predict_file
    from server.report.data import ResultsError

    if output.expanduser().resolve() == Path(file).expanduser().resolve():
        terminal.fail(f"{output} is the file of the rows: name another --output", terminal.USAGE)
    try:
        predictions = predict_file(terminal.results_of(results_dir), file, assignments or ())
        with replacing(output.expanduser()) as temporary:
            temporary.write_bytes(encode_text(predictions.csv()))
    except SettingError as error:
        terminal.fail(str(error), terminal.USAGE)
    except (DataError, ResultsError, RequestError) as error:
        terminal.fail(str(error))
    except OSError as error:
        terminal.fail(f"{output} cannot be written: {error.strerror or error}")
    typer.echo("\n".join(predictions.lines))
    typer.echo(f"predictions: {output.expanduser().absolute()}")
