"""Say which bytes the base images of the Dockerfile are: look up the digests of their tags.

    python docker/pin_images.py           # print a build argument for every image, by digest
    python docker/pin_images.py --write   # put the digests into docker/Dockerfile
    python docker/pin_images.py --renew   # look up again those that have a digest already

A tag can be moved to another image, a digest cannot. Images are asked for at their registries by
the interface that all of them have, without a password. Only Python's own library is used, so that
it runs in any container; docker/cloudbuild.yaml runs it before it builds.
"""

import argparse
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parent / "Dockerfile"
ARGUMENT = re.compile(r"^ARG (\w+_IMAGE)=(\S+)$", re.M)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_SECONDS = 60


def base_images(dockerfile: str) -> dict[str, str]:
    """Return the images that a Dockerfile starts from, by build argument."""
    return dict(ARGUMENT.findall(dockerfile))


def manifest_url(image: str, scheme: str = "https") -> str:
    """Return where a registry says what an image with a tag is.

    Args:
        image: `name:tag` or `host/name:tag`, with or without `@digest`, which is left out.
        scheme: `https`, or `http` for a registry on this machine.
    """
    path, _, tag = image.partition("@")[0].rpartition(":")
    host, slash, rest = path.partition("/")
    if not slash or not re.search(r"[.:]|^localhost$", host):  # a name of Docker Hub
        host, rest = "registry-1.docker.io", path if slash else f"library/{path}"
    return f"{scheme}://{host}/v2/{rest}/manifests/{tag}"


def find_digest(image: str, scheme: str = "https") -> str:
    """Ask a registry for the digest of an image's tag.

    Args:
        image: As for `manifest_url`.
        scheme: As for `manifest_url`.

    Raises:
        ValueError: the answer has no digest.
        urllib.error.URLError: the registry was not reached, or does not know the image.

    References:
        OCI Distribution Specification 1.1, "Pulling manifests"; tokens are asked for as the
        registry's `WWW-Authenticate` says.
    """
    url = manifest_url(image, scheme)
    headers = {"Accept": ", ".join(MANIFESTS)}
    try:
        found = _head(url, headers)
    except urllib.error.HTTPError as error:
        asked = dict(re.findall(r'(\w+)="([^"]*)"', error.headers.get("WWW-Authenticate", "")))
        if error.code != 401 or "realm" not in asked:
            raise
        found = _head(url, headers | {"Authorization": f"Bearer {_token(asked)}"})
    if DIGEST.fullmatch(found) is None:
        raise ValueError(f"{url} names no digest: got {found!r}; expected sha256:...")
    return found


def _head(url: str, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(url, headers=dict(headers), method="HEAD")  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:  # noqa: S310
        return str(reply.headers.get("Docker-Content-Digest", ""))


def _token(asked: Mapping[str, str]) -> str:
    """Fetch the token of someone without a name."""
    url = f"{asked['realm']}?service={asked.get('service', '')}&scope={asked.get('scope', '')}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as reply:  # noqa: S310
        answer = json.load(reply)
    return str(answer.get("token") or answer["access_token"])


def pin(images: Mapping[str, str], *, renew: bool = False, scheme: str = "https") -> dict[str, str]:
    """Return the images with their digests.

    Args:
        images: Images by build argument.
        renew: Whether digests that are there are looked up again.
        scheme: As for `manifest_url`.
    """
    return {
        name: image
        if "@" in image and not renew
        else f"{image.partition('@')[0]}@{find_digest(image, scheme)}"
        for name, image in images.items()
    }


def main() -> None:
    """Print or write the digests."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the digests into the Dockerfile")
    parser.add_argument("--renew", action="store_true", help="look up all digests again")
    given = parser.parse_args()
    text = DOCKERFILE.read_text(encoding="utf-8")
    pinned = pin(base_images(text), renew=given.renew)
    if given.write:
        text = ARGUMENT.sub(lambda found: f"ARG {found[1]}={pinned[found[1]]}", text)
        DOCKERFILE.write_text(text, encoding="utf-8")
    for name, image in pinned.items():
        print(f"--build-arg={name}={image}")


if __name__ == "__main__":
    main()
