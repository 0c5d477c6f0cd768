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
    PAGES,
    PAGES_NOT_UTF8,
    PAGES_TOO_LONG,
    RECORDS_BROKEN,
    RECORDS_OTHER,
    CrawlFileError,
    Page,
    check_records,
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
    assert counts == {PAGES: len(pages), RECORDS_OTHER: 1}


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        (b"eng", ("eng",)),
        (b"deu,eng,fra", ("deu", "eng", "fra")),
        (b" DEU , eng ", ("deu", "eng")),
        (b"", ()),
        (b"de,english,,nds", ("nds",)),
        (None, ()),
    ],
)
def test_languages_come_from_the_header_the_main_one_first(header, languages):
    data = record(b"x", change={b"WARC-Identified-Content-Language": header})
    assert read(member(data))[0][0].languages == languages


def test_headers_are_found_by_name_in_any_case_and_order():
    head = (
        b"WARC/1.1\r\n"
        b"content-LENGTH:  5\r\n"
        b"X-New-Header: a: b\r\n"
        b"warc-identified-content-language: lav\r\n"
        b"CONTENT-TYPE: Text/Plain; charset=utf-8\r\n"
        b"warc-target-uri: <https://a.example/\r\n"
        b" folded>\r\n"
        b"WARC-TYPE: Conversion\r\n\r\n"
    )
    (page,) = read(member(head + b"labas" + b"\r\n\r\n"))[0]
    assert page == Page(url="https://a.example/ folded", languages=("lav",), text="labas")


@pytest.mark.parametrize(
    "change",
    [
        {b"WARC-Type": b"response"},
        {b"WARC-Type": None},
        {b"Content-Type": b"text/html"},
        {b"Content-Type": None},
    ],
)
def test_records_that_are_no_plain_text_are_counted(change):
    data = member(record(b"not a page", change=change)) + member(GOOD)
    pages, counts = read(data)
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {PAGES: 1, RECORDS_OTHER: 1}


@pytest.mark.parametrize("members", LAYOUTS)
def test_a_page_that_is_no_utf8_is_dropped_and_counted(members):
    records = [warcinfo(), record(BAD_UTF8), GOOD]
    joined = b"".join(records)
    data = {"none": joined, "one": member(joined)}.get(members, b"".join(map(member, records)))
    pages, counts = read(data)
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {PAGES: 1, PAGES_NOT_UTF8: 1, RECORDS_OTHER: 1}


BROKEN = {
    "no length": record(b"text", change={b"Content-Length": None}),
    "length in words": record(b"text", change={b"Content-Length": b"four"}),
    "length with a sign": record(b"text", change={b"Content-Length": b"-4"}),
    "length in other digits": record(b"text", change={b"Content-Length": "٤".encode()}),
    "length of forty digits": record(b"text", change={b"Content-Length": b"4" * 40}),
    "two lengths": record(b"text", change={b"content-length": b"3"}),
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
def test_a_broken_record_in_its_own_member_is_counted_and_passed_over(kind):
    data = member(warcinfo()) + member(BROKEN[kind]) + member(GOOD)
    pages, counts = read(data)
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {PAGES: 1, RECORDS_OTHER: 1, RECORDS_BROKEN: 1}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("members", ["one", "none"])
def test_a_broken_record_among_others_is_an_error(members, kind):
    before, after = [GOOD] * 3, [GOOD] * 40
    data = b"".join([warcinfo(), *before, BROKEN[kind], *after])
    pages, error = read_some(member(data) if members == "one" else data)
    assert error is not None
    assert "a crawl file has a broken record before byte" in str(error)
    assert len(pages) <= len(before)


@pytest.mark.parametrize(
    ("counts", "broken"),
    [
        ({}, None),
        ({PAGES: 1, RECORDS_OTHER: 1}, None),
        ({PAGES: 98, RECORDS_OTHER: 1, RECORDS_BROKEN: 1}, None),
        ({PAGES: 97, RECORDS_OTHER: 1, RECORDS_BROKEN: 1}, "1 of 99"),
        ({PAGES: 96, PAGES_TOO_LONG: 1, RECORDS_OTHER: 1, PAGES_NOT_UTF8: 2}, "2 of 100"),
        ({PAGES: 13, RECORDS_OTHER: 1, RECORDS_BROKEN: 120, "split": 9}, "120 of 134"),
    ],
)
def test_more_than_one_broken_record_in_a_hundred_fails_the_file(counts, broken):
    if broken is None:
        check_records(counts)
        return
    with pytest.raises(CrawlFileError, match=f"got {broken} that cannot be read"):
        check_records(counts)


def test_a_length_that_takes_in_later_records_of_its_member_is_an_error():
    long = record(b"text", change={b"Content-Length": b"5000000"})
    for data in (long + GOOD, long + b" " * 300_000 + b"\n" + GOOD):
        assert "a broken record" in str(read_some(member(GOOD) + member(data))[1])


def test_a_record_start_is_seen_across_the_border_of_two_pieces():
    # One of these lengths puts the border in the middle of the line that begins a record.
    for size in range((256 << 10) - 400, 256 << 10, 3):
        data = b"no head\n\n" + b" " * size + b"\n" + GOOD
        error = read_some(member(GOOD) + member(data))[1]
        assert error is not None, size


def test_a_page_above_the_limit_is_passed_over_without_being_held():
    ends = b"\r\n\r\n"
    head = record(b"", change={b"Content-Length": b"%d" % (64 << 20)}, after=b"")
    packer = zlib.compressobj(wbits=31)
    bomb = packer.compress(head)
    for _ in range(64):
        bomb += packer.compress(b" " * (1 << 20))
    bomb += packer.compress(ends) + packer.flush()
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        pages, counts = read(bomb + member(GOOD))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [page.text for page in pages] == ["good\n"]
    assert counts == {PAGES: 1, PAGES_TOO_LONG: 1}
    assert peak < 8 << 20


def test_a_page_at_the_limit_is_read():
    data = member(record(b"x" * MAX_PAGE_BYTES)) + member(record(b"x" * (MAX_PAGE_BYTES + 1)))
    pages, counts = read(data)
    assert [len(page.text) for page in pages] == [MAX_PAGE_BYTES]
    assert counts == {PAGES: 1, PAGES_TOO_LONG: 1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"<?xml version='1.0'?><Error>AccessDenied</Error>", "is not a WET file"),
        (b"PAR1" + bytes(100), "is not a WET file"),
        (b"\x1f", "is not a WET file"),
        (wet_bytes([]), "has no page"),
        (wet_bytes([], members="none"), "has no page"),
        (member(b"") * 3, "has no page"),
        (member(record(BAD_UTF8)), "has no page"),
        (member(b"<html></html>"), "has no page"),
        (member(GOOD) + b"\r\n", "continues with something else"),
        (member(GOOD) + bytes(512), "continues with something else"),
        (member(GOOD) + b"\x1f", "is cut off after"),
        (member(GOOD) + GOOD, "continues with something else"),
        (member(GOOD)[:-1], f"ends inside a gzip member, at byte {len(member(GOOD)) - 1} of"),
        (GOOD[:-3], "has a broken record"),
        (member(GOOD)[:-5] + b"\0" + member(GOOD)[-4:], "is damaged"),
        (b"\x1f\x8b" + bytes(100), "is damaged"),
    ],
)
def test_a_file_that_is_no_sound_wet_file_is_an_error(data, said):
    error = read_some(data)[1]
    assert str(error).startswith(f"a crawl file {said}")
    assert "expected" in str(error)


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
