"""The arithmetic of attribute-distributed regression (Zheng, Kulkarni and Poor 2010), wherever it is done.

`linear` has the formulas; `parallel`, `sequential` and `once` the algorithms, each a machine that says what the agents
are to be asked next and takes their answers; `plan` puts them together: choose on held-out rows, learn, conclude. The
fusion center runs a plan; where a site holds the outcome, that site does.
"""
