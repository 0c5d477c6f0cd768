import io
import tracemalloc
import zlib
from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from bertscore_beam.crawl import (
    MAX_HEAD_BYTES,
    MAX_PAGE_BYTES,
    RECORDS,
    CrawlFileError,
    Page,
    read_pages,
)
from tests.support.wet import WetPage, member, record, some_pages, warcinfo, wet_bytes, wet_members

LAYOUTS = ("each", "pairs", "one", "none")
LINE_ENDS = (b"\r\n", b"\n")
GOOD = record(b"good\n", url="https://good.example/")
BAD_UTF8 = b"caf\xe9 \xff"


def read(data: bytes) -> tuple[list[Page], Counter[str]]:
    counts: Counter[str] = Counter()
    return list(read_pages(io.BytesIO(data), counts)), counts


def read_some(data: bytes) -> tuple[list[Page], CrawlFileError | None]:
    """Read until the end or the error."""
    pages = []
    try:
        for page in read_pages(io.BytesIO(data), Counter()):
            pages.append(page)  # noqa: PERF402 - what came before the error counts
    except CrawlFileError as error:
        return pages, error
    return pages, None


def expected(pages: list[WetPage]) -> list[Page]:
    return [
        Page(url=page.url, languages=page.languages, text=page.text.removeprefix("\ufeff"))
        for page in pages
    ]


@given(
    st.lists(
        st.builds(
            WetPage,
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
    got, counts = read(data)
    assert got == expected(pages)
    assert counts == {RECORDS: len(pages) + 1}


def test_languages_come_from_the_header_the_main_one_first():
    for header, languages in ((b" DEU , eng ", ("deu", "eng")), (b"de,english,,nds", ("nds",))):
        data = record(b"x", change={b"WARC-Identified-Content-Language": header})
        assert read(member(data))[0][0].languages == languages


def test_headers_are_found_by_name_in_any_case_and_order():
    head = (
        b"WARC/1.1\r\n"
        b"content-LENGTH:  5\r\n"
        b"X-New-Header: a: b\r\n"
        b"warc-identified-content-language: lav\r\n"
        b"CONTENT-TYPE: Text/Plain; charset=utf-8\r\n"
        b"warc-target-uri: <https://a.example/>\r\n"
        b"WARC-TYPE: Conversion\r\n\r\n"
    )
    (page,) = read(member(head + b"labas" + b"\r\n\r\n"))[0]
    assert page == Page(url="https://a.example/", languages=("lav",), text="labas")


@pytest.mark.parametrize(
    "change",
    [
        {b"WARC-Type": b"response"},
        {b"WARC-Type": None},
        {b"Content-Type": b"text/html"},
        {b"Content-Type": None},
    ],
)
def test_records_that_are_no_plain_text_are_passed_over(change):
    data = member(record(b"not a page", change=change)) + member(GOOD)
    pages, counts = read(data)
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {RECORDS: 2}


def test_bytes_that_are_no_utf8_are_replaced():
    pages, _ = read(member(record(BAD_UTF8)))
    assert [page.text for page in pages] == ["caf\ufffd \ufffd"]


BROKEN = {
    "no length": record(b"text", change={b"Content-Length": None}),
    "length in words": record(b"text", change={b"Content-Length": b"four"}),
    "length with a sign": record(b"text", change={b"Content-Length": b"-4"}),
    "length in other digits": record(b"text", change={b"Content-Length": "٤".encode()}),
    "length of forty digits": record(b"text", change={b"Content-Length": b"4" * 40}),
    "length too large": record(b"text", change={b"Content-Length": b"400"}),
    "length far too large": record(b"text", change={b"Content-Length": b"9" * 15}),
    "length too small": record(b"text", change={b"Content-Length": b"2"}),
    "nothing behind the block": record(b"text", after=b""),
    "one line end behind the block": record(b"text", after=b"\r\n"),
    "too many line ends": record(b"text", after=b"\r\n" * 100_000),
    "a header without a colon": record(b"text", change={b"X\r\nno colon": b"1"}).replace(
        b"no colon: 1", b"no colon"
    ),
    "endless headers": record(b"text", change={b"X": b"x" * (MAX_HEAD_BYTES + 300_000)}),
    "no end of the headers": b"WARC/1.0\r\nWARC-Type: conversion\r\n",
    "another version": record(b"text", version=b"WARC/2.0"),
    "no record": b"<!DOCTYPE html><html></html>",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("members", LAYOUTS)
def test_a_broken_record_is_an_error(members, kind):
    records = [warcinfo(), *[GOOD] * 3, BROKEN[kind], *[GOOD] * 40]
    size = {"each": 1, "pairs": 2, "one": 50, "none": 50}[members]
    parts = [b"".join(records[at : at + size]) for at in range(0, len(records), size)]
    pages, error = read_some(b"".join(parts if members == "none" else map(member, parts)))
    assert str(error).startswith("a crawl file is not a whole WET file: ")
    assert len(pages) <= 4


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
        pages, counts = read(bomb + member(GOOD))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {RECORDS: 2}
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it has no page"),
        (wet_bytes([]), "it has no page"),
        (wet_bytes([], members="none"), "it has no page"),
        (member(b"") * 3, "it has no page"),
        (b"<?xml version='1.0'?><Error>AccessDenied</Error>", "something else where a record"),
        (b"PAR1" + bytes(100), "something else where a record"),
        (b"\x1f", "something else where a record"),
        (member(b"<html></html>"), "something else where a record"),
        (member(GOOD) + b"\r\n", "got Not a gzipped file"),
        (member(GOOD) + b"\x1f", "got Not a gzipped file"),
        (member(GOOD) + GOOD, "got Not a gzipped file"),
        (member(GOOD)[:-1], "got Compressed file ended"),
        (member(GOOD)[:-5] + b"\0" + member(GOOD)[-4:], "got CRC check failed"),
        (b"\x1f\x8b" + bytes(100), "got Unknown compression method"),
        (GOOD[:-3], "does not end after the number of bytes"),
    ],
)
def test_a_file_that_is_no_sound_wet_file_is_an_error(data, said):
    error = read_some(data)[1]
    assert str(error).startswith("a crawl file is not a whole WET file: ")
    assert said in str(error)


def test_no_message_holds_the_text_of_a_page():
    secret = b"a sentence nobody may see"
    for data in (
        member(GOOD + BROKEN["length too small"].replace(b"text", secret)),
        GOOD + secret,
        secret,
        member(GOOD) + secret,
        record(secret, after=b""),
    ):
        error = read_some(data)[1]
        assert error is not None
        assert "sentence" not in str(error)


def test_a_header_that_goes_on_in_the_next_line_is_read_over():
    pages = some_pages(2)
    whole = b"".join(wet_members(pages, members="none", line_end=b"\r\n"))
    folded = whole.replace(b"Content-Type:", b"X-Long: a\r\n  more\r\nContent-Type:")
    assert folded != whole
    assert read_some(folded) == (expected(pages), None)


@given(st.data(), st.integers(1, 5), st.sampled_from(LAYOUTS), st.sampled_from(LINE_ENDS))
def test_a_cut_is_noticed_everywhere_but_between_members(data, number, members, line_end):
    pages = some_pages(number)
    parts = wet_members(pages, members=members, line_end=line_end)
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole) - 1))
    got, error = read_some(whole[:cut])
    assert got == expected(pages)[: len(got)]
    assert error is not None or cut in set(accumulate(map(len, parts)))


@given(st.data(), st.sampled_from(LAYOUTS))
def test_a_flipped_bit_of_a_compressed_file_is_noticed_or_does_not_matter(data, members):
    pages = some_pages(4)
    whole = bytearray(wet_bytes(pages, members=members))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    got, error = read_some(bytes(whole))
    # Without gzip there is no checksum: a flipped bit of a text is another text.
    assert error is not None or got == expected(pages) or members == "none"


@given(st.binary(max_size=300), st.sampled_from([b"", b"WARC/1.0\r\n", b"\x1f\x8b\x08\0"]))
def test_any_bytes_give_pages_or_one_kind_of_error(data, start):
    got, error = read_some(start + data)
    assert got or error is not None
    got, error = read_some(member(start + data) + member(GOOD))
    assert error is not None or got[-1].text == "good\n"
