"""Errors that several rooms raise."""


class DivergenceError(FloatingPointError):
    """Training diverged: the loss is NaN or infinite."""
