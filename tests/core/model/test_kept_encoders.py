"""Converted encoders that are kept: the same bits, and nothing but what was written is read."""

import os
from pathlib import Path

import pytest
import torch

from bertscore_core.model import encoder, kept_encoders, openvino_runtime
from bertscore_core.model.encoder import load_encoder
from bertscore_core.model.kept_encoders import CACHE_VARIABLE, cache_key, find_encoder, new_encoder
from bertscore_core.model.openvino_runtime import openvino_version
from bertscore_core.model.resolve import resolve_model
from bertscore_core.scorer_config import ScorerConfig

KEY = cache_key(weights="a", layers=2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "encoders"


def keep(key=KEY, size=4, content="model"):
    with new_encoder(key, size) as path:
        path.write_text(content)
        path.with_suffix(".bin").write_bytes(b"0" * size)


def test_what_was_kept_is_found_under_its_key_alone(cache):
    assert find_encoder(KEY, Path.read_text) is None
    keep()
    assert find_encoder(KEY, Path.read_text) == "model"
    assert find_encoder(cache_key(weights="a", layers=3), Path.read_text) is None
    assert os.listdir(cache) == [KEY]
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["encoder.xml", "encoder.bin", "sha256"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"1", None])
def test_damaged_files_are_never_read(cache, caplog, name, damage):
    keep()
    path = cache / KEY / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    assert find_encoder(KEY, Path.read_text) is None
    assert damage is None or "is made anew" in caplog.text
    keep()  # the next process mends it
    assert find_encoder(KEY, Path.read_text) == "model"


def test_a_fifo_is_not_waited_for(cache):
    keep()
    (cache / KEY / "encoder.bin").unlink()
    os.mkfifo(cache / KEY / "encoder.bin")
    assert find_encoder(KEY, Path.read_text) is None


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_not_used(cache, mode):
    keep()
    cache.chmod(mode)
    assert find_encoder(KEY, Path.read_text) is None
    keep(key="b")
    assert os.listdir(cache) == [KEY]


def test_those_not_used_for_longest_go_when_there_are_too_many(cache, monkeypatch):
    monkeypatch.setattr(kept_encoders, "MOST_BYTES", 1100)
    for number, key in enumerate("abc"):
        keep(key, size=200)
        os.utime(cache / key, (number, number))
    assert find_encoder("a", Path.read_text) == "model"  # now the youngest
    keep("d", size=200)
    assert sorted(os.listdir(cache)) == ["a", "c", "d"]


def test_what_killed_processes_have_left_goes_like_those_not_used_for_longest(cache, monkeypatch):
    monkeypatch.setattr(kept_encoders, "MOST_BYTES", 1 << 20)
    for number in range(4):
        left = cache / f"new-{number}" / "encoder"
        left.mkdir(parents=True, mode=0o700)
        (left / "encoder.bin").write_bytes(b"0" * 400_000)
        os.utime(left.parent, (number, number))
    cache.chmod(0o700)
    keep(size=200)
    assert sorted(os.listdir(cache)) == [KEY, "new-2", "new-3"]
    assert find_encoder(KEY, Path.read_text) == "model"


def test_an_encoder_that_fails_is_not_kept(cache):
    with pytest.raises(TypeError):
        keep(content=None)
    assert os.listdir(cache) == []


@pytest.mark.parametrize("place", ["", "file"])
def test_nothing_is_kept_without_a_place(cache, monkeypatch, tmp_path, place):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / place) if place else "")
    keep()
    assert find_encoder(KEY, Path.read_text) is None
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.model
@pytest.mark.parametrize(
    ("family", "all_layers"),
    [
        ("bert", False),
        *((name, True) for name in ("bert", "deberta_v2", "t5", "modernbert", "xlnet")),
    ],
)
def test_a_kept_encoder_gives_the_same_bits_and_needs_no_weights(
    cache, monkeypatch, tiny_folder, family, all_layers
):
    assert openvino_version() is not None
    files = resolve_model(str(tiny_folder(family)))
    config = ScorerConfig(num_layers=1, all_layers=all_layers, backend="openvino")
    made = load_encoder(files, config, longest=20)
    assert len(os.listdir(cache)) == 1
    monkeypatch.delattr(encoder, "_load")
    again = load_encoder(files, config, longest=20)
    torch.manual_seed(0)
    for texts, tokens in [(1, 1), (3, 7), (2, 20)]:
        ids = torch.randint(0, 20, (texts, tokens))
        lengths = torch.randint(1, tokens + 1, (texts,))
        inside = torch.arange(tokens) < lengths[:, None]
        expected, actual = (made.encode(ids, lengths), again.encode(ids, lengths))
        assert torch.equal(expected[:, inside], actual[:, inside])
    with pytest.raises(NameError, match="_load"):  # other settings are another encoder
        load_encoder(files, ScorerConfig(num_layers=1, backend="openvino"), longest=19)


@pytest.mark.model
def test_an_encoder_that_reading_back_changes_is_used_as_it_was_and_not_kept(
    cache, monkeypatch, tiny_folder
):
    written = openvino_runtime._written

    def zeros(network, path):
        written(network, path)
        weights = path.with_suffix(".bin")
        weights.write_bytes(bytes(weights.stat().st_size))
        return openvino_runtime._import_openvino().Core().read_model(path)

    monkeypatch.setattr(openvino_runtime, "_written", zeros)
    files = resolve_model(str(tiny_folder("bert")))
    ids, lengths = torch.arange(12).reshape(2, 6), torch.tensor([6, 6])
    on_torch, converted = (
        load_encoder(files, ScorerConfig(num_layers=1, backend=backend), longest=20)
        for backend in ("torch", "openvino")
    )
    expected, actual = on_torch.encode(ids, lengths), converted.encode(ids, lengths)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)
    assert os.listdir(cache) == []
