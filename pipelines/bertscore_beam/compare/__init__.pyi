from .compare import (
    check_paired as check_paired,
    compare_runs as compare_runs,
    unpaired_words as unpaired_words,
)
from .compare_options import CompareOptions as CompareOptions
from .comparison_tables import (
    answer_of as answer_of,
    document_of as document_of,
    failures_of as failures_of,
    tables_of as tables_of,
    verdict as verdict,
    warnings_in as warnings_in,
)
from .gate import judge as judge
from .paired_sides import rank as rank
from .results import (
    WHOLE as WHOLE,
    Compared as Compared,
    Comparison as Comparison,
    FieldDifference as FieldDifference,
    Group as Group,
    GroupComparison as GroupComparison,
    MovedRow as MovedRow,
    PairCounts as PairCounts,
    RankedSystem as RankedSystem,
    Ranking as Ranking,
    SettingsDifference as SettingsDifference,
    compare_settings as compare_settings,
    noise_of as noise_of,
    stated_signatures as stated_signatures,
)
