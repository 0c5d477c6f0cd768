from .counting import COUNTS_FOLDER as COUNTS_FOLDER, Counting as Counting, Vocabulary as Vocabulary
from .counts import (
    Repeats as Repeats,
    SplitCount as SplitCount,
    count_from_bytes as count_from_bytes,
    count_to_bytes as count_to_bytes,
    describe_tables as describe_tables,
    repeat_words as repeat_words,
    table_warnings as table_warnings,
)
from .idf_tables import (
    MOST_TABLES as MOST_TABLES,
    WHOLE as WHOLE,
    IdfKey as IdfKey,
    IdfTables as IdfTables,
    SavedIdf as SavedIdf,
    load_idf as load_idf,
    note_path as note_path,
)
from .job import (
    IDF as IDF,
    begin_idf as begin_idf,
    idf_stages as idf_stages,
    plan_idf as plan_idf,
    repeats_in_sample as repeats_in_sample,
)
from .owners import (
    NO_KEY as NO_KEY,
    KeyedRows as KeyedRows,
    Owned as Owned,
    RowKeys as RowKeys,
    choose_owners as choose_owners,
    key_of_all as key_of_all,
    keyed_rows as keyed_rows,
    keys_of_languages as keys_of_languages,
    num_buckets as num_buckets,
    row_keys as row_keys,
    table_fields as table_fields,
)
from .transforms import CountDocumentFrequencies as CountDocumentFrequencies, SaveIdf as SaveIdf
