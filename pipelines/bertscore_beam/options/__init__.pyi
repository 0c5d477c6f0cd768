from .answer_options import (
    CheckOptions as CheckOptions,
    ExplainOptions as ExplainOptions,
    GroupsOptions as GroupsOptions,
    ModelsOptions as ModelsOptions,
    TablesOptions as TablesOptions,
)
from .declare import (
    COLUMN as COLUMN,
    COLUMNS as COLUMNS,
    MEASURES as MEASURES,
    NAMES as NAMES,
    RUN as RUN,
    RUNS as RUNS,
    Option as Option,
    Options as Options,
    by_name as by_name,
    declared as declared,
    summary_of as summary_of,
)
from .flags import (
    StrictParser as StrictParser,
    read_options as read_options,
    split_arguments as split_arguments,
)
from .run_options import (
    OTHERS as OTHERS,
    DumpOptions as DumpOptions,
    RunOptions as RunOptions,
    language_map as language_map,
)
from .score_options import (
    ACCELERATOR as ACCELERATOR,
    DEVICE as DEVICE,
    IDF_WORDS as IDF_WORDS,
    IdfOptions as IdfOptions,
    ImportOptions as ImportOptions,
    RescaleOptions as RescaleOptions,
    ScoreOptions as ScoreOptions,
    ScoringOptions as ScoringOptions,
    SelectOptions as SelectOptions,
)
from .values import (
    alternatives as alternatives,
    check_group_columns as check_group_columns,
    check_value as check_value,
    load_yaml as load_yaml,
)
