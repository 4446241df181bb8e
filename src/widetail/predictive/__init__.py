"""Predictive distributions."""

from widetail.predictive._base import Predictive as Predictive
from widetail.predictive._base import points_index as points_index
from widetail.predictive._elliptical import Elliptical as Elliptical
from widetail.predictive._from_scale import from_scale as from_scale
from widetail.predictive._matrix import LazyMatrix as LazyMatrix
from widetail.predictive._mixture import NormalMixture as NormalMixture
from widetail.predictive._normal import Normal as Normal
from widetail.predictive._own_scales import OwnScales as OwnScales
from widetail.predictive._recalibrated import Recalibrated as Recalibrated
from widetail.predictive._rescaled import Rescaled as Rescaled
from widetail.predictive._scale_mixture import NormalScaleMixture as NormalScaleMixture
from widetail.predictive._student_mixture import student_mixture_root as student_mixture_root
from widetail.predictive._student_t import StudentT as StudentT
from widetail.predictive._transformed import Rounded as Rounded
from widetail.predictive._transformed import Transformed as Transformed
from widetail.predictive._warps import BentWarp as BentWarp
from widetail.predictive._warps import BoundedWarp as BoundedWarp
from widetail.predictive._warps import PositiveWarp as PositiveWarp
from widetail.predictive._warps import Warp as Warp
from widetail.predictive._weighted import Weighted as Weighted
