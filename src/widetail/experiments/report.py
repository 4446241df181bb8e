"""Reports: sections of prose, tables and figures, as a page that needs nothing else, or as Markdown."""

from widetail.experiments.reporting._aggregate import paired_differences as paired_differences
from widetail.experiments.reporting._aggregate import summarise as summarise
from widetail.experiments.reporting._aggregate import summary as summary
from widetail.experiments.reporting._figures import png as png
from widetail.experiments.reporting._markdown import to_markdown as to_markdown
from widetail.experiments.reporting._page import to_html as to_html
from widetail.experiments.reporting._parts import Bullets as Bullets
from widetail.experiments.reporting._parts import Code as Code
from widetail.experiments.reporting._parts import Figure as Figure
from widetail.experiments.reporting._parts import Prose as Prose
from widetail.experiments.reporting._parts import Report as Report
from widetail.experiments.reporting._parts import Section as Section
from widetail.experiments.reporting._parts import Table as Table
from widetail.experiments.reporting._parts import TextTable as TextTable
from widetail.experiments.reporting._tables import between as between
from widetail.experiments.reporting._tables import ours as ours
from widetail.experiments.reporting._tables import papers as papers
from widetail.experiments.reporting._tables import side_by_side as side_by_side
