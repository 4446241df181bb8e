"""Likelihoods of sparse models: what is observed, given the latent functions."""

from widetail.sparse.likelihoods._base import Expectations as Expectations
from widetail.sparse.likelihoods._base import Likelihood as Likelihood
from widetail.sparse.likelihoods._bernoulli import Bernoulli as Bernoulli
from widetail.sparse.likelihoods._categorical import Categorical as Categorical
from widetail.sparse.likelihoods._gaussian import Gaussian as Gaussian
from widetail.sparse.likelihoods._poisson import Poisson as Poisson
from widetail.sparse.likelihoods._student_t import StudentT as StudentT
