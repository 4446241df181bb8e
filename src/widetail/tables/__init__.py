"""Frames to numbers: types of columns, formats of numbers, categories, dates, missing cells, kernels of such rows."""

from widetail.tables._cells import Cells as Cells
from widetail.tables._cells import cells_of as cells_of
from widetail.tables._cells import columns_of as columns_of
from widetail.tables._cells import is_frame as is_frame
from widetail.tables._columns import Column as Column
from widetail.tables._columns import as_json as as_json
from widetail.tables._columns import level_key as level_key
from widetail.tables._columns import numbers as numbers
from widetail.tables._dates import parse_dates as parse_dates
from widetail.tables._detect import Detected as Detected
from widetail.tables._detect import detect_columns as detect_columns
from widetail.tables._detect import looks_measured as looks_measured
from widetail.tables._encoder import Encoded as Encoded
from widetail.tables._encoder import TableEncoder as TableEncoder
from widetail.tables._errors import TableError as TableError
from widetail.tables._gaps import JointNormal as JointNormal
from widetail.tables._kernel import Grouped as Grouped
from widetail.tables._kernel import for_table as for_table
from widetail.tables._numbers import NumberFormat as NumberFormat
from widetail.tables._targets import Task as Task
from widetail.tables._targets import detect_goal as detect_goal
from widetail.tables._targets import read_labels as read_labels
from widetail.tables._targets import read_numbers as read_numbers
from widetail.tables._targets import task_of as task_of
from widetail.tables._words import listed as listed
from widetail.tables._words import nearest_first as nearest_first
