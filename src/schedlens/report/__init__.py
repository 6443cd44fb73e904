"""The report: sections, figures, tables, and the page."""
