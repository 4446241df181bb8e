"""The theory experiments: laws of finite networks against their limits."""

from widetail.experiments.running._registry import Experiment, config_of
from widetail.experiments.theory._config import TheoryConfig
from widetail.experiments.theory._report import findings
from widetail.experiments.theory._tasks import tasks

EXPERIMENT = Experiment(
    title="Theorems 3.1 to 3.3 on finite networks",
    question=(
        "Do finite networks with a random readout variance follow the law that the theorems predict for infinite "
        "width, at initialisation, with a trained readout and with all layers trained; are similar but wrong laws "
        "rejected; and how fast does the distance to the limit fall with the width?"
    ),
    config=config_of(TheoryConfig),
    tasks=tasks,
    findings=findings,
)
