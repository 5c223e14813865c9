"""The worlds of SEC (Ye, Ding and Ghanadan): two simulations, data fairness, and two real data sets.

================  =====================================  ===========================================================
scenario          of the paper                           who is there
================  =====================================  ===========================================================
sec-simulation1   section V-A, Figures 2 and 3           20 learners, two linear functions
sec-simulation2   section V-B, Table II                  20 learners, Friedman's functions 2 and 3, 500 inputs
sec-fairness      section IV, Table I                    50 learners who differ in an intercept, 20 of them newcomers
sec-grid          section VI-B, Figure 4                 50 learners, some of whom report y as -y
sec-ct            section VI-A, Table III                97 CT scans, 33 of them newcomers
================  =====================================  ===========================================================

Each is a table whose rows have the paper's settings where the run configuration leaves a key empty: another
`sec.k-method` or `sec.candidates` may be tried on all of them. What differs between the
cells of a repetition is what the cells are about: wherever two cells may share draws they share them, and the arrays
themselves where they are equal.
"""

from scenarios.sec import real_data as measured
from scenarios.sec import synthetic as drawn

__all__ = ["drawn", "measured"]
