from .finish import CompressLines as CompressLines
from .job import (
    SCORE as SCORE,
    ScoreRun as ScoreRun,
    begin_score as begin_score,
    build_score_pipeline as build_score_pipeline,
    conclude_score as conclude_score,
    run_of as run_of,
    sketch_score as sketch_score,
    start_run as start_run,
    texts_to_import as texts_to_import,
)
from .plan_settings import (
    LoadedScorers as LoadedScorers,
    ModelMemory as ModelMemory,
    ScoreSpec as ScoreSpec,
    row_setting as row_setting,
    settle_each as settle_each,
    settle_named as settle_named,
    settle_sharing as settle_sharing,
)
from .prepare import (
    PLANS_FOLDER as PLANS_FOLDER,
    ScoreJob as ScoreJob,
    ScorePlan as ScorePlan,
    plan_again as plan_again,
    plan_score as plan_score,
    resume_score as resume_score,
)
from .rescale import RESCALE as RESCALE
from .rows import PairTexts as PairTexts, score_table as score_table, score_texts as score_texts
from .scored_table import (
    SCHEMA_VERSION as SCHEMA_VERSION,
    ScoredPairs as ScoredPairs,
    ScoredTable as ScoredTable,
    metadata_by_language as metadata_by_language,
    part_metadata as part_metadata,
)
from .show_run import (
    estimate_words as estimate_words,
    run_warnings as run_warnings,
    show_summary as show_summary,
)
from .steps import ScoreSplits as ScoreSplits, SplitScorer as SplitScorer, ToScore as ToScore
