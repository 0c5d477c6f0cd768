from collections import Counter

import fsspec
import pytest
from hypothesis import given, strategies as st

from bertscore_beam.crawl import crawl_files
from bertscore_beam.crawl.crawl_files import list_crawl, list_files_of, seeded_order
from bertscore_beam.crawl.fetch import CrawlFileError, FetchPolicy
from bertscore_core.errors import ConfigError, InputError
from tests.support.s3 import s3_bucket
from tests.support.web import web_server
from tests.support.wet import CRAWL, listing_bytes, member, wet_name, write_crawl

QUICK = FetchPolicy(attempts=2, timeout=2, pause=0.01)
LIST = f"/crawl-data/{CRAWL}/wet.paths.gz"
NAMES = [wet_name(number) for number in range(6)]
NO_NAMES = ("/a", "crawl-data/../../a", "https://a.example/crawl-data/x", "crawl-data/a.gz?b=c")


@pytest.mark.process
def test_a_crawl_is_listed_over_http_sorted_and_without_repetition():
    with web_server({LIST: listing_bytes([*reversed(NAMES), NAMES[2]])}) as web:
        got = list_crawl(CRAWL, QUICK, web.url)
        assert list_crawl(CRAWL, QUICK, web.url + "/") == got
    assert list(got.items()) == [(name, f"{web.url}/{name}") for name in NAMES]


@pytest.mark.process
def test_the_same_crawl_has_the_same_names_wherever_it_lies(tmp_path):
    write_crawl(tmp_path / "copy", [b"x"] * 6)
    with web_server(tmp_path / "copy") as web, s3_bucket() as bucket:
        store = fsspec.filesystem("s3")
        store.put(f"{tmp_path}/copy/", f"{bucket}/deep/", recursive=True)
        roots = [web.url, f"{bucket}/deep/", str(tmp_path / "copy")]
        got = [list_crawl(CRAWL, QUICK, root) for root in roots]
        globs = [f"{bucket}/deep/**/*.wet.gz", str(tmp_path / "copy")]
        got += [list_files_of([glob]) for glob in globs]
        got.append(list_files_of([f"{web.url}/{name}?token=abc" for name in NAMES]))
        for item in got[:5]:
            assert all(fsspec.open(path).fs.exists(path) for path in item.values())
    assert {tuple(item) for item in got} == {tuple(NAMES)}
    assert len({tuple(item.values()) for item in got}) == 4


OTHER_IDS = ("", "CC-MAIN-2026", "cc-main-2026-30", "CC-MAIN-2026-30/", "CC-MAIN-2012", "../x")


@pytest.mark.parametrize(
    ("name", "words"),
    {
        **dict.fromkeys(OTHER_IDS, "such as CC-MAIN-2026-30"),
        **dict.fromkeys(("CC-MAIN-2016-44", "CC-MAIN-2013-20"), "CC-MAIN-2016-50 or later"),
    }.items(),
)
def test_an_id_of_another_form_or_of_garbled_texts_is_refused(name, words):
    with pytest.raises(ConfigError, match=words):
        list_crawl(name, QUICK, "unused")


@pytest.mark.process
def test_a_crawl_that_does_not_exist_is_said_to_be_none(tmp_path):
    with web_server({}) as web, pytest.raises(ConfigError, match="no such crawl") as caught:
        list_crawl(CRAWL, QUICK, web.url.replace("//", "//me:hunter2@"))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="no such crawl"):
        list_crawl(CRAWL, QUICK, str(tmp_path))


@pytest.mark.process
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (listing_bytes([]), "is empty"),
        (listing_bytes(NAMES)[:-9], "is damaged"),
        (member(b"<html> nothing </html>"), "something else in 3 of 3 lines"),
        (listing_bytes([wet_name(number) for number in range(100)]), "at most 1000 bytes"),
        *((listing_bytes([*NAMES, name]), "something else in 1 of 7 lines") for name in NO_NAMES),
    ],
)
def test_a_list_that_is_none_is_an_error(monkeypatch, content, said):
    monkeypatch.setattr(crawl_files, "MAX_LISTING_BYTES", 1000)
    with web_server({LIST: content}) as web, pytest.raises(CrawlFileError, match=said):
        list_crawl(CRAWL, QUICK, web.url)


OF_TEXT = (".txt", ".txt.gz", ".parquet")
COPIES = [f"{root}/{NAMES[0]}" for root in ("left", "right")]


@pytest.mark.parametrize(
    ("patterns", "how", "names"),
    [
        ("a a/*.wet.gz c/[6].gz", {}, ["a/1.wet.gz", "a/b/2.wet", "c/[6].gz"]),
        ("a/*.t?t", {}, ["3.txt"]),
        ("d", {"suffixes": OF_TEXT}, ["1.txt", "2.txt.gz", "3.parquet"]),
        # What is named itself is taken whatever its suffix.
        ("d/*.md", {"suffixes": OF_TEXT}, ["4.md"]),
        ("left right", {}, COPIES),  # of one file of a crawl
    ],
)
def test_files_are_found_by_paths_globs_and_folders(tmp_path, patterns, how, names):
    found = "a/1.wet.gz a/b/2.wet c/[6].gz a/3.txt d/1.txt d/2.txt.gz d/3.parquet d/4.md"
    passed_over = "a/.4.wet.gz a/_5.wet.gz d/5.wet.gz d/_6.txt"
    for name in (*found.split(), *passed_over.split(), *COPIES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    got = list_files_of([f"{tmp_path}/{pattern}" for pattern in patterns.split()], **how)
    assert list(got) == names
    assert all(path.endswith(f"/{name}") for name, path in got.items())


def test_an_address_is_named_without_its_query_and_never_leads_out_of_a_folder():
    address = "https://a.example/crawl-data/CC-MAIN-2026-30/../../../../x/1.wet.gz"
    (name,) = list_files_of([address])
    assert ".." not in name.split("/")
    web = list_files_of(["https://a.example/x/1.gz?token=s3cret", "https://a.example/x/2.gz"])
    assert list(web) == ["1.gz", "2.gz"]
    assert web["1.gz"].endswith("?token=s3cret")


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["{}/nothing-*.gz"], "nothing matches"),
        (["{}"], r"holds no \*\.wet\.gz or \*\.wet \(1 \.part\).* end in \.wet\.gz or \.wet\."),
        (["{}/here.wet.gz", "{}/missing.wet.gz"], "does not exist"),
        (["https://a.example/*.gz"], "no pattern can be used on the web"),
    ],
)
def test_a_pattern_that_finds_nothing_is_an_error(tmp_path, patterns, said):
    (tmp_path / "here.wet.gz.part").write_bytes(b"x")
    with pytest.raises(InputError, match=said):
        list_files_of([pattern.format(tmp_path) for pattern in patterns])


@given(st.lists(st.text(), unique=True), st.integers(), st.randoms())
def test_the_order_depends_on_seed_and_names_only(names, seed, random):
    order = seeded_order(names, seed)
    shuffled = random.sample(names, len(names))
    assert sorted(order) == sorted(names)
    assert seeded_order(shuffled, seed) == order
    # Without some of the names the others keep their order: a sample grows, it does not change.
    assert seeded_order(shuffled[1:], seed) == [n for n in order if n not in shuffled[:1]]


def test_the_first_names_are_a_fair_sample():
    names = [wet_name(number) for number in range(20)]
    first = Counter(name for seed in range(2000) for name in seeded_order(names, seed)[:5])
    # 500 are expected of each, with a standard deviation of 19.
    assert len(first) == 20
    assert all(400 < count < 600 for count in first.values()), first
