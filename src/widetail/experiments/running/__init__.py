"""Doing the tasks of an experiment, keeping what they find, and having the report written."""

from widetail.experiments.running._json import as_json as as_json
from widetail.experiments.running._json import differences as differences
from widetail.experiments.running._store import LINES as LINES
