"""General numerics: precision, special functions, integrals, roots, factors, threads of BLAS."""

from widetail.numerics._arrays import compiled_if_large as compiled_if_large
from widetail.numerics._arrays import concrete as concrete
from widetail.numerics._arrays import double_precision as double_precision
from widetail.numerics._arrays import is_traced as is_traced
from widetail.numerics._arrays import namespace as namespace
from widetail.numerics._arrays import with_rows as with_rows
from widetail.numerics._blas import FEW_OPERATIONS as FEW_OPERATIONS
from widetail.numerics._blas import cores as cores
from widetail.numerics._blas import in_parallel as in_parallel
from widetail.numerics._blas import one_thread as one_thread
from widetail.numerics._blas import threads_for as threads_for
from widetail.numerics._cholesky import JITTERS as JITTERS
from widetail.numerics._cholesky import CholeskyFactor as CholeskyFactor
from widetail.numerics._cholesky import cholesky as cholesky
from widetail.numerics._cholesky import cholesky_in_jax as cholesky_in_jax
from widetail.numerics._errors import DivergenceError as DivergenceError
from widetail.numerics._integrate import Bounds as Bounds
from widetail.numerics._integrate import Cuts as Cuts
from widetail.numerics._integrate import Integral as Integral
from widetail.numerics._integrate import integrate as integrate
from widetail.numerics._roots import increasing_root as increasing_root
