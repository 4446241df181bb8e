"""q(scale): the variational law of the readout variance, one for all outputs and all points of a draw.

A law for each kind of prior: a point for a `PointMass`, an inverse gamma for an `InverseGamma`, and for any other prior
a categorical on a grid of logarithms.
"""

from widetail.sparse.scales._base import ScaleLaw as ScaleLaw
from widetail.sparse.scales._families import law_for as law_for
from widetail.sparse.scales._grid import GridScale as GridScale
from widetail.sparse.scales._inverse_gamma import InverseGammaScale as InverseGammaScale
from widetail.sparse.scales._point import PointScale as PointScale
