"""Intervals with a guarantee of coverage that holds whether or not the model is right.

Every method here ends in the same step: each observed row says where a new y may lie, and the interval leaves out as
few of them as the coverage asks for. The guarantees need rows that are exchangeable: drawn independently from one
distribution, new ones included, or in a random order. They are on average over data sets and new rows, not for every
single input; `groups` makes them hold within each group.
"""

from widetail.conformal._cross import CrossFits as CrossFits
from widetail.conformal._groups import Groups as Groups
from widetail.conformal._left_out import full as full
from widetail.conformal._left_out import jackknife_plus as jackknife_plus
