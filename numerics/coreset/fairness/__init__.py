"""The arithmetic of fair k-means (Schmidt, Schwiegelshohn and Sohler 2018), wherever it is done.

`bounds` says what is fair; `assignment` gives points to centers fairly at least cost, by `flow` where two groups are
to be balanced exactly and by a linear program otherwise; `dual` prices the same assignment from sums over points alone,
so that a federation can do it; `masses` makes whole numbers of what was priced.
"""
