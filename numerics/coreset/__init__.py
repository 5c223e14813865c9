"""Coresets for fair k-means: built in one pass, with whole weights and one group per point; movement is measured.

Sources: Schmidt, Schwiegelshohn and Sohler (2018), Definition 4, Theorem 7 and Algorithm 15; BICO (Fichtenberger et al.
2013).

This module imports nothing, because a site that assigns its rows needs no compiled code.
"""
