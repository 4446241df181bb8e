"""Errors of clusters."""


class PoisonedTileError(ValueError):
    """A tile came out with NaN or infinite entries.

    Attributes:
        rows: rows of x that take part in them, the first ones.
    """

    def __init__(self, message: str, rows: tuple[int, ...]):
        self.rows = rows
        super().__init__(message)

    def __reduce__(self):
        return type(self), (self.args[0], self.rows)


class ClusterError(RuntimeError):
    """The cluster could not finish; what it has finished is in the store, and the same call goes on from there."""
