import io
import re
import tracemalloc
import zlib
from collections import Counter
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.crawl.fetch import CrawlFileError
from bertscore_beam.crawl.warc import (
    MAX_HEAD_BYTES,
    MAX_PAGE_BYTES,
    RECORDS,
    RECORDS_BROKEN,
    Page,
    read_pages,
)
from tests.support.wet import member, record, some_pages, warcinfo, wet_bytes, wet_members

LAYOUTS = ("each", "pairs", "one", "none")
LINE_ENDS = (b"\r\n", b"\n")
GOOD = record(b"good\n", url="https://good.example/")


def read(data: bytes) -> tuple[list[Page], int, str]:
    """Read until the end or the error; return pages, number of records and the error."""
    pages, counts, said = [], Counter(), ""
    try:
        for page in read_pages(io.BytesIO(data), counts):
            pages.append(page)  # noqa: PERF402 - what came before the error counts
    except CrawlFileError as error:
        said = str(error)
    assert not said or said.startswith("a crawl file is not a whole WET file: ")
    assert not re.search("good|secret", said), "no message holds the text of a page"
    return pages, counts[RECORDS], said


def expected(pages: list[Page]) -> list[Page]:
    return [replace(page, text=page.text.removeprefix("\ufeff")) for page in pages]


@given(
    st.lists(
        st.builds(
            Page,
            url=st.sampled_from(["https://a.example/", "https://b.example/é"]),
            text=st.text()
            | st.sampled_from(["WARC/1.0\r\n", "\r\n\r\nWARC/1.0", "\n\n\n", "\0", "\ufeffship"]),
            languages=st.sampled_from([(), ("eng",), ("deu", "eng")]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from((*LAYOUTS, "mixed")),
    st.sampled_from(LINE_ENDS),
)
def test_pages_are_read_as_they_were_written_whatever_their_text(pages, members, line_end):
    if members == "mixed":
        first, *others = wet_members(pages, members="none", line_end=line_end)
        data = (
            member(b"") + member(first + b"".join(others[:2])) + b"".join(map(member, others[2:]))
        )
    else:
        data = wet_bytes(pages, members=members, line_end=line_end)
    assert read(data) == (expected(pages), len(pages) + 1, "")


@pytest.mark.parametrize("size", [50, 200, 700])
def test_members_of_equal_size_are_read_even_if_the_first_ends_within_a_record(size):
    pages = some_pages(3)
    data = wet_bytes(pages, members="none")
    members = [member(data[at : at + size]) for at in range(0, len(data), size)]
    members[1:1] = [member(b""), b"\0" * 9]
    assert read(b"".join(members)) == (expected(pages), len(pages) + 1, "")


def test_languages_come_from_the_header_the_main_one_first():
    for header, languages in ((b" DEU , eng ", ("deu", "eng")), (b"de,english,,nds", ("nds",))):
        data = record(b"x", change={b"WARC-Identified-Content-Language": header})
        assert read(member(data))[0][0].languages == languages


def test_headers_are_found_by_name_in_any_case_and_order_and_bad_utf8_is_replaced():
    head = (
        b"WARC/1.1\r\n"
        b"content-LENGTH:  6\r\n"
        b"X-New-Header: a: b\r\n  which goes on in the next line\r\n"
        b"warc-identified-content-language: lav\r\n"
        b"CONTENT-TYPE: Text/Plain; charset=utf-8\r\n"
        b"warc-target-uri: <https://a.example/>\r\n"
        b"WARC-TYPE: Conversion\r\n\r\n"
    )
    page = Page(url="https://a.example/", languages=("lav",), text="caf\ufffd \ufffd")
    assert read(member(head + b"caf\xe9 \xff" + b"\r\n\r\n")) == ([page], 1, "")


@pytest.mark.parametrize("value", [b"other", None])
@pytest.mark.parametrize("name", [b"WARC-Type", b"Content-Type"])
def test_records_that_are_no_plain_text_are_passed_over(name, value):
    data = member(record(b"not a page", change={name: value})) + member(GOOD)
    pages, records, _ = read(data)
    assert ([page.text for page in pages], records) == (["good\n"], 2)


LENGTHS = (None, b"four", b"-4", "٤".encode(), b"4" * 40, b"400", b"9" * 15, b"2")
WHOLE = wet_bytes(some_pages(120))
BROKEN = {
    **{
        f"length {value!r}": record(b"secret", change={b"Content-Length": value})
        for value in LENGTHS
    },
    "nothing behind the block": record(b"secret", after=b""),
    "one line end behind the block": record(b"secret", after=b"\r\n"),
    "too many line ends": record(b"secret", after=b"\r\n" * 100_000),
    "a header without a colon": record(b"secret", change={b"X\r\nno colon": b"1"}).replace(
        b"no colon: 1", b"no colon"
    ),
    "endless headers": record(b"secret", change={b"X": b"x" * (MAX_HEAD_BYTES + 300_000)}),
    "no end of the headers": b"WARC/1.0\r\nWARC-Type: conversion\r\n",
    "another version": record(b"secret").replace(b"WARC/1.0", b"WARC/2.0", 1),
    "no record": b"<!DOCTYPE html><html></html>",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("members", LAYOUTS)
def test_a_broken_record_is_an_error(members, kind):
    records = [warcinfo(), *[GOOD] * 3, BROKEN[kind], *[GOOD] * 40]
    size = {"each": 1, "pairs": 2, "one": 50, "none": 50}[members]
    parts = [b"".join(records[at : at + size]) for at in range(0, len(records), size)]
    pages, _, error = read(b"".join(parts if members == "none" else map(member, parts)))
    assert error
    assert len(pages) <= (43 if members == "each" else 4)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("place", [0, 61])
def test_a_broken_record_costs_itself_alone_where_each_is_a_member(place, kind):
    pages, counts = some_pages(120), Counter()
    parts = wet_members(pages)
    parts[place:place] = [member(BROKEN[kind])]
    assert list(read_pages(io.BytesIO(b"".join(parts)), counts)) == expected(pages)
    assert counts == {RECORDS: 122, RECORDS_BROKEN: 1}
    parts[20:20] = [member(BROKEN[kind])]
    assert "2 of its 123 records cannot be read" in read(b"".join(parts))[2]


@given(st.integers(1, 1 << 30), st.integers(0, 7))
def test_a_flipped_bit_costs_the_page_that_it_is_in_or_the_file(place, bit):
    pages, counts = expected(some_pages(120)), Counter()
    data = bytearray(WHOLE)
    data[place % len(data)] ^= 1 << bit
    try:
        got = list(read_pages(io.BytesIO(bytes(data)), counts))
    except CrawlFileError:
        assert place % len(data) < 3 or place % len(data) > len(data) - 1000
        return
    assert len(pages) - len(got) <= counts[RECORDS_BROKEN] <= 1
    assert [page for page in pages if page in got] == got


def test_what_stands_in_the_place_of_a_record_is_named_without_its_text():
    for data, words in {
        b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code> a secret": "<?xml <Error <Code",
        b"WARC/0.18\r\nWARC-Type: response\r\n": "'WARC/0.18'",
        b"PAR1\x15\x04": "'xxxx\\x15\\x04'",
        b"a secret text": "'x xxxxxx xxxx'",
    }.items():
        assert f"got {words} where a record begins" in read(data)[2]


def test_a_page_above_the_limit_is_passed_over_without_being_held():
    ends = b"\r\n\r\n"
    head = record(b"", change={b"Content-Length": b"%d" % (64 << 20)}, after=b"")
    packer = zlib.compressobj(wbits=31)
    bomb = packer.compress(head)
    for _ in range(64):
        bomb += packer.compress(b" " * (1 << 20))
    bomb += packer.compress(ends) + packer.flush()
    assert len(bomb) < 1 << 20
    assert len(read(member(record(b"x" * MAX_PAGE_BYTES)))[0]) == 1
    tracemalloc.start()
    try:
        pages, records, _ = read(bomb + member(GOOD))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ([page.text for page in pages], records) == (["good\n"], 2)
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("said", "files"),
    {
        "it has no page": [b"", wet_bytes([]), wet_bytes([], members="none"), member(b"") * 3],
        "where a record begins": [
            b"<?xml version='1.0'?><Error>secret</Error>",
            *(b"PAR1" + bytes(100), b"\x1f", b"secret", member(b"<html></html>")),
        ],
        "got Not a gzipped file": [
            member(GOOD) + after for after in (b"\r\n", b"\x1f", b"secret", GOOD)
        ],
        "got Compressed file ended": [member(GOOD)[:-1]],
        "incorrect data check": [member(GOOD)[:-5] + b"\0" + member(GOOD)[-4:]],
        "unknown compression method": [b"\x1f\x8b" + bytes(100)],
        "does not end after the number of bytes": [GOOD[:-3]],
    }.items(),
)
def test_a_file_that_is_no_sound_wet_file_is_an_error(said, files):
    for data in files:
        assert said in read(data)[2]


@given(st.data(), st.integers(1, 5), st.sampled_from(LAYOUTS), st.sampled_from(LINE_ENDS))
def test_a_cut_is_noticed_everywhere_but_between_members(data, number, members, line_end):
    pages = some_pages(number)
    parts = wet_members(pages, members=members, line_end=line_end)
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole) - 1))
    got, _, error = read(whole[:cut])
    assert got == expected(pages)[: len(got)]
    assert error or cut in set(accumulate(map(len, parts)))


@given(st.data(), st.sampled_from(LAYOUTS))
def test_a_flipped_bit_of_a_compressed_file_is_noticed_or_does_not_matter(data, members):
    pages = some_pages(4)
    whole = bytearray(wet_bytes(pages, members=members))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    got, _, error = read(bytes(whole))
    # Without gzip there is no checksum: a flipped bit of a text is another text.
    assert error or got == expected(pages) or members == "none"


@given(st.binary(max_size=300), st.sampled_from([b"", b"WARC/1.0\r\n", b"\x1f\x8b\x08\0"]))
def test_any_bytes_give_pages_or_one_kind_of_error(data, start):
    got, _, error = read(start + data)
    assert got or error
    got, _, error = read(member(start + data) + member(GOOD))
    assert error or got[-1].text == "good\n"
