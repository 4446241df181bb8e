"""Infinite-width limits of models that users have already."""

from widetail.widening._check import Check as Check
from widetail.widening._check import Comparison as Comparison
from widetail.widening._finite import FiniteModel as FiniteModel
from widetail.widening._kernel import UncheckedWarning as UncheckedWarning
from widetail.widening._kernel import Wide as Wide
from widetail.widening._primitives import refused as refused
from widetail.widening._primitives import understood as understood
from widetail.widening._source import WidenError as WidenError
from widetail.widening._widen import widen as widen
