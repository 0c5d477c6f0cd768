"""Dumps of language models in the forms in which programs publish them, read without a script."""

import json

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from bertscore_beam.dump.candidates import explode_candidates
from bertscore_beam.dump.columns import CANDIDATE, CANDIDATE_FROM, TableFields
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.dump.texts import Rows
from bertscore_core.errors import InputError
from tests.support.text_files import plan_text, read_texts, to_jsonl, write_text


def both_formats(folder, rows):
    """Write rows as lines of JSON, and as Parquet with the types that Arrow finds in them."""
    lines = write_text(folder / "a.jsonl", to_jsonl(rows))
    pq.write_table(pyarrow.json.read_json(lines), folder / "b.parquet")
    return lines, folder / "b.parquet"


def answer(place, text):
    """Return a choice of the Chat Completions API."""
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return {"index": place, "message": message, "logprobs": None, "finish_reason": "stop"}


def batch_line(number, texts, ref="r", **error):
    """Return a line of the output file of OpenAI's Batch API and of vLLM's run_batch."""
    body = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1711652795,
        "model": "gpt-4o-mini",
        "choices": [answer(place, text) for place, text in enumerate(texts)],
        "usage": {"prompt_tokens": 22, "completion_tokens": 2, "total_tokens": 24},
        "system_fingerprint": "fp_123",
    }
    response = {"status_code": 200, "request_id": f"req_{number}", "body": body}
    return {
        "id": f"batch_req_{number}",
        "custom_id": f"request-{number}",
        "response": None if error else response,
        "error": error or None,
        "ref": ref,
    }


BATCH = [
    batch_line(1, ["one", "uno"]),
    batch_line(2, [None, "two"]),
    batch_line(3, [], code="batch_expired", message="This request could not be executed."),
]


def test_batch_files_are_read_by_the_first_choice_or_by_all(tmp_path):
    for path in both_formats(tmp_path, BATCH):
        first = read_texts(path, "response.body.choices[0].message.content")
        assert [row[:2] for row in first] == [("one", None), (None, None), (None, None)]
        every = read_texts(path, "response.body.choices.message.content")
        assert every == [
            ("one", "0", ["r"], None),
            ("uno", "1", ["r"], None),
            (None, "0", ["r"], None),
            ("two", "1", ["r"], None),
            (None, None, ["r"], "no_candidates"),
        ]


def test_samples_are_repeated_with_the_whole_answer_beside_them(tmp_path):
    path = both_formats(tmp_path, BATCH)[1]
    fields = TableFields(
        candidate_column="response.body.choices.message.content", reference_column="ref"
    )
    table = pq.read_table(path)
    rows = explode_candidates(Rows(table, fields))
    assert rows.table.column_names == [
        *table.column_names, CANDIDATE, CANDIDATE_FROM,
    ]  # fmt: skip
    assert rows.table.select(table.column_names).equals(table.take([0, 0, 1, 1, 2]))
    read_again = Rows(rows.table, fields)
    assert read_again.candidates.to_pylist() == ["one", "uno", None, "two", None]


def parts(*texts, image=None):
    """Return the content of a message in parts, as the Chat Completions API takes it."""
    image_part = {"type": "image_url", "image_url": {"url": image}}
    texts = [{"type": "text", "text": text} for text in texts]
    return [*texts, image_part] if image else texts


def chat(user, last):
    return {
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": user},
            {"role": "assistant", "content": last},
        ],
        "ref": "r",
    }


def test_the_last_message_of_a_chat_is_read_in_parts_or_not_in_any_order(tmp_path):
    rows = [chat("hi", "plain"), chat(parts("a", image="x"), parts("in ", "parts")), chat("", None)]
    texts = {0: "plain", 1: "in parts", 2: None}
    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        folder = tmp_path / "-".join(map(str, order))
        path = write_text(folder / "a.jsonl", to_jsonl([rows[place] for place in order]))
        found = read_texts(path, "messages[-1].content")
        assert [row[0] for row in found] == [texts[place] for place in order]
        assert [row[3] for row in found] == [None] * 3
    asked = read_texts(path, "messages[-1].content", "messages[1].content")
    assert [references for _, _, references, _ in asked] == [[""], ["hi"], ["a"]]


def test_late_parts_are_read_and_other_values_reject_their_row_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("bertscore_beam.dump.text.to_parquet.SAMPLE_BYTES", 100)
    rows = [*[chat("hi", "plain")] * 3, chat("hi", parts("late")), chat("hi", 5), chat("hi", [7])]
    found = read_texts(write_text(tmp_path / "a.jsonl", to_jsonl(rows)), "messages[-1].content")
    assert [row[0] for row in found] == ["plain"] * 3 + ["late", None, None]
    assert [row[3] for row in found] == [None] * 4 + ["type_drift"] * 2


def test_parts_without_types_are_read_in_any_order_without_thoughts(tmp_path):
    """Parts of Gemini, whose batches are lines of such objects, and of Bedrock."""
    gemini = [{"thought": True, "text": "Hm."}, {"text": "Paris "}, {"text": "it is."}]
    bedrock = [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "b"}]
    for name, content, joined in (("g", gemini, "Paris it is."), ("b", bedrock, "b")):
        rows = {"plain": chat("hi", "plain"), joined: chat("hi", content)}
        for order in (["plain", joined], [joined, "plain"], [joined]):
            path = tmp_path / f"{name}{len(order)}{order[0][0]}.jsonl"
            path = write_text(path, to_jsonl([rows[text] for text in order]))
            found = read_texts(path, "messages[-1].content")
            assert [(row[0], row[3]) for row in found] == [(text, None) for text in order]


def test_parts_elsewhere_are_kept_as_before(tmp_path):
    rows = [chat("hi", "a") | {"other": "x"}, chat("hi", "b") | {"other": parts("y")}]
    path = write_text(tmp_path / "a.jsonl", to_jsonl(rows))
    fields = TableFields(candidate_column="messages[-1].content", reference_column="ref")
    plan = plan_text(path, tmp_path / "out", fields=fields)
    table = read_split(plan.splits[0])
    assert json.loads(table["other"][1].as_py()) == parts("y")


def test_answers_in_parts_are_read_from_batches_of_other_interfaces(tmp_path):
    """The Responses API of OpenAI with reasoning before its answer; Anthropic's Message Batches."""
    said = {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "role": None}
    answer = {"type": "message", "id": "msg_1", "content": [said, said], "role": "assistant"}
    output = {"id": "resp_1", "object": "response", "output": [thought, answer]}
    responses = {"custom_id": "1", "response": {"status_code": 200, "body": output}, "ref": "r"}
    blocks = [{"type": "text", "text": "b"}, {"type": "tool_use", "id": "t", "name": "n"}]
    message = {"id": "msg_2", "type": "message", "role": "assistant", "content": blocks}
    done = {"type": "succeeded", "message": message}
    failed = {"type": "errored", "error": {"type": "invalid_request", "message": "m"}}
    anthropic = [
        {"custom_id": name, "result": one, "ref": "r"} for name, one in (("1", done), ("2", failed))
    ]
    for number, (rows, path, texts) in enumerate(
        [
            ([responses], "response.body.output[-1].content", ["aa"]),
            (anthropic, "result.message.content", ["b", None]),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        for file in both_formats(tmp_path / str(number), rows):
            assert [row[0] for row in read_texts(file, path)] == texts


SAMPLE = {
    "doc_id": 0,
    "doc": {"question": "q", "answer": "a"},
    "target": "gold",
    "arguments": {"gen_args_0": {"arg_0": "prompt", "arg_1": {"until": ["\n"], "do_sample": True}}},
    "resps": [["s1", "s2"]],
    "filtered_resps": ["s1"],
    "filter": "none",
    "metrics": ["exact_match"],
    "doc_hash": "d",
    "prompt_hash": "p",
    "target_hash": "t",
    "exact_match": 0.0,
}


def test_samples_of_lm_eval_are_read_by_response_or_by_all(tmp_path):
    for path in both_formats(tmp_path, [SAMPLE]):
        for name in ("filtered_resps[0]", "resps[0][0]", "resps.0.0"):
            assert read_texts(path, name, "target") == [("s1", None, ["gold"], None)]
        every = [("s1", "0", ["gold"], None), ("s2", "1", ["gold"], None)]
        assert read_texts(path, "resps[0]", "target") == every
        assert read_texts(path, "filtered_resps", "target") == every[:1]
        with pytest.raises(InputError, match=r"'resps' holds no texts.*Convert the column"):
            read_texts(path, "resps", "target")


ANSWERS = [{"text": "a", "answer_start": 1}, {"text": "b", "answer_start": 5}]


def test_answers_of_squad_are_references_in_both_published_forms(tmp_path):
    datasets = pytest.importorskip("datasets")
    text, start = datasets.Value("string"), datasets.Value("int32")
    forms = {
        "squad": {"text": ["a", "b"], "answer_start": [1, 5]},  # as the Hub has it
        "original": ANSWERS,  # as its authors publish it
    }
    kinds = {
        "squad": datasets.Sequence({"text": text, "answer_start": start}),
        "original": datasets.List({"text": text, "answer_start": start}),
    }
    for name, answers in forms.items():
        features = datasets.Features({"id": text, "guess": text, "answers": kinds[name]})
        rows = datasets.Dataset.from_list([{"id": "1", "guess": "g", "answers": answers}], features)
        folder = tmp_path / name
        folder.mkdir()
        rows.to_parquet(folder / "a.parquet")
        rows.to_json(folder / "a.jsonl")
        for suffix in ("parquet", "jsonl"):
            found = read_texts(folder / f"a.{suffix}", "guess", "answers.text")
            assert found == [("g", None, ["a", "b"], None)]


def test_a_file_of_json_without_rows_has_the_columns_of_the_paths(tmp_path):
    path = write_text(tmp_path / "a.jsonl", b"\n")
    fields = TableFields(
        candidate_column="messages[-1].content", reference_column="messages.0.ref.text"
    )
    plan = plan_text(path, tmp_path / "out", fields=fields)
    schema = read_split(plan.splits[0]).schema
    message = pa.struct([("content", pa.string()), ("ref", pa.struct([("text", pa.string())]))])
    assert schema.field("messages").type == pa.list_(message)
