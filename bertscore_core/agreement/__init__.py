"""How well scores agree with people: correlations, their errors, and tests between settings.

Scores come as S settings of the same N rows; judgements once. Needs scipy, which the extras
`results` and `tune` bring.

    judgements, scores --statistic--> Estimates --> errors, intervals, p_below

| over | statistic |
| --- | --- |
| segments | `pearson`, `spearman`, `kendall`; `auc` for labels; `darr` without items |
| outputs of one input | `accuracy_with_ties`, `within_item_kendall`, `darr` |
| systems | `system_agreement`, `hybrid_agreement` |
"""

from bertscore_core.agreement.estimates import RESAMPLES, Estimates, Resampled
from bertscore_core.agreement.hybrids import HybridAgreement, hybrid_agreement
from bertscore_core.agreement.inputs import complete_rows
from bertscore_core.agreement.items import (
    CalibratedAccuracy,
    accuracy_with_ties,
    check_pairs,
    darr,
    within_item_kendall,
)
from bertscore_core.agreement.segments import auc, kendall, pearson, spearman
from bertscore_core.agreement.significance import (
    not_below_best,
    permutation,
    williams,
    williams_test,
)
from bertscore_core.agreement.systems import (
    SystemAgreement,
    agreement_of_systems,
    system_agreement,
    system_means,
)

__all__ = [
    "RESAMPLES",
    "CalibratedAccuracy",
    "Estimates",
    "HybridAgreement",
    "Resampled",
    "SystemAgreement",
    "accuracy_with_ties",
    "agreement_of_systems",
    "auc",
    "check_pairs",
    "complete_rows",
    "darr",
    "hybrid_agreement",
    "kendall",
    "not_below_best",
    "pearson",
    "permutation",
    "spearman",
    "system_agreement",
    "system_means",
    "williams",
    "williams_test",
    "within_item_kendall",
]
