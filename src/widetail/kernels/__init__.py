"""Evaluation of kernels at scale: tiles, threads, memory, gradients; kernels of vectors; sums, products."""

from widetail.kernels._anova import Anova as Anova
from widetail.kernels._base import Kernel as Kernel
from widetail.kernels._base import from_config as from_config
from widetail.kernels._base import to_config as to_config
from widetail.kernels._composite import Product as Product
from widetail.kernels._composite import Scaled as Scaled
from widetail.kernels._composite import Sum as Sum
from widetail.kernels._cost import Cost as Cost
from widetail.kernels._distances import squared_distances as squared_distances
from widetail.kernels._engine import evaluate as evaluate
from widetail.kernels._facts import matrix_facts as matrix_facts
from widetail.kernels._facts import matrix_notes as matrix_notes
from widetail.kernels._inputs import check_get as check_get
from widetail.kernels._inputs import check_inputs as check_inputs
from widetail.kernels._linear import Linear as Linear
from widetail.kernels._memory import available_memory as available_memory
from widetail.kernels._power import PowerExponential as PowerExponential
from widetail.kernels._stationary import RBF as RBF
from widetail.kernels._stationary import Matern as Matern
from widetail.kernels._stationary import RationalQuadratic as RationalQuadratic
from widetail.kernels._tiles import tile_rows as tile_rows
from widetail.kernels._values import CrossFn as CrossFn
from widetail.kernels._values import Get as Get
from widetail.kernels._values import KernelValues as KernelValues
from widetail.kernels._values import Rows as Rows
from widetail.kernels._values import RowsFn as RowsFn
