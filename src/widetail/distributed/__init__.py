"""Kernels and exact inference on a Dask cluster, stored in Zarr, surviving dead workers.

JAX is imported only when it is needed, because workers that only factor matrices can save its memory.
"""

from widetail.distributed._conjugate import ConjugateGradients as ConjugateGradients
from widetail.distributed._conjugate import IterativeSolver as IterativeSolver
from widetail.distributed._conjugate import conjugate_gradients as conjugate_gradients
from widetail.distributed._errors import ClusterError as ClusterError
from widetail.distributed._errors import PoisonedTileError as PoisonedTileError
from widetail.distributed._factor import BlockCholesky as BlockCholesky
from widetail.distributed._factor import cholesky as cholesky
from widetail.distributed._gram import Gram as Gram
from widetail.distributed._gram import fill_on_cluster as fill_on_cluster
from widetail.distributed._gram import gram as gram
from widetail.stores import StoreBusyError as StoreBusyError
from widetail.stores import StoreDamagedError as StoreDamagedError
from widetail.stores import StoreMismatchError as StoreMismatchError
