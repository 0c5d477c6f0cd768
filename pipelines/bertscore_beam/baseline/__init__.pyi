from .baseline_options import BaselineOptions as BaselineOptions
from .baseline_plan import prepare_baseline as prepare_baseline, usual_models as usual_models
from .baseline_tables import (
    CHECKS as CHECKS,
    FEW_PAIRS as FEW_PAIRS,
    LARGE_ERROR as LARGE_ERROR,
    check_moments as check_moments,
    describe_layers as describe_layers,
    draw_distributions as draw_distributions,
    warnings_of as warnings_of,
)
from .extract import (
    ReadFile as ReadFile,
    SentenceIndex as SentenceIndex,
    lanes_of_files as lanes_of_files,
    read_lane as read_lane,
    read_rows as read_rows,
    write_sentences as write_sentences,
)
from .job import BASELINE as BASELINE, begin_baseline as begin_baseline
from .layer_moments import sum_scores as sum_scores
from .sample import (
    lanes_of as lanes_of,
    pair_stage as pair_stage,
    read_sample as read_sample,
    rows_by_value as rows_by_value,
    sample_digest as sample_digest,
    sample_stage as sample_stage,
)
from .sources import (
    PairsRecord as PairsRecord,
    SentenceFile as SentenceFile,
    Source as Source,
    SourceFiles as SourceFiles,
    pairs_path as pairs_path,
    pairs_record_path as pairs_record_path,
    write_record as write_record,
)
from .table_difference import (
    PUBLISHED as PUBLISHED,
    Table as Table,
    compare_sides as compare_sides,
    compare_tables as compare_tables,
    open_side as open_side,
    rank_correlation as rank_correlation,
    read_table as read_table,
)
