"""Faults: codes that a site reports when it cannot answer, each with a fixed message.

An exception's text can contain private values, so it stays in the site's own log. The fusion center prints the message
that belongs to the code; an unknown code is shown as a number.
"""

from __future__ import annotations

import re
from enum import IntEnum

_SITE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Fault(IntEnum):
    """Codes of a site's refusals and failures.

    Examples
    --------
    >>> Fault.MISSING_COLUMN.slug, Fault.MISSING_COLUMN.message
    ('missing-column', 'a column that the run needs is missing from its data')
    """

    HANDLER_FAILED = 1
    MALFORMED_ASK = 2
    UNKNOWN_ASK = 3
    STALE_MEMORY = 4
    BAD_SITE_NAME = 5
    WRONG_NUMBER_OF_SITES = 6
    SCENARIO_UNAVAILABLE = 7
    BAD_CONFIGURATION = 8
    NO_DATA = 9
    NO_DATA_FILE = 10
    UNREADABLE_DATA = 11
    MISSING_COLUMN = 12
    NOT_NUMERIC = 13
    NOT_FINITE = 14
    TOO_FEW_ROWS = 15
    LABEL_OUT_OF_RANGE = 16
    BAD_SHAPE = 17
    MISSING_VALUE = 18
    DUPLICATE_ENTITY = 19
    FUNCTION_FAILED = 20
    TOO_FEW_MODELS = 25
    NO_MODEL = 26
    ROWS_IN_MODEL = 27
    BAD_CANDIDATES = 28
    ROWS_IN_MOMENTS = 29
    OUTPUT_NOT_WRITTEN = 30
    BROKEN_SEAL = 31
    NO_SAVED_MODEL = 32
    NO_ENTITIES = 33
    BAD_AGENT = 34
    NO_OUTCOME = 35
    NO_SECRET = 36
    DATA_CHANGED = 37
    SEALED_ONLY = 38
    RARE_GROUPS = 39
    PRICES_NOT_ALLOWED = 40
    INPUTS_NOT_ALLOWED = 41
    ROWS_NOT_ALLOWED = 42
    GATE_NOT_ALLOWED = 43
    TOO_MANY_QUERIES = 44
    FEW_ROWS_FOR_EXPERT = 45
    PROTOCOL_NOT_ALLOWED = 46
    PAYLOAD_NOT_ALLOWED = 47
    FEW_ROWS_FOR_POLICY = 48
    TOO_MANY_BYTES = 49
    TOO_MANY_ROUNDS = 50
    UNMASKED = 51
    ASK_TOO_LARGE = 52
    NO_MASK_KEYS = 53
    TOO_FEW_TO_MASK = 54
    SHOWN_OTHERWISE = 55
    BEYOND_SUMS = 56
    NO_LIKELIHOOD = 57
    MISSING_LIBRARY = 58
    ALTERING_MOD = 59
    UNCOUNTED_TEXT = 60
    BUDGET_SPENT = 61
    GUARD_SILENT = 65
    BINS_NOT_ALLOWED = 66
    FEW_NEW_ROWS = 67
    INSTANCES_NOT_ALLOWED = 68
    FEW_ROWS_FOR_PRICES = 69
    TASK_NOT_ALLOWED = 70

    @property
    def message(self) -> str:
        """The fixed message of this code."""
        return _MESSAGES[self]

    @property
    def slug(self) -> str:
        """The code's name in lower case with hyphens, e.g. ``missing-column``."""
        return self.name.lower().replace("_", "-")


_MESSAGES = {
    Fault.HANDLER_FAILED: "its computation failed; the details are in the site's own log",
    Fault.MALFORMED_ASK: "the ask did not pass the site's checks; do both sides run the same version?",
    Fault.UNKNOWN_ASK: "the site does not answer this payload; do both sides run the same version?",
    Fault.STALE_MEMORY: "it no longer remembers what it was asked before (restarted without a site-output-dir?)",
    Fault.BAD_SITE_NAME: "its name has other characters than A-Z, a-z, digits, dot, hyphen and underscore, or over 64",
    Fault.WRONG_NUMBER_OF_SITES: "the data are split over another number of sites than the federation has",
    Fault.SCENARIO_UNAVAILABLE: "it cannot build its part of the scenario; the details are in the site's own log",
    Fault.BAD_CONFIGURATION: "its node configuration is not usable; the details are in the site's own log",
    Fault.NO_DATA: (
        "no data are named for it; set data in its node configuration, or in a simulation in the run configuration (a "
        "folder with a file for every site)"
    ),
    Fault.NO_DATA_FILE: "its data file or function is not there",
    Fault.UNREADABLE_DATA: "its data file cannot be read",
    Fault.MISSING_COLUMN: "a column that the run needs is missing from its data",
    Fault.NOT_NUMERIC: "its data hold text where numbers belong",
    Fault.NOT_FINITE: "its data hold infinity where numbers belong",
    Fault.MISSING_VALUE: "its data have an empty cell or NaN where a value is needed",
    Fault.DUPLICATE_ENTITY: "two of its rows have the same name in the id column",
    Fault.FUNCTION_FAILED: "its own data function failed; the details are in the site's own log",
    Fault.TOO_FEW_ROWS: "its data have no row, or a single row that any statistic would disclose",
    Fault.LABEL_OUT_OF_RANGE: "its data hold a label outside the agreed range",
    Fault.TASK_NOT_ALLOWED: (
        "its outcome holds amounts, and task=classification of the run would tell each value; set "
        "task=classification in its node configuration to allow that"
    ),
    Fault.BAD_SHAPE: "its data's columns do not fit together",
    Fault.TOO_FEW_MODELS: (
        "it holds a single model, whose labels its answers would give away; set allow-single-model=true in its node "
        "configuration (bc3e.allow-single-model=true in a simulation) to allow that"
    ),
    Fault.INSTANCES_NOT_ALLOWED: (
        "it does not share instances, since votes and probabilities of each would leave it; set "
        "allow-shared-instances=true in its node configuration to allow that"
    ),
    Fault.NO_MODEL: "none of the candidate methods could be fitted to its data; the details are in the site's own log",
    Fault.ROWS_IN_MODEL: (
        "all its candidate methods are such that the fitted model holds rows (knn, svr); set allow-row-models=true in "
        "its node configuration (sec.allow-row-models=true in a simulation) to allow that"
    ),
    Fault.BAD_CANDIDATES: "its list of candidate methods cannot be read; the details are in the site's own log",
    Fault.ROWS_IN_MOMENTS: (
        "it has so few rows that they could be solved for from the sums that sec.combine=pooled-linear asks for"
    ),
    Fault.OUTPUT_NOT_WRITTEN: "it could not write its own output file (disk full, or no permission?)",
    Fault.BROKEN_SEAL: (
        "a sealed message for it could not be opened: sites have different align-key-files, or the message was changed "
        "on its way"
    ),
    Fault.NO_SAVED_MODEL: (
        "it has kept no model of the run that is to predict; did it take part in that run, with the same "
        "site-output-dir?"
    ),
    Fault.NO_ENTITIES: (
        "its entities have no names, which residual.align=id matches rows by; set id in its node configuration, or "
        "residual.align=row-order where all sites have the same rows in the same order"
    ),
    Fault.BAD_AGENT: "its agent cannot be read, or not be fitted to its data; the details are in the site's own log",
    Fault.NO_OUTCOME: "it is asked for the outcome and has none; set target in the node configuration of one site",
    Fault.DATA_CHANGED: (
        "its data changed during the run, or its columns were given other roles; start anew, with data that stay as "
        "they are"
    ),
    Fault.SEALED_ONLY: (
        "it answers sealed only (sealed-only in its node configuration, or a model that was learned sealed): its "
        "numbers are for other sites, not for the fusion center"
    ),
    Fault.RARE_GROUPS: (
        "each of its groups has fewer rows than a point of its coreset must stand for (coreset.min-weight, or "
        "min-weight in its node configuration)"
    ),
    Fault.PRICES_NOT_ALLOWED: (
        "it answers no rounds of prices, whose sums say more of its rows than its coreset does; set allow-prices=true "
        "in its node configuration to allow that, or coreset.assignment=coreset"
    ),
    Fault.FEW_ROWS_FOR_PRICES: (
        "it has fewer rows than min-weight (5 unless set) for each cluster, and its answers to prices could reveal "
        "single rows; set a smaller coreset.k, or coreset.assignment=coreset"
    ),
    Fault.BINS_NOT_ALLOWED: (
        "it gives no bins of its columns any more; set allow-bins=true in its node configuration to allow that, as "
        "when the model was learned"
    ),
    Fault.INPUTS_NOT_ALLOWED: (
        "it discloses no inputs; set allow-inputs=true in its node configuration to allow that, or gp.covariance=sketch"
    ),
    Fault.ROWS_NOT_ALLOWED: (
        "it gives no rows to a communication expert, which all sites would see; set allow-rows=true in its node "
        "configuration to allow that, or another gp.aggregation than grbcm"
    ),
    Fault.GATE_NOT_ALLOWED: (
        "it takes no part in the training of a network, whose gradients can be made to reveal single rows; set "
        "allow-gate-training=true in its node configuration to allow that, or gp.gate=gaussian"
    ),
    Fault.TOO_MANY_QUERIES: (
        "it was asked more than it answers in one run: its experts predict max-queries points together (its node "
        "configuration)"
    ),
    Fault.FEW_ROWS_FOR_EXPERT: (
        "it has fewer rows than min-rows in its node configuration (10 unless set), and its answers could reveal "
        "single rows"
    ),
    Fault.PROTOCOL_NOT_ALLOWED: "its own policy does not let it take part in this protocol (protocols)",
    Fault.PAYLOAD_NOT_ALLOWED: "its own policy does not let it answer this ask (payloads)",
    Fault.FEW_ROWS_FOR_POLICY: "it has fewer rows than must stand behind what it says (min-rows of its own policy)",
    Fault.TOO_MANY_BYTES: "its answer would make more bytes than may leave it in one run (max-bytes of its own policy)",
    Fault.TOO_MANY_ROUNDS: "it was asked more often than it answers in one run (max-rounds of its own policy)",
    Fault.BUDGET_SPENT: (
        "the budget of its data is spent, for today or over all runs (budget of its own policy); consilience budget "
        "shows it to its operator"
    ),
    Fault.FEW_NEW_ROWS: (
        "so few rows of its data are new or gone since its last answers that sums before and after would reveal them "
        "(new-rows of its own policy)"
    ),
    Fault.UNMASKED: (
        "it answers this in a masked sum over all sites only, as its own policy or the run says; set "
        "secure-aggregation=true in the run configuration, and let the protocol ask through a mask"
    ),
    Fault.ASK_TOO_LARGE: "the ask has more bytes than it accepts (max-ask-mb of its own policy)",
    Fault.NO_MASK_KEYS: "it has no keys for this masked sum (restarted, or it missed a round), and must join it anew",
    Fault.TOO_FEW_TO_MASK: ("the masked sum would be over so few sites that it could reveal what single sites said"),
    Fault.SHOWN_OTHERWISE: ("it was asked to unmask one sum in two ways, which would reveal what single sites said"),
    Fault.BEYOND_SUMS: "its answer holds a number beyond 1.5e54, which a masked sum cannot hold",
    Fault.NO_LIKELIHOOD: (
        "its likelihood can be computed with none of the hyperparameters that were tried, and a masked sum with it "
        "would say nothing"
    ),
    Fault.ALTERING_MOD: (
        "a mod of its ClientApp clips, masks or adds noise, which is for model updates, and its answers are none; "
        "remove the mod, and use secure-aggregation or the site's policy"
    ),
    Fault.UNCOUNTED_TEXT: (
        "Flower's message_size_mod in its ClientApp cannot count an empty text; use message_size_mod of "
        "consilience.clients instead"
    ),
    Fault.GUARD_SILENT: (
        "its guard, which has its data, does not answer (not running, or not for this user?); the details are in its "
        "SuperNode's log"
    ),
    Fault.MISSING_LIBRARY: "it lacks a library that the run needs; its own log names it, and the extra to install",
    Fault.NO_SECRET: (
        "what is sealed for other sites needs a secret that all sites share and the center does not know; set "
        "align-key-file in its node configuration"
    ),
}


class SiteFault(Exception):  # noqa: N818  (a fault is reported by a site, and no error here)
    """Raised at a site to refuse an ask: the code travels, the detail stays in the site's log.

    Examples
    --------
    >>> error = SiteFault(Fault.NO_DATA_FILE, "ward.csv: there is no such file")
    >>> int(error.fault), str(error)
    (10, 'ward.csv: there is no such file')
    """

    def __init__(self, fault: Fault, detail: str = "") -> None:
        self.fault = fault
        super().__init__(detail or fault.message)


def usable_name(name: str) -> bool:
    """Return whether a site may have this name: it is shown in logs and reports, and names a folder.

    Examples
    --------
    >>> usable_name("ward-3"), usable_name("ward 3"), usable_name("..")
    (True, False, False)
    """
    return bool(_SITE_NAME.fullmatch(name)) and set(name) != {"."}


def slug_of(code: int) -> str:
    """Return the text of a code, known or not, for a ledger.

    Examples
    --------
    >>> slug_of(13), slug_of(999)
    ('not-numeric', '999')
    """
    return Fault(code).slug if code in set(Fault) else str(code)


def describe(code: int) -> str:
    """Return the message of a code that came over the wire.

    Examples
    --------
    >>> describe(13)
    'its data hold text where numbers belong [not-numeric]'
    >>> describe(999)
    'unknown fault code 999'
    """
    try:
        fault = Fault(code)
    except ValueError:
        return f"unknown fault code {code}"
    return f"{fault.message} [{fault.slug}]"
