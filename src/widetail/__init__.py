"""Infinitely wide Bayesian neural networks with heavy tails."""

from widetail import kernels as kernels
from widetail import nn as nn
