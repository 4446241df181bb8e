"""Errors of data sets."""


class DataUnavailableError(OSError):
    """A data set is not on this machine and cannot be downloaded."""


class ChecksumError(OSError):
    """A file is there, but its content is not the content of the data set."""
