"""What the workflows of a release run: the steps that need neither GitHub nor PyPI, on copies."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.test_docs import links_in

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SITE = "https://github.com/OWNER/bertscore-beam"

pytestmark = pytest.mark.process


def run_step(workflow: str, name: str, tag: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run the step of that name, for a tag, in a folder with README.md and pyproject.toml."""
    jobs = yaml.safe_load((WORKFLOWS / f"{workflow}.yml").read_text())["jobs"].values()
    (step,) = (step for job in jobs for step in job["steps"] if step.get("name") == name)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, place)
    server, _, repository = SITE.partition("/OWNER/")
    environment = {
        "PATH": os.environ["PATH"],
        "GITHUB_ENV": str(place / "environment"),
        "GITHUB_SERVER_URL": server,
        "GITHUB_REPOSITORY": f"OWNER/{repository}",
        "GITHUB_REF_NAME": tag,
        "TARGET": "cpu",
    }
    words = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]  # as GitHub runs it
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("tag", "fits"), [(f"v{VERSION}", True), ("v99.0.0", False)])
def test_only_the_tag_of_the_version_is_published(tag, fits, tmp_path):
    done = run_step("publish", "Compare the tag with the version", tag, tmp_path)
    assert (done.returncode == 0) == fits, done.stderr


def test_links_of_the_published_readme_lead_to_the_files_of_its_tag(tmp_path):
    before = list(links_in((ROOT / "README.md").read_text()))
    done = run_step("publish", "Make the links of the README absolute", f"v{VERSION}", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "README.md").read_text()
    after = list(links_in(text))
    assert len(after) == len(before) > 20
    for target, now in zip(before, after, strict=True):
        kept = target if ":" in target else f"/v{VERSION}/{target}"
        assert now.endswith(kept)
        assert re.match(r"https?://", now), now
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)", text)
    assert pictures
    assert all(picture.startswith(f"{SITE}/raw/") for picture in pictures)


def test_an_image_has_the_name_of_its_repository_and_version(tmp_path):
    done = run_step("image", "Name the image", f"v{VERSION}", tmp_path)
    assert done.returncode == 0, done.stderr
    named = (tmp_path / "environment").read_text()
    assert named == f"IMAGE=ghcr.io/owner/bertscore-beam/cpu:{VERSION}\n"
