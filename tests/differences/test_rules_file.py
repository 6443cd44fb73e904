"""Files of rules are hostile input: one line that names the place and the choices."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedlens.differences import rules_file
from schedlens.differences.quantities import BY_NAME
from schedlens.differences.rules_file import Rule, Rules
from schedlens.errors import RulesError

RULE = '[[rule]]\nmetric = "frame_p95_ns"\nmax_increase_pct = 5\n'


def test_rules_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(
        '[gate]\nalpha = 0.01\nmin_recordings = 4\nsame = ["microcode"]\n'
        + RULE
        + '[[rule]]\nmetric = "work_per_s"\nmax_decrease = 10.5\nsubject = "x"\nstep = "y"\n'
    )
    assert rules_file.read(file) == Rules(
        (
            Rule("frame_p95_ns", max_increase_pct=5.0),
            Rule("work_per_s", max_decrease=10.5, subject="x", step="y"),
        ),
        0.01,
        4,
        ("microcode",),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rules: write [[rule]] with metric and max_increase_pct"),
        ("rule = 3", "has no rules"),
        ("x = 1\n" + RULE, "the file has an unknown key 'x': choose from gate, rule"),
        (
            "[gate]\nalhpa = 1\n" + RULE,
            "[gate] has an unknown key 'alhpa': choose from alpha, min_",
        ),
        ('gate = "x"\n' + RULE, "gate must be a table"),
        ("[gate]\nalpha = 0.5\n" + RULE, "gate.alpha is 0.5: choose a value from 0.001 to 0.2"),
        ("[gate]\nalpha = nan\n" + RULE, "gate.alpha must be a finite number"),
        ("[gate]\nmin_recordings = true\n" + RULE, "gate.min_recordings must be a whole number"),
        ("[gate]\nsame = [1]\n" + RULE, "gate.same must be a list of texts"),
        ("rule = [1]", "rule 1 must be a table"),
        ("[[rule]]\nmax_increase = 1\n", "rule 1: metric must be a text: choose from frame_p50_ns"),
        (
            '[[rule]]\nmetric = "fps"\nmax_increase = 1\n',
            f"rule 1: no metric named 'fps': choose from {', '.join(BY_NAME)}",
        ),
        (RULE + '[[rule]]\nmetric = "frame_p95_ns"\n', "rule 2 has no limit: set one of max_incre"),
        (
            RULE + 'color = "red"\n',
            "rule 1 has an unknown key 'color': choose from metric, subject",
        ),
        (RULE.replace("= 5", '= "5"'), "rule 1: max_increase_pct must be a number"),
        (RULE.replace("= 5", "= true"), "rule 1: max_increase_pct must be a number"),
        (RULE.replace("= 5", "= inf"), "rule 1: max_increase_pct must be a finite number"),
        (RULE.replace("= 5", "= 1" + 400 * "0"), "rule 1: max_increase_pct is too large"),
        (RULE.replace("= 5", "= 0"), "rule 1: max_increase_pct is 0: it must be above 0"),
        (RULE + "max_increase = 1\n", "rule 1: set max_increase or max_increase_pct, not both"),
        (RULE + "max_decrease_pct = 100\n", "max_decrease_pct must be below 100"),
        (RULE + "subject = 3\n", "rule 1: subject must be a text"),
        (RULE * 201, "has 201 rules; at most 200 are allowed"),
        ("[[rule", "is not TOML"),
        ("x = " + "[" * 100_000, "is not TOML"),
    ],
)
def test_mistake_is_one_line_with_the_choices(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(RulesError) as raised:
        rules_file.read(file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#" * (rules_file.MOST_BYTES + 1))
    for name, said in (
        ("bytes.toml", "is not UTF-8 at byte 0"),
        ("large.toml", "larger than 1 MiB"),
        ("absent.toml", os.strerror(2)),
        (".", os.strerror(21)),
    ):
        with pytest.raises(RulesError, match=said):
            rules_file.read(tmp_path / name)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_raise_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "random.toml"
    file.write_bytes(data)
    with pytest.raises(RulesError):
        rules_file.read(file)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["gate", "rule", "metric", "alpha", "same", "max_increase", "x"]), inner
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(["gate", "rule", "x"]), VALUES))
def test_no_values_raise_another_error(found: dict[str, object]) -> None:
    with contextlib.suppress(RulesError):
        assert rules_file.parsed(found).rules
