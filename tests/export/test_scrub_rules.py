"""What the rules of a scrubbed recording keep of single columns."""

from __future__ import annotations

import json

import pyarrow as pa

from schedlens.export import scrub_rules
from schedlens.record.linux import snapshot


def test_scheduling_policies_are_kept() -> None:
    policies = [*snapshot.POLICIES.values(), "zqxpolicy"]
    rows = pa.RecordBatch.from_pydict({"policy": policies})
    kept = scrub_rules.Rules(b"secret").scrubbed("thread_policy", rows)["policy"].to_pylist()
    assert kept[:-1] == policies[:-1]
    assert "zqx" not in kept[-1]


def test_weights_of_groups_are_kept_under_their_new_names() -> None:
    rules = scrub_rules.Rules(b"secret")
    settings = {
        "cpu_shares": {"/": 1024, "/zqx.slice": 50, "/zqx.slice/a.service": "zqx"},
        "autogroups": {"17": "/autogroup-3 nice -5", "zqx": "/autogroup-4 nice 0", "18": "zqx"},
    }
    rows = [{"trace_id": 1, "key": key, "value": json.dumps(one)} for key, one in settings.items()]
    rows.append({"trace_id": 2, "key": "cpu_shares", "value": "[zqx"})
    made = rules.scrubbed("machine_setting", pa.RecordBatch.from_pylist(rows)).to_pylist()
    cgroups = pa.RecordBatch.from_pydict({"cgroup": ["/", "/zqx.slice"]})
    names = rules.scrubbed("thread_cgroup", cgroups)["cgroup"].to_pylist()
    assert "zqx" not in str(made)
    assert [(row["key"], json.loads(row["value"])) for row in made] == [
        ("cpu_shares", dict(zip(names, (1024, 50), strict=True))),
        ("autogroups", {"17": "/autogroup-3 nice -5"}),
    ]
