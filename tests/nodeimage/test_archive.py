"""Container images that no engine made."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from nodeimage.archive import write_archive


def written(folder: Path) -> dict[str, bytes]:
    (folder / "root/bin").mkdir(parents=True)
    (folder / "root/bin/tool").write_text("hello")
    (folder / "root/bin/tool").chmod(0o755)
    (folder / "root/link").symlink_to("bin/tool")
    write_archive(folder / "image.tar", "some/image:v1", folder / "root", {"Entrypoint": ["/bin/tool"]})
    with tarfile.open(folder / "image.tar") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def test_an_archive_is_consistent(tmp_path: Path) -> None:
    """The manifest names the configuration and the layer, and the configuration the digest of the layer's bytes."""
    members = written(tmp_path)
    (image,) = json.loads(members["manifest.json"])
    assert image["RepoTags"] == ["some/image:v1"]
    config = json.loads(members[image["Config"]])
    (layer,) = image["Layers"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(members[layer]).hexdigest()}"]
    assert config["config"] == {"Entrypoint": ["/bin/tool"]}


def test_files_keep_what_they_are_but_not_whose_they_were(tmp_path: Path) -> None:
    """Modes and links stay; owner and date do not."""
    with tarfile.open(fileobj=io.BytesIO(written(tmp_path)["layer.tar"])) as layer:
        tool, link = layer.getmember("./bin/tool"), layer.getmember("./link")
    assert (tool.mode, tool.uid, tool.mtime) == (0o755, 0, 0)
    assert link.linkname == "bin/tool"


def test_the_same_files_make_the_same_image(tmp_path: Path) -> None:
    """Whenever and wherever they were written; nothing else is left beside the archive."""
    one, other = tmp_path / "one", tmp_path / "other"
    assert written(one) == written(other)
    assert sorted(path.name for path in one.iterdir()) == ["image.tar", "root"]
