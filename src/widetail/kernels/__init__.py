"""Evaluation of kernels at scale: tiles, threads, memory, gradients; stationary baselines."""

from widetail.kernels._base import Kernel as Kernel
from widetail.kernels._cost import Cost as Cost
from widetail.kernels._stationary import RBF as RBF
from widetail.kernels._stationary import Matern as Matern
from widetail.kernels._values import CrossFn as CrossFn
from widetail.kernels._values import Get as Get
from widetail.kernels._values import KernelValues as KernelValues
from widetail.kernels._values import Rows as Rows
from widetail.kernels._values import RowsFn as RowsFn
