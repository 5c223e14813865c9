"""Results of an earlier run that another one goes on from."""

import numpy as np
import pytest

from server.report.data import ResultsError
from server.report.previous_run import read_results
from server.results import ResultsDirectory
from tests.support.sample_report import ARRAYS, LINES, make


def test_results_are_used_by_a_run_of_their_own_protocol_only(tmp_path):
    path = ResultsDirectory.open(tmp_path, "runs", "1").finish(make(protocol="sec"), ARRAYS, LINES, {})
    report, arrays = read_results(str(path), "sec.join", "sec")
    assert report == make(protocol="sec")
    np.testing.assert_array_equal(arrays["bounds"], ARRAYS["bounds"])
    with pytest.raises(ResultsError, match=rf"^sec\.join: {path} are results of sec, not of gp$"):
        read_results(str(path), "sec.join", "gp")
