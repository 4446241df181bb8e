"""Reports: sections of prose, tables and figures, as a page that needs nothing else, or as Markdown."""

from widetail.experiments._aggregate import paired_differences as paired_differences
from widetail.experiments._aggregate import summarise as summarise
from widetail.experiments._aggregate import summary as summary
from widetail.experiments._figures import png as png
from widetail.experiments._markdown import to_markdown as to_markdown
from widetail.experiments._page import to_html as to_html
from widetail.experiments._report import Bullets as Bullets
from widetail.experiments._report import Code as Code
from widetail.experiments._report import Figure as Figure
from widetail.experiments._report import Prose as Prose
from widetail.experiments._report import Report as Report
from widetail.experiments._report import Section as Section
from widetail.experiments._report import Table as Table
from widetail.experiments._report import TextTable as TextTable
from widetail.experiments._tables import between as between
from widetail.experiments._tables import ours as ours
from widetail.experiments._tables import papers as papers
from widetail.experiments._tables import side_by_side as side_by_side
