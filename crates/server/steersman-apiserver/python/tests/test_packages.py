"""The archive and the index for setup-envtest, as `cargo xtask dist` makes them.

`STEERSMAN_DIST` names the folder of the packages; without it the tests are skipped.
"""

import hashlib
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

PROGRAMS = ["etcd", "kube-apiserver", "kubectl"]


@pytest.fixture(scope="module")
def packages():
    if "STEERSMAN_DIST" not in os.environ:
        pytest.skip("STEERSMAN_DIST names no folder of packages; `.ci/run dist` makes one")
    return Path(os.environ["STEERSMAN_DIST"])


@pytest.fixture(scope="module")
def archive(packages):
    [archive] = packages.glob("envtest-v*-linux-amd64.tar.gz")
    return archive


@pytest.fixture(scope="module")
def assets(archive, tmp_path_factory):
    """The folder that setup-envtest makes: the files of the archive side by side, readable and executable."""
    folder = tmp_path_factory.mktemp("assets")
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            if member.isreg():
                path = folder / Path(member.name).name
                path.write_bytes(files.extractfile(member).read())
                path.chmod(0o555 & member.mode)
    return folder


def test_the_archive_has_three_regular_files_that_root_owns(archive):
    with tarfile.open(archive) as files:
        members = files.getmembers()
    assert [member.name for member in members] == [f"controller-tools/envtest/{name}" for name in PROGRAMS]
    for member in members:
        assert member.isreg() and member.mode == 0o755 and member.size > 0, member.name
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "root", "root")
    assert len({member.mtime for member in members}) == 1


def test_other_programs_read_the_archive(archive, tmp_path):
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / "controller-tools" / "envtest"
    assert sorted(path.name for path in folder.iterdir()) == PROGRAMS


def test_the_index_has_the_hash_of_the_archive(packages, archive):
    version = re.fullmatch(r"envtest-(v\d+\.\d+\.\d+)-linux-amd64\.tar\.gz", archive.name).group(1)
    index = (packages / "envtest-releases.yaml").read_text()
    assert index == (
        f"releases:\n  {version}:\n    {archive.name}:\n"
        f"      hash: {hashlib.sha512(archive.read_bytes()).hexdigest()}\n"
        f"      selfLink: http://127.0.0.1:8000/{archive.name}\n"
    )


def test_envtest_may_ask_for_help(assets):
    # It asks both programs for their flags before it starts them.
    for name in ["etcd", "kube-apiserver"]:
        asked = subprocess.run([assets / name, "--help"], capture_output=True, text=True, timeout=60)
        assert asked.returncode == 0, f"{name}: {asked.stderr}"


def test_the_archive_has_the_version_that_the_program_plays(archive, assets):
    printed = subprocess.run(
        [assets / "kube-apiserver", "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert printed.strip() == "Kubernetes " + archive.name.split("-")[1]
