"""A small grammar for `name(value, key=value)`: names and numbers, nothing that could run.

call   = name [ "(" [ entry { "," entry } ] ")" ]
entry  = [ key "=" ] value
value  = number | name
"""

import re
from dataclasses import dataclass, field

from widetail.cli._errors import UsageError

Value = int | float | bool | str

TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<name>[A-Za-z][\w-]*)|(?P<mark>[(),=]))"
)


@dataclass(frozen=True)
class Call:
    """A name with its arguments, as written."""

    name: str
    positional: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)


def parse_call(option: str, text: str) -> Call:
    """Read one call; a `UsageError` error says where it stops making sense."""
    return _Reader(option, text).call()


class _Reader:
    def __init__(self, option: str, text: str):
        self.option = option
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            found = TOKEN.match(text, position)
            if found is None:
                raise self.error(f"{text[position:].strip()[:20]!r} is neither a name nor a number")
            self.tokens.append((str(found.lastgroup), found.group(str(found.lastgroup))))
            position = found.end()
        self.place = 0

    def error(self, complaint: str) -> UsageError:
        return UsageError(f"{self.option} {self.text!r}: {complaint}; write it like name(1.5, key=2).")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")

    def take(self, kind: str, what: str, mark: str | None = None) -> str:
        found, value = self.peek()
        if found != kind or (mark is not None and value != mark):
            raise self.error(f"{what} is expected {f'before {value!r}' if value else 'at the end'}")
        self.place += 1
        return value

    def call(self) -> Call:
        call = Call(self.take("name", "a name"))
        if self.peek() == ("mark", "("):
            self.place += 1
            while self.peek() != ("mark", ")"):
                self.entry(call)
                if self.peek() != ("mark", ")"):
                    self.take("mark", "',' or ')'", ",")
            self.place += 1
        if self.peek()[0] != "end":
            raise self.error(f"nothing may follow, but {self.peek()[1]!r} does")
        return call

    def entry(self, call: Call) -> None:
        value = self.value()
        if self.peek() != ("mark", "="):
            if call.named:
                raise self.error(f"{value!r} without a name follows a named value")
            call.positional.append(value)
            return
        if not isinstance(value, str):
            raise self.error(f"a name is expected before '=', not {value!r}")
        self.place += 1
        if value in call.named:
            raise self.error(f"{value} is given twice")
        call.named[value] = self.value()

    def value(self) -> Value:
        kind, text = self.peek()
        if kind == "number":
            self.place += 1
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
        name = self.take("name", "a name or a number")
        return {"true": True, "false": False}.get(name.lower(), name)
