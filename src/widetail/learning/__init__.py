"""Learning: hyperparameters by evidence, and choices between architectures."""

from widetail.learning._choose import Choice as Choice
from widetail.learning._choose import choose as choose
from widetail.learning._fit import EvidenceFit as EvidenceFit
from widetail.learning._fit import fit_evidence as fit_evidence
