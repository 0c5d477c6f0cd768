from .agreement import (
    agreement_of_systems as agreement_of_systems,
    auc as auc,
    hybrid_agreement as hybrid_agreement,
    kendall as kendall,
    pearson as pearson,
    soft_system_accuracy as soft_system_accuracy,
    spearman as spearman,
    system_agreement as system_agreement,
    system_means as system_means,
)
from .caveats import (
    FEW_CLUSTERS as FEW_CLUSTERS,
    FEW_ROWS as FEW_ROWS,
    Caveat as Caveat,
    CaveatKind as CaveatKind,
    CaveatOfGroups as CaveatOfGroups,
    caveat_cells as caveat_cells,
    caveat_words as caveat_words,
    caveats_of_difference as caveats_of_difference,
    caveats_of_groups as caveats_of_groups,
    caveats_of_mean as caveats_of_mean,
    caveats_of_values as caveats_of_values,
)
from .estimates import (
    Estimates as Estimates,
    Resampled as Resampled,
    accuracy_with_ties as accuracy_with_ties,
    check_pairs as check_pairs,
    darr as darr,
    within_item_kendall as within_item_kendall,
)
from .intervals import (
    carriers as carriers,
    carriers_of as carriers_of,
    check_confidence as check_confidence,
    few_carry as few_carry,
    mean_intervals as mean_intervals,
    method_of as method_of,
    student_quantile as student_quantile,
)
from .moments import (
    BINS as BINS,
    HOST_BITS as HOST_BITS,
    HOST_BUCKETS as HOST_BUCKETS,
    MAX_PAIRS as MAX_PAIRS,
    Moments as Moments,
)
from .paired import (
    POWER as POWER,
    RESAMPLES as RESAMPLES,
    ClusterSums as ClusterSums,
    CorpusResult as CorpusResult,
    PairedResult as PairedResult,
    PairedSums as PairedSums,
    compare_corpora as compare_corpora,
    compare_paired as compare_paired,
    holm as holm,
    least_p as least_p,
    paired_result as paired_result,
)
from .score_statistics import (
    MEASURES as MEASURES,
    NOT_COUNTED as NOT_COUNTED,
    STATISTIC_BINS as STATISTIC_BINS,
    Doubles as Doubles,
    GroupedRows as GroupedRows,
    PackedHistogram as PackedHistogram,
    ScoreStatistics as ScoreStatistics,
    UnknownTokens as UnknownTokens,
    clipped_f1 as clipped_f1,
    is_clipped as is_clipped,
    statistics_by_group as statistics_by_group,
)
from .scores import Scores as Scores, ScoreSummary as ScoreSummary
