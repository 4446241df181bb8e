"""What can go wrong with a store."""

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


class StoreDamagedError(ValueError):
    """Something in a store is not what was written there, and cannot be computed again by itself.

    Attributes:
        location: the store.
        what: what is damaged.
    """

    def __init__(self, location: str, what: str):
        self.location, self.what = location, what
        super().__init__(f"store: {location!r} is damaged: {what}. Use another store, or restart=True to discard it.")

    def __reduce__(self):
        return type(self), (self.location, self.what)


class StoreBusyError(RuntimeError):
    """Another run is writing to the store."""
