from .baseline_options import BaselineOptions as BaselineOptions
from .baseline_plan import (
    BaselineJob as BaselineJob,
    BaselinePlan as BaselinePlan,
    prepare_baseline as prepare_baseline,
    usual_models as usual_models,
)
from .baseline_tables import (
    CHECKS as CHECKS,
    FEW_PAIRS as FEW_PAIRS,
    LARGE_ERROR as LARGE_ERROR,
    check_moments as check_moments,
    describe_certainty as describe_certainty,
    describe_layers as describe_layers,
    draw_distributions as draw_distributions,
    warnings_of as warnings_of,
)
from .blocks import (
    BlockRecord as BlockRecord,
    BlockWriter as BlockWriter,
    ReadFile as ReadFile,
    SentenceBlock as SentenceBlock,
    SentenceIndex as SentenceIndex,
    read_block as read_block,
)
from .collect_sentences import (
    collect_samples as collect_samples,
)
from .extract import (
    ExtractSettings as ExtractSettings,
    extract_block as extract_block,
    fetch_file as fetch_file,
    labels_fetched as labels_fetched,
    lanes_of_files as lanes_of_files,
    waves_of_files as waves_of_files,
)
from .job import BASELINE as BASELINE, begin_baseline as begin_baseline
from .layer_moments import sum_scores as sum_scores
from .sample import (
    PairingPlan as PairingPlan,
    PairSentences as PairSentences,
    TakeSample as TakeSample,
    lanes_of_blocks as lanes_of_blocks,
    read_sample as read_sample,
    rows_by_value as rows_by_value,
    sample_digest as sample_digest,
)
from .sources import (
    SENTENCES_FOLDER as SENTENCES_FOLDER,
    FileBlock as FileBlock,
    PairsRecord as PairsRecord,
    SentenceFile as SentenceFile,
    Source as Source,
    SourceFiles as SourceFiles,
    blocks_of_files as blocks_of_files,
    pairs_path as pairs_path,
    pairs_record_path as pairs_record_path,
    record_path as record_path,
)
from .table_difference import (
    PUBLISHED as PUBLISHED,
    Comparison as Comparison,
    Table as Table,
    compare_sides as compare_sides,
    compare_tables as compare_tables,
    open_side as open_side,
    rank_correlation as rank_correlation,
    read_table as read_table,
)
