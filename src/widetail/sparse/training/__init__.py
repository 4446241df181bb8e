"""How the posterior of a sparse model is found: natural gradients, Adam, choices by held-out rows."""

from widetail.sparse.training._extrapolate import LONGEST as LONGEST
from widetail.sparse.training._extrapolate import extrapolate as extrapolate
from widetail.sparse.training._extrapolate import extrapolation as extrapolation
from widetail.sparse.training._minibatch import minibatch_step as minibatch_step
from widetail.sparse.training._minibatch import moments_of as moments_of
from widetail.sparse.training._minibatch import refresh as refresh
from widetail.sparse.training._minibatch import variational_of as variational_of
