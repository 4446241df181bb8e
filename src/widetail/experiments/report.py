"""Reports: sections of prose, tables and figures, as a page that needs nothing else."""

from widetail.experiments._figures import png as png
from widetail.experiments._page import to_html as to_html
from widetail.experiments._report import Code as Code
from widetail.experiments._report import Figure as Figure
from widetail.experiments._report import Prose as Prose
from widetail.experiments._report import Report as Report
from widetail.experiments._report import Section as Section
from widetail.experiments._report import Table as Table
