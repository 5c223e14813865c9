"""A site's own data as named columns, from a file or from a function of the site's own (docs/own-data.md).

A `DataError` is for the site's own log: it names file, column and row. Only its `code` may travel to the fusion center.
pandas and pyarrow are imported where they are needed: a site may start a process for every message that it answers.
"""

from clients.data.column_selection import (
    cell_name,
    holds_numbers,
    match_columns,
    numeric,
    sensitive_columns,
    split_patterns,
)
from clients.data.files import ENDINGS, read_table, site_files, site_name
from clients.data.source import load
from clients.data.table import Code, DataError, Table, make_table, quote, setting

__all__ = [
    "ENDINGS",
    "Code",
    "DataError",
    "Table",
    "cell_name",
    "holds_numbers",
    "load",
    "make_table",
    "match_columns",
    "numeric",
    "quote",
    "read_table",
    "sensitive_columns",
    "setting",
    "site_files",
    "site_name",
    "split_patterns",
]
