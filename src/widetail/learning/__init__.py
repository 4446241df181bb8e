"""Learning: hyperparameters by evidence, and choices between architectures."""

from widetail.learning._choose import Choice as Choice
from widetail.learning._choose import choose as choose
from widetail.learning._fit import EvidenceFit as EvidenceFit
from widetail.learning._fit import fit_evidence as fit_evidence
from widetail.learning._hyperpriors import HYPERPRIORS as HYPERPRIORS
from widetail.learning._input_fit import learn_noise_field as learn_noise_field
from widetail.learning._integrate import Integrated as Integrated
from widetail.learning._integrate import integrate_evidence as integrate_evidence
from widetail.learning._learn import Learned as Learned
from widetail.learning._learn import learn as learn
from widetail.learning._noise_choice import NOISES as NOISES
from widetail.learning._noise_choice import NoiseChoice as NoiseChoice
from widetail.learning._noise_choice import NoiseName as NoiseName
from widetail.learning._noise_choice import choose_noise as choose_noise
from widetail.learning._noise_choice import noise_of_kind as noise_of_kind
from widetail.learning._noise_choice import with_noise_of_kind as with_noise_of_kind
from widetail.learning._parameters import Parameters as Parameters
from widetail.learning._row_law import learn_row_law as learn_row_law
from widetail.learning._stacking import stacking_weights as stacking_weights
from widetail.learning._weighted_posterior import WeightedPosterior as WeightedPosterior
