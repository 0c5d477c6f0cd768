from .explain_rows import (
    StoredRow as StoredRow,
    explain_row as explain_row,
    extreme_rows as extreme_rows,
    named_rows as named_rows,
    read_idf as read_idf,
    read_stored as read_stored,
    row_config as row_config,
)
from .explain_terminal import terminal as terminal
from .group_rows import (
    check_outside as check_outside,
    groups_of_run as groups_of_run,
    outcome_of_groups as outcome_of_groups,
)
from .page import MOST_CHARACTERS as MOST_CHARACTERS, MOST_ROWS as MOST_ROWS, render as render
from .report_options import ReportOptions as ReportOptions
from .report_rows import (
    MOST_BARS as MOST_BARS,
    ChosenRow as ChosenRow,
    Night as Night,
    ReportData as ReportData,
    Texts as Texts,
    collect as collect,
)
