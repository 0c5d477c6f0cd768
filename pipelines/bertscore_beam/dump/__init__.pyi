from .candidates import (
    check_candidates as check_candidates,
    input_rows as input_rows,
    multiplied as multiplied,
)
from .census import (
    MOST_GROUPS as MOST_GROUPS,
    MOST_LANGUAGES as MOST_LANGUAGES,
    OPTION as OPTION,
    Census as Census,
    Group as Group,
    GroupColumns as GroupColumns,
    RowGroups as RowGroups,
    check_number as check_number,
    first_splits as first_splits,
    groups_of as groups_of,
    take_census as take_census,
)
from .columns import (
    CANDIDATE as CANDIDATE,
    CANDIDATE_FROM as CANDIDATE_FROM,
    METRIC_COLUMNS as METRIC_COLUMNS,
    METRIC_COUNTS as METRIC_COUNTS,
    METRICS as METRICS,
    OUTPUT_COLUMNS as OUTPUT_COLUMNS,
    SCHEMA_KEY as SCHEMA_KEY,
    SCORES as SCORES,
    SELECT_COLUMNS as SELECT_COLUMNS,
    TableFields as TableFields,
    append_scores as append_scores,
    check_choosing_columns as check_choosing_columns,
    check_collisions as check_collisions,
    check_columns as check_columns,
    no_column as no_column,
)
from .digests import (
    Digests as Digests,
    RowDigests as RowDigests,
    digest_columns as digest_columns,
    digest_table as digest_table,
    digest_texts as digest_texts,
)
from .inputs import (
    AUTO as AUTO,
    TWO_FILES as TWO_FILES,
    Codec as Codec,
    Format as Format,
    InputFile as InputFile,
    above_partitions as above_partitions,
    common_folder as common_folder,
    expand_inputs as expand_inputs,
    format_of as format_of,
    input_names as input_names,
    partitions_of as partitions_of,
    with_partitions as with_partitions,
)
from .languages import (
    NO_CODE as NO_CODE,
    NO_LANGUAGE as NO_LANGUAGE,
    by_name as by_name,
    count_other_scripts as count_other_scripts,
    is_code as is_code,
    language_of as language_of,
    scripts_of as scripts_of,
    words_for as words_for,
)
from .parquet import (
    SIGNATURE_KEY as SIGNATURE_KEY,
    SIGNATURES_KEY as SIGNATURES_KEY,
    UNREADABLE as UNREADABLE,
    footer_digest as footer_digest,
    is_signed as is_signed,
    open_parquet as open_parquet,
    read_layout as read_layout,
    write_part as write_part,
)
from .paths import (
    column_of as column_of,
    has_column as has_column,
    is_list as is_list,
    root_of as root_of,
    roots_of as roots_of,
)
from .plan import (
    FileReason as FileReason,
    Imports as Imports,
    Notes as Notes,
    Plan as Plan,
    RejectedError as RejectedError,
    RejectedFile as RejectedFile,
    Resources as Resources,
    check_all_reached as check_all_reached,
    check_place as check_place,
    few_rows_words as few_rows_words,
    grouped as grouped,
    plan_from_bytes as plan_from_bytes,
    plan_inputs as plan_inputs,
    plan_to_bytes as plan_to_bytes,
    rejected_file as rejected_file,
    rejection_to_json as rejection_to_json,
    rows_words as rows_words,
    shape_digest as shape_digest,
)
from .read_rows import (
    SplitReader as SplitReader,
    SplitRows as SplitRows,
    read_split as read_split,
    read_text as read_text,
)
from .reasons import Reason as Reason
from .splits import (
    MOST_RUNS as MOST_RUNS,
    MOST_SPLIT_BYTES as MOST_SPLIT_BYTES,
    MOST_SPLIT_ROWS as MOST_SPLIT_ROWS,
    RowGroup as RowGroup,
    Split as Split,
    SplitRun as SplitRun,
    Splits as Splits,
    note_name as note_name,
    part_name as part_name,
    plan_file as plan_file,
    reading_words as reading_words,
    rows_for_workers as rows_for_workers,
    split_runs as split_runs,
)
from .text.arrays import json_columns as json_columns
from .text.text_source import (
    IMPORTS_FOLDER as IMPORTS_FOLDER,
    INPUT_FOLDER as INPUT_FOLDER,
    TextFile as TextFile,
    texts_among as texts_among,
)
from .text.to_parquet import write_line_files as write_line_files, write_rows as write_rows
from .texts import (
    Rows as Rows,
    Text as Text,
    UnreadableText as UnreadableText,
    candidate_reason as candidate_reason,
    languages_of as languages_of,
    only_strings as only_strings,
    reference_reason as reference_reason,
    reference_texts as reference_texts,
    texts_from_column as texts_from_column,
    values_as_text as values_as_text,
)
from .types import (
    Batches as Batches,
    check_indices as check_indices,
    has_utc_times as has_utc_times,
    lost_types as lost_types,
    without_views as without_views,
)
