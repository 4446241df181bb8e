"""Finite models of any library: their tangent kernels, their linear approximations, their training and its error."""

from widetail.empirical._expansion import linearize as linearize
from widetail.empirical._expansion import taylor_expand as taylor_expand
from widetail.empirical._kernel import EmpiricalKernel as EmpiricalKernel
from widetail.empirical._kernel import Tangent as Tangent
from widetail.empirical._models import Model as Model
from widetail.empirical._models import as_model as as_model
from widetail.empirical._monte_carlo import MonteCarlo as MonteCarlo
from widetail.empirical._monte_carlo import monte_carlo as monte_carlo
from widetail.empirical._outputs import Layout as Layout
from widetail.empirical._plan import Cost as Cost
from widetail.empirical._plan import Plan as Plan
from widetail.empirical._trained import LinearisedRegressor as LinearisedRegressor
from widetail.empirical._trained_classifier import LinearisedClassifier as LinearisedClassifier
from widetail.empirical._training import LinearTraining as LinearTraining
from widetail.empirical._training import max_rate as max_rate
from widetail.empirical._training import train_by_flow as train_by_flow
