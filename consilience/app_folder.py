"""The app folder that Flower bundles, and the keys of the run configuration that its pyproject.toml declares.

``python -m consilience.app_folder`` (``make keys``) writes them into the checkout's own pyproject.toml.
"""

import importlib.metadata
import re
import shutil
from pathlib import Path

from common.settings import Setting, SettingError, toml_value
from consilience._path import APP_FOLDER, OWN_FOLDER, PACKAGES
from protocols.settings import run_keys

_TABLE = "tool.flwr.app.config"
_TABLES = re.compile(rf"^\[{re.escape(_TABLE)}\]\n.*?(?=^\[(?!{re.escape(_TABLE)}\.)|\Z)", re.MULTILINE | re.DOTALL)
"""The tables of the run configuration in pyproject.toml."""


def stage_app(folder: Path) -> None:
    """Fill an existing empty folder with the app: its packages, pyproject.toml and licence.

    Flower bundles a whole app folder; a checkout with an environment inside takes seconds, and an installed wheel is no
    app folder. The keys of all protocols are declared, also those of other packages, since Flower refuses others.
    """
    for package in (OWN_FOLDER, *(APP_FOLDER / name for name in PACKAGES)):
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__", "_app"))
    for name, text in _app_texts().items():
        content = with_keys(text) if name == "pyproject.toml" else text
        (folder / name).write_text(content, encoding="utf-8")


def with_keys(pyproject: str) -> str:
    """Return the text of a pyproject.toml that declares every key of the run configuration."""
    tables, number = _TABLES.subn(lambda _: f"{key_tables()}\n", pyproject)
    if number != 1:
        raise SettingError(f"pyproject.toml has {number} tables [{_TABLE}] where one is expected")
    return tables


def key_tables() -> str:
    """Return the TOML tables of all keys, each with its default, or with words for a default that is not a value."""
    lines, family = [f"[{_TABLE}]"], ""
    for key, each in run_keys().items():
        own, _, name = key.rpartition(".")
        if own != family:
            lines += ["", f"[{_TABLE}.{own}]"]
            family = own
        lines.append(_line(name, each))
    return "\n".join(lines) + "\n"


def _line(name: str, each: Setting) -> str:
    assignment = f"{name} = {toml_value(each.key, each.declared)}"
    return f"{assignment}  # {each.words}" if each.words else assignment


def _app_texts() -> dict[str, str]:
    """pyproject.toml and LICENSE: of the checkout, or of the installed wheel's metadata."""
    if (APP_FOLDER / "pyproject.toml").is_file():
        return {name: (APP_FOLDER / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "LICENSE")}
    metadata = importlib.metadata.distribution("consilience")
    texts = {
        "pyproject.toml": metadata.read_text("extra_metadata/pyproject.toml"),
        "LICENSE": metadata.read_text("licenses/LICENSE"),
    }
    missing = [name for name, text in texts.items() if text is None]
    if missing:
        raise SettingError(f"the installed consilience lacks its {' and '.join(missing)}; install it again with pip")
    return {name: text for name, text in texts.items() if text is not None}


if __name__ == "__main__":
    _pyproject = APP_FOLDER / "pyproject.toml"
    _pyproject.write_text(with_keys(_pyproject.read_text(encoding="utf-8")), encoding="utf-8")
