"""Files of a release: the Compose file, the citation, and the release workflow fit the package."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tomllib
from typing import Any

import pytest

from protocols.settings import site_keys
from tests.support.documentation import ROOT

yaml = pytest.importorskip("yaml")


def _yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_compose_file_has_a_center_and_three_sites() -> None:
    services = _yaml("compose.yaml")["services"]
    assert services.keys() == {"center", "north", "south", "west", "start"}
    center = services["center"]["command"]
    host, port = center[center.index("--host") + 1], center[center.index("--port") + 1]
    known = {"site", "data", *site_keys("sec")}
    for name in ("north", "south", "west"):
        program, *arguments = services[name]["command"]
        assert program == "flower-supernode"
        assert arguments[arguments.index("--superlink") + 1] == f"{host}:{port}"
        words = shlex.split(arguments[arguments.index("--node-config") + 1].replace('"', "'\"'"))
        node = tomllib.loads("\n".join(words))
        assert node["site"] == name
        assert node.keys() <= known
        [volume] = services[name]["volumes"]
        assert volume == f"./sites/{name}.csv:{node['data']}:ro"
    assert f"{host}:{port}" in services["start"]["command"][0]
    assert all("ports" not in service for service in services.values()), "without TLS, nothing outside reaches it"


def test_docker_reads_the_compose_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("no Docker Compose here")
    subprocess.run(["docker", "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_citation_and_workflow_are_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert _yaml("CITATION.cff")["version"] == project["version"]
    steps = _yaml(".github/workflows/release.yml")["jobs"]["build"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands.index(".ci/run") < commands.index("python -m build"), "tested before it is built"
