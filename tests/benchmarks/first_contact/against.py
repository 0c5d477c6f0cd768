"""bert-score on the same device and texts, with a transformers of its own."""

from tests.benchmarks.first_contact import kit
from tests.benchmarks.first_contact.given import Given
from tests.benchmarks.harness import Recorder
from tests.benchmarks.peer import compare


def peer(recorder: Recorder, given: Given) -> None:
    """Run both sides in turn, from the sites that a kit brought along."""
    site = given.work / "peer-site"
    if not kit.unpack(given.kit, kit.PEER_SITE, site):
        recorder.skip("bert-score", "it was not brought along")
        return
    pairs = 8 if given.quick else 2_000 if given.on_gpu else 100
    compare(
        recorder,
        given.large(),
        pairs,
        rounds=1 if given.quick else 2,
        ours=("float32", given.half),
        device=given.device,
        site=site,
    )
