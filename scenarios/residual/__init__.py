"""Scenarios of attribute-distributed regression (Zheng, Kulkarni and Poor 2010): every site holds other columns.

============================  ===================  ===================================================================
scenario                      in the paper         columns of the sites
============================  ===================  ===================================================================
residual-friedman1, -2, -3    Figure 3             an attribute each of Friedman's functions, 2000 rows
residual-concrete             Figure 3             an ingredient of concrete, or its age, each
residual-concrete-nuisance    Figure 3             the same, and 8 more sites with irrelevant attributes
residual-curves               Figure 4             Friedman-1 and 5 irrelevant attributes: the errors by iteration
residual-irrelevant           Table I, Figure 5    4 attributes of Friedman-3 and 26 irrelevant ones, 1000 rows
residual-cost                 Table II             10 attributes, 2000 rows: how many numbers cross
residual-theorem2             Theorem 2            polynomials of two jointly Gaussian attributes
============================  ===================  ===================================================================

Each is a table with a row for every algorithm or setting; all rows of a repetition learn from the same arrays. The rows
of all shards are the same entities in the same order, and the fusion center holds the outcomes (`Scenario.outcome`).
"""

from scenarios.residual import gaussian, real_data, synthetic

__all__ = ["gaussian", "real_data", "synthetic"]
