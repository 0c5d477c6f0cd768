"""Score the samples of Inspect's logs through its own data frame: several targets are one text."""

from inspect_ai.analysis import SampleColumn, SampleSummary, samples_df

from bertscore_beam import score_frame

answer = SampleColumn("answer", path="output.completion", full=True)
frame = samples_df("logs", columns=[*SampleSummary, answer])
scored = score_frame(frame, candidate="answer", reference="target", device="cpu")
