"""Arithmetic of attribute-distributed regression (Zheng, Kulkarni and Poor 2010).

`linear` combines predictions of agents; `parallel`, `sequential` and `single_round` have the steps of the algorithms.
`protocols/residual` asks the agents for what these need.
"""
