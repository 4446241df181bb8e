"""What can go wrong on the way to a data set."""


class DataUnavailableError(OSError):
    """A data set is neither on this machine nor within reach of it."""


class ChecksumError(OSError):
    """A file is there, but its content is not the content of the data set."""
