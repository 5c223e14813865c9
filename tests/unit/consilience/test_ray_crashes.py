"""A process of Ray that dies: one line for the user, the rest in a file. The lines are those that flwr 1.41 prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilience.ray_crashes import CrashFilter
from consilience.run_log import message

ACTOR = "\x1b[36m(ClientAppActor pid=21087)\x1b[0m "
ERROR = "\x1b[91mERROR \x1b[0m:     "
DUMP = [
    f"{ACTOR}*** SIGSEGV received at time=1795381789 on cpu 0 ***",
    f"{ACTOR}PC: @     0x7fb0c1c5a267  (unknown)  kill",
    f"{ACTOR}Fatal Python error: Segmentation fault",
    f"{ACTOR}",
    f'{ACTOR}  File "/tmp/eng/ray/diemod.py", line 4 in data',
]
RAYLET = ["\x1b[33m(raylet)\x1b[0m A worker died or was killed while executing a task by an unexpected system error."]
RAISED = [
    f"{ERROR}An exception was raised when processing a message by RayBackend",
    f"{ERROR}The actor died unexpectedly before finishing this task.",
    "\tclass_name: ClientAppActor",
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
    f"{ERROR}Traceback (most recent call last):",
    '  File "vce_api.py", line 132, in worker',
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "",
]
BEFORE = [f"{ACTOR}INFO :      a line of a site that lives", "\x1b[92mINFO \x1b[0m:      BC3E: seed 0"]
AFTER = [f"{ERROR}refused: round 2: 0 of 3 sites answered", "and a line without a level"]


def read(lines: list[str], file: Path) -> list[str]:
    shown: list[str] = []
    crash_filter = CrashFilter(shown.append, file)
    for line in lines:
        crash_filter(line)
    return [message(line) for line in shown]


@pytest.mark.parametrize(
    ("crash", "what"),
    [
        (DUMP + RAYLET + RAISED + RAISED, "SIGSEGV"),
        (RAYLET + RAISED, "killed"),
        (DUMP[2:] + RAISED, "Segmentation fault"),
    ],
)
def test_a_crash_is_one_line(tmp_path: Path, crash: list[str], what: str) -> None:
    file = tmp_path / "ray-crashes.log"
    said = f"a process of Ray ended ({what}); what it printed is in {file}"
    assert read(BEFORE + crash + AFTER, file) == [*map(message, BEFORE), said, *map(message, AFTER)]
    assert len(file.read_text().splitlines()) == len(crash)


def test_another_exception_is_shown(tmp_path: Path) -> None:
    lines = [RAISED[0], f"{ERROR}No module named 'hospital'", RAISED[4], "ModuleNotFoundError: hospital", *AFTER]
    assert read(lines, tmp_path / "file") == [message(line) for line in lines]
    assert not (tmp_path / "file").exists()
