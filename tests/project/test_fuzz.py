"""Every fuzz target has a corpus and a line in docs/reliability.md."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fixtures" / "fuzz"
# A corpus is for coverage; recordings are elsewhere.
LIMIT_BYTES = 1_000_000


def module_of(name: str) -> ModuleType:
    """A program of tools/fuzz as a module."""
    place = ROOT / "tools" / "fuzz" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """tools/fuzz/run.py."""
    return module_of("run")


def test_every_target_has_a_corpus_and_a_line_of_documentation(runner: ModuleType) -> None:
    targets = runner.compiled()
    source = (ROOT / "tools" / "fuzz" / "src" / "main.rs").read_text(encoding="utf-8")
    assert f"TARGETS: [(&str, Target); {len(targets)}]" in source
    packed = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))
    assert packed == sorted(targets)
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    first = page.split("### ", maxsplit=1)[0]
    documented = re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE)
    assert documented == [*targets, runner.PYTHON_TARGET]


def test_corpora_are_small_and_are_read(runner: ModuleType, tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LIMIT_BYTES
    for path in FOLDER.glob("*.tar.xz"):
        runner.unpack(path.name.removesuffix(".tar.xz"), tmp_path)
        with tarfile.open(path) as archive:
            assert len(list(tmp_path.iterdir())) == len(archive.getnames()) > 0, path.name


def test_targets_use_the_locked_versions_of_the_readers_crates() -> None:
    def locked(folder: Path) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        lock = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))
        for package in lock["package"]:
            found.setdefault(package["name"], set()).add(package["version"])
        return found

    ours, theirs = locked(ROOT), locked(ROOT / "tools" / "fuzz")
    differ = {name for name in theirs.keys() & ours.keys() if not theirs[name] <= ours[name]}
    assert differ == set()


def test_same_seed_gives_the_same_run() -> None:
    command = [sys.executable, str(ROOT / "tools" / "fuzz" / "csv_files.py"), "60", "1", "60"]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert first == second
    assert '"executions": 60' in first


def test_make_test_fuzzes_with_a_seed_and_a_bound() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\ntest:")[2].partition("\n\n")[0]
    assert re.search(r"tools/fuzz/run\.py --seed \d+ --seconds 10 ", recipe)
    # Its failure is that of the recipe.
    assert re.search(r"wait \$\$fuzz; fuzzed=\$\$\?;.*exit \$\$\(\(parallel \| fuzzed\)\)$", recipe,
                     re.DOTALL)  # fmt: skip


def test_optimized_program_counts_the_edges_of_our_crates_and_of_parsers() -> None:
    config = tomllib.loads(
        (ROOT / "tools" / "fuzz" / ".cargo" / "config.toml").read_text(encoding="utf-8")
    )
    counting = [flag for flag in config["build"]["rustflags"] if not flag.startswith("--cfg")]
    compiler = module_of("rustc")

    def left(crate: str) -> list[str]:
        called = ["rustc", "--crate-name", crate, "src/lib.rs", *counting, "--cfg=fuzzing"]
        command: list[str] = compiler.command(called)
        return [part for part in command if part in counting]

    assert left("schedlens_schedule") == left("arrow_ipc") == counting
    assert left("arrow_array") == left("serde_json") == []
    # Cargo first asks for the version.
    assert compiler.command(["rustc", "-vV"]) == ["rustc", "-vV"]
