"""Fair k-means (Schmidt, Schwiegelshohn and Sohler 2018).

- `bounds`: definition of a fair cluster;
- `clustering`: the algorithms; `seeding` has k-means++ and Lloyd's algorithm, `fairlets` the pairs of points;
- `assignment`: the cheapest fair assignment of points to centers, by `flow` if two groups are balanced exactly, else by
  `linear_program`, both on `restricted_arcs`;
- `dual`: prices of the same assignment from sums over points, for a federation;
- `rounding` and `apportionment`: whole numbers from fractional masses.
"""
