"""The five ways to give data, as docs/python.md types them: the same result, bit for bit, and the printed numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from server.results import load
from tests.process.processes import APP, flower_home
from tests.support.documentation import blocks
from tests.support.engines import assert_same_run


@pytest.mark.slow
def test_five_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = blocks("docs/python.md")
    [first] = [place for place, block in enumerate(page) if block.text.startswith("# panels.py")]
    module, python, flower, printed = page[first : first + 4]
    assert [each.language for each in (python, flower, printed)] == ["python", "sh", "text"]
    (tmp_path / "panels.py").write_text(module.text)
    code = f"import consilience as cs\nfrom panels import load\n{python.text}"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(APP)]))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with flower_home(tmp_path / "flower") as home:
        typed = flower.text.replace("/home/me", str(tmp_path))
        ended = subprocess.run(
            ["bash", "-ec", typed], cwd=APP, env={**os.environ, **home.env}, capture_output=True, text=True, timeout=400
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    names = tmp_path / "five-ways" / "bc3e-own-data" / ".numbers"
    runs = [names.parent / (names / str(number)).read_text() for number in range(1, 6)]
    for other in runs[1:]:
        assert_same_run(other, runs[0])
    metrics = load(runs[-1])[0].metrics
    last = f"flwr run      accuracy {metrics['accuracy']:.4f}, bound {metrics['bound']!r}\n"
    assert printed.text == done.stdout + last
