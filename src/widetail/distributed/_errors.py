"""What can go wrong between a program, its stores and its cluster."""

from typing import Any


class StoreMismatchError(ValueError):
    """A store was begun with something else: another network, other data, another dtype.

    Attributes:
        location: the store.
        name: what differs.
        before, now: its two values.
    """

    def __init__(self, location: str, name: str, before: Any, now: Any):
        self.location, self.name, self.before, self.now = location, name, before, now
        super().__init__(
            f"store: {location!r} was begun with another {name} ({before!r}, now {now!r}); its tiles are not mixed "
            f"with others. Use another store, or restart=True to discard it."
        )

    def __reduce__(self):
        return type(self), (self.location, self.name, self.before, self.now)


class StoreBusyError(RuntimeError):
    """Another run is writing to the store."""


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
