"""Parts of reports, as a page or as Markdown; means, tables and figures."""
