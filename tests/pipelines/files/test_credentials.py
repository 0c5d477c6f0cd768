"""Credentials are masked wherever they stand in a text."""

import pytest

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.paths import resolve
from bertscore_core import ConfigError

NAMES = (
    "pwd pass password passwd auth sas sig signature code jwt bearer token key secret credential"
    " api_key apikey access_key AWSAccessKeyId X-Amz-Security-Token X-Goog-Credential accessToken"
)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("s3://user:pass@bucket/x", "s3://***@bucket/x"),
        (
            "https://h/x.parquet?X-Amz-Signature=abc&a=1",
            "https://h/x.parquet?X-Amz-Signature=***&a=1",
        ),
        ("https://h/x?sig=abc", "https://h/x?sig=***"),
        ("--secret_key=abc", "--secret_key=***"),
        ("http://user:p@ss@w@host/x@y", "http://***@host/x@y"),
        ("http://user@host/x", "http://***@host/x"),
        *(
            (f"https://h/x?a=1&{name}=hunter2&b=2", f"https://h/x?a=1&{name}=***&b=2")
            for name in NAMES.split()
        ),
        ("--experiments=x,token=abc", "--experiments=x,token=***"),
        ("--option=password=abc", "--option=password=***"),
        ("?next=https%3A%2F%2Fh%2Fx%3Fsig%3Dabc&a=1", "?next=https%3A%2F%2Fh%2Fx%3Fsig%3D***&a=1"),
        ("got {'api_key': 'a b', 'anon': 'x'}", "got {'api_key': '***', 'anon': 'x'}"),
        ('{"secret": "a\\"b", "region": "x"}', '{"secret": "***", "region": "x"}'),
        ("AccountName=a;AccountKey=b+/=;x=1", "AccountName=a;AccountKey=***;x=1"),
        ("Authorization: Basic aGk6aGk=", "Authorization: Basic ***"),
        ("bearer eyJ.a-b_c", "bearer ***"),
        ("--max_batch_tokens=512 tokenizer:5e0a", "--max_batch_tokens=512 tokenizer:5e0a"),
        ("--author=me --passes=3 --design=x", "--author=me --passes=3 --design=x"),
        ("s3://b/token=1/year=2026/a.parquet", "s3://b/token=1/year=2026/a.parquet"),
        ("--runner=DataflowRunner", "--runner=DataflowRunner"),
        ("s3://KEY:SEC/RET+x@bucket/a.parquet", "s3://***@bucket/a.parquet"),
        ("s3://b/api_key=0123456789abcdef/x", "s3://b/api_key=***/x"),
        ("got token:hunter2, expected", "got token:***, expected"),
        ("X-Api-Key: hunter2", "X-Api-Key: ***"),
        ("https://h/x;jsessionid=0A1B?a=1", "https://h/x;jsessionid=***"),
        ("s3://bucket/a:b/c@2", "s3://bucket/a:b/c@2"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("signature: bertscore|model:x|tokenizer:5e", "signature: bertscore|model:x|tokenizer:5e"),
        ("/data/a@b/key=1.parquet", "/data/a@b/key=1.parquet"),
    ],
)
def test_credentials_are_masked(text, masked):
    assert mask_credentials(text) == masked


@pytest.mark.parametrize("unit", ["a=", "~", "s3://a:", "s3://a:b/", "'a':\"", "Authorization: "])
def test_long_texts_are_masked_without_recursion(unit: str) -> None:
    text = 100_000 * unit
    assert mask_credentials(f"{text} token=x") == f"{text} token=***"


@pytest.mark.parametrize("store", ["KEY:hunter2@b", "KEY:hun/ter2@b", "hunter2@b", "b:9000"])
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_bucket_with_credentials_or_a_port_is_refused_without_a_word_of_them(
    store: str, scheme: str
) -> None:
    with pytest.raises(ConfigError, match=r"://BUCKET/PATH\. Give them") as refused:
        resolve(f"{scheme}://{store}/x.parquet")
    assert "hun" not in str(refused.value)
    point = "arn:aws:s3:us-west-2:123456789012:accesspoint/name"
    assert resolve(f"s3://{point}/a:b@c")[1] == f"{point}/a:b@c"
