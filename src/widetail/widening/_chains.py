"""A model as layers of `nn`, where it is a chain of them; the fast way."""

import dataclasses
from typing import Any

from widetail.widening._source import WidenError


@dataclasses.dataclass
class Chained:
    net: Any
    look: Any
    front: Any
    roles: dict
    fan_ins: dict
    notes: tuple


def read_chain(closed, built, leaves, input_shape):
    raise WidenError("not yet")
