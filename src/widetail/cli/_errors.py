"""What a command says when it cannot go on: one line that says what to do."""


class CommandError(Exception):
    """Something about the data, the files or the machine; exit code 1."""


class UsageError(CommandError):
    """Something about the command line itself; exit code 2."""
