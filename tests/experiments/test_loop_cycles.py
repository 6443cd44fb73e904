"""Cycles of the register loops: what llvm-mca predicts, and what a CPU needs."""

from __future__ import annotations

import json
import platform

import pytest

from schedlens.commands.workloads import workloads
from schedlens.experiments import loop_cycles, port_model

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the expected cycles are those of x86-64"
)
needs_mca = pytest.mark.skipif(
    port_model.mca_cycles("imul1") is None,
    reason="llvm-mca is not on PATH (Debian package llvm), or does not know this CPU",
)


@needs_mca
@pytest.mark.parametrize(
    ("kernel", "multiplies", "adds"),
    [("imul1", 1, 0), ("imul3", 1, 0), ("imul_add", 1, 0), ("add1", 0, 1), ("add8", 0, 8)],
)
def test_llvm_mca_predicts_the_length_of_the_chain(kernel: str, multiplies: int, adds: int) -> None:
    # LLVM's table of AMD's first Zen states a cycle more than others for 64 bits.
    latency = 4 if "llvm-mca for znver1:" in port_model.this_machine().basis else 3
    assert port_model.mca_cycles(kernel) == pytest.approx(multiplies * latency + adds, rel=0.02)


@needs_mca
def test_llvm_mca_predicts_more_cycles_than_chains_fill() -> None:
    core = port_model.this_machine()
    more = int(core.multiply_cycles * core.multipliers) + 2
    assert port_model.mca_cycles(f"imul{more}") == pytest.approx(more / core.multipliers, rel=0.05)


def test_slots_end_where_an_iteration_takes_longer() -> None:
    assert loop_cycles.slots([3.0, 3.1, 3.14, 4.0, 5.0]) == 3
    assert loop_cycles.slots([3.0, 3.0]) == 2
    assert loop_cycles.slots([]) == 0


def test_a_chain_takes_its_latency_on_this_machine() -> None:
    (loop,) = loop_cycles.compare(0, ["add8"], seconds=0.05)
    # Other programs and SMT siblings lengthen it; nothing shortens eight dependent additions.
    assert 7.5 <= loop.measured < 40
    assert loop.model == 8


def test_command_prints_what_json_contains(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = [
        loop_cycles.Loop("imul1", 3.01, 3.0, 3.02), loop_cycles.Loop("imul2", None, 3.0, 4.0),
    ]  # fmt: skip
    monkeypatch.setattr(loop_cycles, "compare", lambda cpu: loops)
    workloads.main(args=["cycles", "--cpu", "0", "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert (found["cpu"], found["measured_slots"]) == (0, 1)
    assert found["loops"][1] == {
        "kernel": "imul2", "llvm_mca": None, "model": 3.0, "measured": 4.0,
    }  # fmt: skip
    workloads.main(args=["cycles", "--cpu", "0"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["imul1", "3.01", "3.00", "3.02"]
    assert lines[2].split() == ["imul2", "-", "3.00", "4.00"]
    assert lines[3].endswith("predicted, 1 measured")
