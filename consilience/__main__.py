"""``python -m consilience``: the same as the command ``consilience``."""

from consilience.cli import app

app(prog_name="consilience")
