"""Made-up reports: every section, in the scripts and with the names that are hard to show."""

from dataclasses import replace

from bertscore_beam.compare.results import (
    Comparison,
    GroupComparison,
    PairCounts,
    RankedSystem,
    Ranking,
)
from bertscore_beam.compare.settings import FieldDifference, SettingsDifference
from bertscore_beam.dump.census import WHOLE, Group
from bertscore_beam.pages.report_data import ChosenRow, MeanOfRows, Night, ReportData, Texts
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.records.finished import RowPlace, RunSummary
from bertscore_beam.records.groups import GroupRow
from bertscore_core.stats.paired import PairedResult
from tests.support import made_runs

SIGNATURE = replace(made_runs.SIGNATURE, model="all-MiniLM-L6-v2").format()

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "<img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066 \u061c\u200f",
    "]]></style><svg onload=alert(1)>",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt; \" ' `",
    "http://example.invalid/pixel.png",
    "line\nbreak\x00\x1b[31m\ud800\ufffe\uffff",
)

TEXTS = tuple(
    Texts(candidate=candidate, references=tuple(references), language=language)
    for language, candidate, *references in (
        ("ar", "جلست القطة على السجادة (3 مرات).", "كانت القطة على السجادة.", "القطة فوق البساط."),
        ("ja", "猫がマットの上に座った。", "マットの上に猫がいた。"),
        ("he", "החתול ישב על המחצלת, abc 123.", "החתול על המחצלת."),
        ("zh-cn", "猫坐在垫子上。👩‍👩‍👧‍👦", "垫子上有一只猫。"),
        *((None, words, words[::-1]) for words in HOSTILE),
        ("en", "long " * 900, "word" * 400),
    )
)


def group_row(
    *name: str | None, f1: float | None = 0.8, rows: int = 1000, **values: object
) -> GroupRow:
    """Return a group with plausible numbers; without F1, one without scores."""
    numbers: dict[str, object] = {
        "rows": rows,
        "scored": rows - 7 if f1 is not None else 0,
        "rejected": 7 if f1 is not None else rows,
        "truncated": rows // 90,
        **dict.fromkeys(("text_tokens", "unknown_tokens", "only_unknown_tokens"), 0),
        "reasons": {},
        "rejected_reasons": {},
    }
    for measure, more in (("precision", 0.01), ("recall", -0.01), ("f1", 0.0)):
        for end, half in (("", 0.0), ("_low", -0.004), ("_high", 0.004)):
            numbers[measure + end] = None if f1 is None else f1 + more + half
    for share, more in ((5, -0.2), (25, -0.06), (50, 0.01), (75, 0.06), (95, 0.12)):
        numbers[f"raw_f1_q{share:02}"] = None if f1 is None else f1 + more
    return GroupRow(group=name, values=numbers | values)


def bars(f1: float) -> tuple[tuple[float, float, int], ...]:
    """Return a histogram around a score."""
    heights = [40 - abs(at - round(64 * f1)) * 6 for at in range(64)]
    return tuple((at / 64, (at + 1) / 64, rows) for at, rows in enumerate(heights) if rows > 0)


def chosen_row(at: int, *, texts: Texts | None, moved: bool = False) -> ChosenRow:
    """Return a row that is shown by itself."""
    return ChosenRow(
        place=RowPlace(f"news/shard-{at:03}.parquet", 17 * at),
        group=("system-a", HOSTILE[at % len(HOSTILE)]),
        precision=0.31 + at / 50,
        recall=0.29 + at / 50,
        f1=0.3 + at / 50,
        tokens=30 + at,
        reason="empty_candidate" if at == 2 else None,
        before=0.5 if moved else None,
        candidate_before="القطة على السجادة." if moved and texts and not at else None,
        texts=texts,
        key=(str(at), HOSTILE[at % len(HOSTILE)]),
    )


def comparison_of(name: Group, at: int) -> GroupComparison:
    """Return the comparison of one group; the first is worse and the last is better."""
    counts = dict.fromkeys(PairCounts.__dataclass_fields__, 3)
    counts |= {"pairs": 990, "up": 40 * at}
    mean = -0.01 + at / 400
    interval = (mean - 0.003, mean + 0.003)
    return GroupComparison(
        group=name,
        counts=PairCounts(**counts),
        mean=0.79,
        against_mean=0.8,
        result=PairedResult(pairs=990, confidence=0.95, difference=mean, interval=interval),
        p_adjusted=min(1.0, 0.00001 * 9**at),
    )


def made_report(*, with_texts: bool) -> ReportData:
    """Return a report with every section, whose names and texts are hostile."""
    names = [("system-a", "de"), ("system-b", None), *(("نظام", words) for words in HOSTILE)]
    names.append(("MAXIMUM-WIDTH-SYSTEM-01", "b" * 90))
    groups = tuple(group_row(*name, f1=0.85 - at / 60) for at, name in enumerate(names))
    rows = list(enumerate(TEXTS if with_texts else [None] * len(TEXTS)))
    chosen = tuple(chosen_row(at, texts=texts) for at, texts in rows)
    moved = tuple(chosen_row(at, texts=texts, moved=True) for at, texts in rows)
    harmless = FieldDifference(field="torch", run="2.13.0", against="2.12.0")
    moving = FieldDifference(field="idf", run="a|b", against="none", language="de")
    by = ("system", "<b>pair</b>")
    changes = tuple(comparison_of(name, at) for at, name in enumerate(names))
    nights = tuple(
        Night(
            run=f"scores/2026-11-{day:02}",
            started=f"2026-11-{day:02} 02:00:00",
            total=group_row(f1=0.8 + day / 500, rows=9000, scored=8990, rejected=10),
            comparable=day > 3,
            groups={
                name: MeanOfRows(0.7 + day / 400 - at / 50, 900) for at, name in enumerate(names)
            },
        )
        for day in range(1, 15)
    )
    return ReportData(
        run="s3://bucket/scores/2026-11-20",
        started="2026-11-20 02:00:00",
        made="2026-11-20 06:30:00",
        options=ReportOptions(
            run="s3://bucket/scores/*",
            by=by,
            key=("segment",),
            system_column="<i>system</i>",
            with_texts=with_texts,
        ),
        rescaled=False,
        total=group_row(
            f1=0.8,
            rows=9000,
            reasons={"null_candidate": 40, "empty_reference": 11},
            rejected_reasons={"null_candidate": 40},
        ),
        histogram=bars(0.8),
        groups=groups,
        ranking=Ranking(
            measure="f1",
            test="randomization",
            group=WHOLE,
            rows=900,
            confidence=0.95,
            systems=tuple(
                RankedSystem(
                    system=words,
                    mean=0.8 - at / 50,
                    first=max(1, at),
                    last=at + 2,
                    cluster=1 + at // 3,
                    wins=len(HOSTILE) - at,
                )
                for at, words in enumerate(HOSTILE)
            ),
        ),
        languages=tuple(
            group_row(code, f1=0.7 + at / 40) for at, code in enumerate(["ar", "de", "ja"])
        ),
        lengths=tuple(
            group_row(
                str(2**at), str(2 ** (at + 1) - 1), f1=0.84 - at / 70, scored=900, truncated=at
            )
            for at in range(3, 10)
        ),
        rejected_files=(("dump/<broken>.parquet", "not_parquet"),),
        worst=chosen,
        best=chosen[::-1],
        comparisons=(
            Comparison(
                run="s3://bucket/scores/2026-11-20",
                against="s3://bucket/scores/2026-11-19",
                measure="f1",
                key=(),
                by=by,
                cluster="document",
                confidence=0.95,
                drop=None,
                settings=SettingsDifference(noise=1e-6, harmless=(harmless,), moving=(moving,)),
                whole=comparison_of(WHOLE, 0),
                groups=changes,
                warnings=("Three rows of <the other> run have other references.",),
            ),
        ),
        fallen=moved,
        risen=moved[::-1],
        nights=nights,
        summary=RunSummary(
            parts=9,
            rows=80_000,
            content={},
            reused=8000,
            seconds=75.2,
            scoring_seconds=4000.0,
            pairs_per_second=120.5,
            tokens=1_234_567,
            padding=0.0321,
        ),
        parts=9,
        part_bytes=12_345_678,
        signatures={None: SIGNATURE},
        notices=(
            "The other run was made with other settings: do not read small changes as a trend.",
        ),
    )
