"""Parts of reports, as a page or as Markdown; means, tables and figures."""

from widetail.experiments.reporting._reliability import pooled_reliability as pooled_reliability
