"""Evaluation of any kernel: tiles, threads, memory, gradients, and NumPy where that is faster."""
