"""Scenarios of SEC (Ye, Ding and Ghanadan 2022): two simulations, data fairness, and two real data sets.

================  =====================================  ===========================================================
scenario          in the paper                           learners
================  =====================================  ===========================================================
sec-simulation1   section V-A, Figures 2 and 3           20, of two linear functions
sec-simulation2   section V-B, Table II                  20, of Friedman's functions 2 and 3, 500 inputs
sec-fairness      section IV, Table I                    50 with different intercepts, 20 of them newcomers
sec-grid          section VI-B, Figure 4                 50, some of whom report y as -y
sec-ct            section VI-A, Table III                97 CT scans, 33 of them newcomers
================  =====================================  ===========================================================

Each is a table. Its rows have the paper's settings where the run configuration leaves a key empty: another
`sec.k-method` or `sec.candidates` may be tried on all of them. The cells of a repetition differ only in what they
compare: cells that can share draws share them, and equal arrays are the same object.
"""

from scenarios.sec import real_data, synthetic

__all__ = ["real_data", "synthetic"]
