"""The posterior of the readout variance: closed form, quadrature, importance sampling."""

from widetail.mixing._closed import ClosedPosterior as ClosedPosterior
from widetail.mixing._closed import log_inverse_gamma_integral as log_inverse_gamma_integral
from widetail.mixing._condition import Method as Method
from widetail.mixing._condition import scale_posterior as scale_posterior
from widetail.mixing._importance import ImportancePosterior as ImportancePosterior
from widetail.mixing._importance import ImportanceWarning as ImportanceWarning
from widetail.mixing._likelihoods import IndependentNoiseLikelihood as IndependentNoiseLikelihood
from widetail.mixing._likelihoods import ScaledNoiseLikelihood as ScaledNoiseLikelihood
from widetail.mixing._likelihoods import ScaleLikelihood as ScaleLikelihood
from widetail.mixing._likelihoods import gaussian_log_factor as gaussian_log_factor
from widetail.mixing._pareto import pareto_k as pareto_k
from widetail.mixing._posterior import ScaleDiagnostics as ScaleDiagnostics
from widetail.mixing._posterior import ScalePosterior as ScalePosterior
from widetail.mixing._quadrature import QuadraturePosterior as QuadraturePosterior
