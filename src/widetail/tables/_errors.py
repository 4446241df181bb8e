"""What is said about a table that cannot be read."""


class TableError(ValueError):
    """Something about the cells of a table.

    Attributes:
        problem: what is wrong, in which column and row.
        remedies: arguments that would help, such as ("drop", "day"), or ("impute", None) for a mere switch.
    """

    def __init__(self, problem: str, *remedies: tuple[str, str | None]):
        self.problem = problem
        self.remedies = remedies
        tried = " or ".join(name if value is None else f"{name}={value!r}" for name, value in remedies)
        super().__init__(f"{problem} Try {tried}." if tried else problem)


class CellTypeError(TableError, TypeError):
    """A cell that is neither a number nor a date nor a text."""
