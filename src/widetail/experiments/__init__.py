"""The paper's experiments, and ours: `reproduce(name)` runs one and writes a report.

Every experiment is a configuration, a list of tasks and a report. Its results are appended to a file as they come; a
run that was interrupted goes on where it stopped.
"""

from widetail.experiments._registry import MODULES as _MODULES
from widetail.experiments._reproduce import Reproduced as Reproduced
from widetail.experiments._reproduce import reproduce as reproduce
from widetail.experiments._reproduce import reproduced as reproduced
from widetail.experiments._store import ConfigChangedError as ConfigChangedError

NAMES: tuple[str, ...] = tuple(_MODULES)
