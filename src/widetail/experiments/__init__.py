"""The paper's experiments, and ours: `reproduce(name)` runs one and writes a report.

Every experiment is a configuration, a list of tasks and a report. Its results are appended to a file as they come; a
run that was interrupted goes on where it stopped. What a new one is made of is here and in `experiments.report`.
"""

from widetail.experiments._registry import MODULES as _MODULES
from widetail.experiments._registry import Experiment as Experiment
from widetail.experiments._registry import Findings as Findings
from widetail.experiments._registry import Results as Results
from widetail.experiments._reproduce import Reproduced as Reproduced
from widetail.experiments._reproduce import reproduce as reproduce
from widetail.experiments._reproduce import reproduced as reproduced
from widetail.experiments._runner import Outcome as Outcome
from widetail.experiments._runner import Task as Task
from widetail.experiments._runner import rows_of as rows_of
from widetail.experiments._runner import run_tasks as run_tasks
from widetail.experiments._store import ConfigChangedError as ConfigChangedError
from widetail.experiments._store import Store as Store

NAMES: tuple[str, ...] = tuple(_MODULES)
