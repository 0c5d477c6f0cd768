"""WET files as Common Crawl publishes them, made up; the same bytes every time."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscore_beam.crawl.warc import Page

CRAWL = "CC-MAIN-2026-30"
DATE = b"2026-07-14T06:21:11Z"


def some_pages(number: int) -> list[Page]:
    """Return short pages, all different, some with no text, no language or another script."""
    kinds = [
        (("eng",), "The ferry leaves at noon.\nPage {} was written by hand.\n"),
        (("deu", "eng"), "Die Fähre legt mittags ab.\nSeite {} ist von Hand.\n"),
        ((), "Число {}: паром отходит в полдень.\n"),
        (("zho",), "渡轮中午出发。第{}页。\n"),
        (("fra",), ""),
    ]
    return [
        Page(
            url=f"https://site-{i % 7}.example/page/{i}",
            languages=kinds[i % len(kinds)][0],
            text=kinds[i % len(kinds)][1].format(i),
        )
        for i in range(number)
    ]


def record(
    block: bytes,
    *,
    url: str = "https://site.example/",
    languages: Sequence[str] = (),
    line_end: bytes = b"\r\n",
    change: Mapping[bytes, bytes | None] | None = None,
    after: bytes | None = None,
) -> bytes:
    """Return one conversion record, not compressed, with headers as a real one has.

    Args:
        block: The content.
        url: Where it was found.
        languages: ISO 639-3 codes; with none there is no language header.
        line_end: Between headers and behind the block.
        change: Headers with another value, None to leave one out.
        after: What comes behind the block, by default two line ends.
    """
    headers: dict[bytes, bytes | None] = {
        b"WARC-Type": b"conversion",
        b"WARC-Target-URI": url.encode(),
        b"WARC-Date": DATE,
        b"WARC-Record-ID": b"<urn:uuid:0c5a1cc5-3b0a-5f0e-8d1c-5b1f3a0c9a77>",
        b"WARC-Block-Digest": b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
        b"WARC-Identified-Content-Language": ",".join(languages).encode() or None,
        b"Content-Type": b"text/plain",
        b"Content-Length": str(len(block)).encode(),
        **(change or {}),
    }
    lines = [b"%s: %s" % (name, value) for name, value in headers.items() if value is not None]
    head = line_end.join([b"WARC/1.0", *lines, b"", b""])
    return head + block + (2 * line_end if after is None else after)


def warcinfo(line_end: bytes = b"\r\n") -> bytes:
    """Return the record that every file begins with."""
    block = line_end.join([b"isPartOf: " + CRAWL.encode(), b"publisher: made up", b""])
    change = {
        b"WARC-Type": b"warcinfo",
        b"WARC-Filename": b"MADE-UP.warc.wet.gz",
        b"WARC-Target-URI": None,
        b"Content-Type": b"application/warc-fields",
    }
    return record(block, line_end=line_end, change=change)


def member(content: bytes) -> bytes:
    """Return one gzip member, without the time."""
    return gzip.compress(content, mtime=0)


def wet_bytes(pages: Sequence[Page], **how: Any) -> bytes:
    """Return a WET file, made as `wet_members` says."""
    return b"".join(wet_members(pages, **how))


def wet_members(
    pages: Sequence[Page], *, members: str = "each", line_end: bytes = b"\r\n"
) -> list[bytes]:
    """Return the members (without gzip: the records) of which `wet_bytes` makes a file.

    Args:
        pages: Its pages.
        members: `each` record a gzip member, all in `one`, in `pairs`, or `none`: not compressed.
        line_end: Between headers and behind blocks.
    """
    records = [
        warcinfo(line_end),
        *(
            record(page.text.encode(), url=page.url, languages=page.languages, line_end=line_end)
            for page in pages
        ),
    ]
    if members == "none":
        return records
    size = {"each": 1, "pairs": 2, "one": len(records)}[members]
    return [member(b"".join(records[at : at + size])) for at in range(0, len(records), size)]


def wet_name(number: int) -> str:
    """Name a file as Common Crawl does, four to a segment."""
    segment = f"17{number // 4:011d}.{number // 4:02d}"
    file = f"CC-MAIN-20260714062111-20260714092111-{number:05d}.warc.wet.gz"
    return f"crawl-data/{CRAWL}/segments/{segment}/wet/{file}"


def listing_bytes(names: Sequence[str]) -> bytes:
    """Return the list of a crawl's files, as `wet.paths.gz`."""
    return member("".join(f"{name}\n" for name in names).encode())


def write_crawl(root: Path, files: Sequence[bytes]) -> None:
    """Write a crawl with these WET files below a folder."""
    content = {wet_name(number): data for number, data in enumerate(files)}
    content[f"crawl-data/{CRAWL}/wet.paths.gz"] = listing_bytes(list(content))
    for name, data in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
