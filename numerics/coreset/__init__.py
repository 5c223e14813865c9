"""The coreset of fair k-means: built in one pass, with whole weights, one group a point, its movement measured.

Sources: Schmidt, Schwiegelshohn and Sohler (2018), Definition 4, Theorem 7 and Algorithm 15; BICO (Fichtenberger et al.
2013).

Nothing is imported here: a site that assigns its rows needs no compiled code.
"""
