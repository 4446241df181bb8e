"""Checks of what users pass in, and its conversion; each once."""

from widetail.checks._counts import check_count as check_count
from widetail.checks._parameters import as_parameter as as_parameter
from widetail.checks._parameters import check_number as check_number
from widetail.checks._parameters import check_places as check_places
from widetail.checks._parameters import check_variance as check_variance
from widetail.checks._parameters import is_zero as is_zero
from widetail.checks._targets import check_targets as check_targets
from widetail.checks._targets import like_targets as like_targets
from widetail.checks._targets import two_dimensional as two_dimensional
