"""Adds the bill of materials to the wheel, where PEP 770 puts it; pyproject.toml has all else.

setuptools has no setting for it. A `cmdclass` in pyproject.toml would replace the commands of
setuptools-rust, and no extension would be built.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

SBOM = Path("sbom.cdx.json")


class WheelWithSbom(bdist_wheel):
    """Copies sbom.cdx.json to `.dist-info/sboms/schedlens.cdx.json`."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Makes the `.dist-info` folder: both the build of a wheel and its metadata call this."""
        super().egg2dist(egginfo_path, distinfo_path)
        folder = Path(distinfo_path) / "sboms"
        folder.mkdir()
        shutil.copyfile(SBOM, folder / "schedlens.cdx.json")


setup(cmdclass={"bdist_wheel": WheelWithSbom})
