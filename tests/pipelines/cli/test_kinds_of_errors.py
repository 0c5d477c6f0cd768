"""An error that the program words itself keeps its words and its status, wherever it is met."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertscore_beam.cli import main as cli
from bertscore_beam.run.endings import worker_errors
from bertscore_beam.run.output import JobFailedError
from bertscore_core import (
    ConfigError,
    DeviceMemoryError,
    IdfError,
    InputError,
    ModelLoadError,
    SignatureError,
)
from bertscore_core.model.kept_encoders import CACHE_VARIABLE
from tests.support.dumps import write_dump

COMMAND = Path(sys.executable).with_name("bertscore-beam")
TRACE = """Traceback (most recent call last):
  File "sdk_worker.py", line 370, in _execute
    raise ValueError("a cause")
ValueError: a cause

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "steps.py", line 1, in open
    raise error
"""
LAST = {
    "bertscore_core.errors.ModelLoadError: cut [while running 'Score/Run']": ModelLoadError("cut"),
    "bertscore_core.errors.SignatureError: other": SignatureError("other"),
    "bertscore_core.errors.DeviceLostError: lost": JobFailedError("lost"),
    "bertscore_core.errors.InputError: damaged\n\nlogs": JobFailedError("damaged"),
    "bertscore_core.errors.ConfigError: a\nOSError: b\n\nend [while running 'R']": ConfigError(
        "a\nOSError: b\n\nend"
    ),
    "bertscore_beam.files.reach.RefusedError: 's3://b/x' is shut": JobFailedError(
        "RefusedError: 's3://b/x' is shut"
    ),
    "OSError: [Errno 28] no room [while running 'Run']": JobFailedError(
        "OSError: [Errno 28] no room"
    ),
}
"""What a runner quotes, and what that means."""


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("quoted", [TRACE + "{}", "Pipeline job-1 failed: bundle:" + TRACE + "{}"])
def test_an_error_that_a_runner_quotes_keeps_its_kind_and_words(last, quoted):
    with pytest.raises(type(LAST[last])) as caught, worker_errors():
        raise RuntimeError(quoted.format(last))
    assert type(caught.value) is type(LAST[last])
    assert str(caught.value) == str(LAST[last])


@pytest.mark.parametrize(
    "last",
    [
        "KeyError: 'x'",
        "KeyError",
        "other.errors.ModelLoadError: cut",
        "botocore.ClientError: no",
        "KeyError: 'x'\nOSError: no room",
    ],
)
def test_what_nobody_has_foreseen_stays_as_it_is_told(last):
    with pytest.raises(RuntimeError, match=re.escape(last)) as caught, worker_errors():
        raise RuntimeError(TRACE + last)
    assert type(caught.value) is RuntimeError


@pytest.mark.parametrize("error", [ValueError(f"{TRACE}OSError: a"), RuntimeError("OSError: a")])
def test_what_no_runner_quotes_keeps_its_class(error):
    with pytest.raises(type(error)) as caught, worker_errors():
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [ConfigError("a"), IdfError("a"), ModelLoadError("a")])
def test_what_another_try_would_meet_again_cannot_work(error):
    with pytest.raises(type(error)) as caught, worker_errors():
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [InputError("a"), DeviceMemoryError("a"), OSError(28, "no room")])
def test_what_another_try_may_not_meet_stops_the_job(error):
    words = r"^(a|OSError: \[Errno 28\] no room)$"
    with pytest.raises(JobFailedError, match=words), worker_errors():
        raise error


def changed_weights(change):
    def damage(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def lose_one(tensors):
    del tensors["encoder.layer.1.output.dense.weight"]


def reshape_one(tensors):
    tensors["encoder.layer.1.output.dense.weight"] = np.zeros((4, 4), np.float32)


def make_nan(tensors):
    for name in tensors:
        tensors[name] = np.full_like(tensors[name], np.nan)


def state_other_sizes(folder):
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stated, "hidden_size": 24}))


@pytest.mark.model
@pytest.mark.job
@pytest.mark.parametrize(
    ("damage", "more", "words"),
    [
        (changed_weights(lose_one), (), "1 parameters are missing, such as encoder.layer.1"),
        (changed_weights(lose_one), ("--restarts", "0"), "1 parameters are missing"),
        (changed_weights(reshape_one), (), "Fetch or save the model again."),
        (changed_weights(make_nan), (), "differ from torch's by nan"),
        (changed_weights(make_nan), ("--backend", "torch"), "numbers are not finite"),
        (state_other_sizes, (), "Fetch or save the model again."),
    ],
)
def test_a_model_that_a_worker_cannot_load_cannot_work(
    damage, more, words, dump, tmp_path, tiny_folder, ran
):
    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "model")
    damage(folder)
    flags = ("--input", dump, "--output", tmp_path / "out", "--model", folder, "--num-layers", 2)
    said = ran(["score", *flags, "--device", "cpu", *more], cli.UNUSABLE).err
    assert words in said
    assert "Traceback" not in said
    assert "the same command continues" not in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_debug_shows_where_every_command_ended(command, ran):
    words = [*command.split(), "--no-such-flag", "token=not-to-be-shown"]
    told = ran(words, cli.UNUSABLE).err
    shown = ran([*words, "--debug"], cli.UNUSABLE).err
    assert "Traceback" not in told
    assert shown.endswith(told)
    assert re.search(
        r'Traceback.+File ".+flags.py", line \d+.+ConfigError: unknown arg', shown, re.S
    )
    assert "not-to-be-shown" not in shown


@pytest.mark.model
@pytest.mark.job
def test_debug_shows_where_a_worker_ended(dump, tmp_path, tiny_folder, ran):
    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "model")
    changed_weights(lose_one)(folder)
    flags = ("--input", dump, "--output", tmp_path / "out", "--model", folder, "--num-layers", 2)
    said = ran(["score", *flags, "--device", "cpu", "--debug"], cli.UNUSABLE).err
    assert re.search(r'File ".+encoder.py", line \d+, in load_encoder', said)
    assert re.search(r"^bertscore-beam: .+1 parameters are missing", said, re.M)


@pytest.mark.model
@pytest.mark.process
@pytest.mark.long
def test_no_name_of_a_model_writes_to_the_terminal(tmp_path, tiny_folder):
    folder = shutil.copytree(tiny_folder("bert"), tmp_path / "model")
    changed_weights(lambda tensors: tensors.update({"\x1b]0;x\x07": np.zeros(2)}))(folder)
    for more in ((), ("--restarts", "0")):
        words = ["score", "--input", write_dump(tmp_path / "dump", [3]), "--device", "cpu", *more]
        words += ["--output", tmp_path / f"out{len(more)}", "--model", folder, "--num-layers", "2"]
        given = {"env": {**os.environ, CACHE_VARIABLE: ""}, "timeout": 300}
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, **given)
        assert done.returncode == cli.DONE
        assert r"\x1b]0;x\x07" in done.stderr
        assert "\x1b" not in done.stderr
