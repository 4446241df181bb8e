"""Gaussian expectations of functions: what layers and programs both compute their covariances with."""

from widetail.gaussian import arc as arc
from widetail.gaussian._breaks import Breaks as Breaks
from widetail.gaussian._breaks import find_breaks as find_breaks
from widetail.gaussian._complaints import complaint as complaint
from widetail.gaussian._hermite import graded_rule as graded_rule
from widetail.gaussian._hermite import hermite_coefficients as hermite_coefficients
from widetail.gaussian._hermite import hermite_rule as hermite_rule
from widetail.gaussian._hermite import mehler_sum as mehler_sum
from widetail.gaussian._hermite import spread_power as spread_power
from widetail.gaussian._norms import norm_and_inverse as norm_and_inverse
from widetail.gaussian._norms import what_is_left as what_is_left
from widetail.gaussian._pieces import coefficients_by_pieces as coefficients_by_pieces
