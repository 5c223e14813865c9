"""Files of messages: what is written is read back, and a file that contradicts itself is not read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from protocols.wire.payload import encode_array
from protocols.wire.record_file import read_records, write_records

CONTENTS = [
    RecordDict({"scalars": ConfigRecord({"n": 3, "names": ["a", "b"]}), "measures": MetricRecord({"loss": 0.5})}),
    RecordDict({"arrays": ArrayRecord({"x": encode_array(np.eye(3)), "none": encode_array(np.zeros((0, 2)))})}),
    RecordDict(),
]


def test_what_is_written_is_read_back_and_its_bytes_depend_on_nothing_else(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.zip", "other.zip")]
    for path in paths:
        write_records(path, {"round": 3}, CONTENTS)
    assert read_records(paths[0]) == ({"round": 3}, CONTENTS)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(("change", "message"), [(-1, "holds more than it says"), (1, "ends early")])
def test_sizes_that_do_not_fit_the_bytes_are_refused(tmp_path: Path, change: int, message: str) -> None:
    path = tmp_path / "round.zip"
    write_records(path, None, CONTENTS)
    with zipfile.ZipFile(path) as archive:
        about, described = json.loads(archive.read("about.json"))
        content = archive.read("bytes")
    described[1]["arrays"][1][0][-1] += change
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", json.dumps([about, described]))
        archive.writestr("bytes", content)
    with pytest.raises(ValueError, match=message):
        read_records(path)
