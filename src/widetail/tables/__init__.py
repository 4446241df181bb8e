"""Frames to numbers and back: types of columns, formats of numbers, categories, missing cells."""

from widetail.tables._columns import Column as Column
from widetail.tables._columns import clean as clean
from widetail.tables._columns import numbers as numbers
from widetail.tables._columns import texts as texts
from widetail.tables._detect import detect_columns as detect_columns
from widetail.tables._detect import looks_measured as looks_measured
from widetail.tables._errors import TableError as TableError
from widetail.tables._numbers import NumberFormat as NumberFormat
from widetail.tables._schema import Schema as Schema
from widetail.tables._schema import Task as Task
from widetail.tables._words import listed as listed
from widetail.tables._words import nearest_first as nearest_first
