"""Claims about environment.json: it names what the run ran on, and no secret."""

import json

from zoo.runs.environment import changes, describe_environment


def test_the_environment_names_versions_threads_and_devices():
    found = describe_environment(["zoo", "pretrain"], 2, ["cpu", "cpu"])
    assert found["versions"]["torch"] and found["threads"] >= 1
    assert (found["processes"], found["devices"], found["command"]) == (2, ["cpu", "cpu"], ["zoo", "pretrain"])
    json.dumps(found, allow_nan=False)


def test_tokens_do_not_reach_the_file():
    assert "hf_abcDEF123" not in json.dumps(describe_environment(["zoo", "--token=hf_abcDEF123"], 1, []))


def test_only_what_can_change_bits_counts_as_a_change():
    (change,) = changes({"threads": 1, "command": []}, {"threads": 2, "command": ["x"]})
    assert change == "the resumed run may differ in its last bits: threads: 1 -> 2"
