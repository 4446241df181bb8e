"""What is said about a table that cannot be read."""


class TableError(ValueError):
    """Something about the cells of a table.

    Attributes:
        problem: what is wrong, in which column and row.
        remedies: options that would help, such as ("drop", "day"), which the message says in Python's words.
    """

    def __init__(self, problem: str, *remedies: tuple[str, str | None]):
        self.problem = problem
        self.remedies = remedies
        tried = " or ".join(_in_python(name, value) for name, value in remedies)
        super().__init__(f"{problem} Try {tried}." if tried else problem)


def _in_python(name: str, value: str | None) -> str:
    if name == "drop":
        return f"X.drop(columns=[{value!r}])"
    argument = [value] if name == "categorical" else value
    return f"table=wt.TableEncoder({name}={argument!r})"


class CellTypeError(TableError, TypeError):
    """A cell that is neither a number nor a date nor a text."""
