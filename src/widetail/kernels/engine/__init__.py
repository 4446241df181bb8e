"""Evaluation of any kernel: tiles, threads, memory, gradients, and NumPy where that is faster."""

from widetail.kernels.engine._by_hand import pull_back_by_hand as pull_back_by_hand
from widetail.kernels.engine._pullback import pull_back as pull_back
