"""Errors that several rooms raise."""


class DivergenceError(FloatingPointError):
    """Training has left the numbers: the loss is NaN or infinite."""
