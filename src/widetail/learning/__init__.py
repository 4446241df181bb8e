"""Learning: hyperparameters by evidence, and choices between architectures."""

from widetail.learning._choose import Choice as Choice
from widetail.learning._choose import choose as choose
from widetail.learning._fit import EvidenceFit as EvidenceFit
from widetail.learning._fit import fit_evidence as fit_evidence
from widetail.learning._hyperpriors import HYPERPRIORS as HYPERPRIORS
from widetail.learning._integrate import Integrated as Integrated
from widetail.learning._integrate import integrate_evidence as integrate_evidence
from widetail.learning._learn import Learned as Learned
from widetail.learning._learn import learn as learn
from widetail.learning._parameters import Parameters as Parameters
from widetail.learning._row_fit import learn_row_law as learn_row_law
from widetail.learning._weighted_posterior import WeightedPosterior as WeightedPosterior
