import json

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event

from eniac.cli.main import main
from eniac.runs.files import write_json
from eniac.runs.log import Logs, make_record, read_records


def _record(epoch, seed=0):
    return make_record(seed, epoch, 1, 7 * epoch, {"return_mean": np.float32(0.1), "steps": 7})


def _events(folder):
    """The events in TensorBoard's files, oldest file first (length, crc, data, crc)."""
    for path in sorted(folder.glob("events*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            length = int.from_bytes(content[place : place + 8], "little")
            yield Event.FromString(content[place + 12 : place + 12 + length])
            place += length + 16


def test_a_record_has_shortest_decimals_and_no_nan():
    metrics = {
        "b": np.float32(np.nan),
        "steps": np.int32(9),
        "return_mean": np.float32(0.1),
        "a": np.int32(3),
    }
    record = make_record(4, 2, 3, 14, metrics)
    assert json.dumps(record) == (
        '{"epoch": 2, "round": 3, "seed": 4, "env_steps": 14, '
        '"return_mean": 0.1, "a": 3, "b": null}'
    )


def test_a_metric_may_not_take_a_name_of_the_record():
    with pytest.raises(ValueError, match="epoch"):
        make_record(0, 1, 1, 1, {"epoch": 3})


def test_logs_continue_where_the_checkpoint_was_made(toy_config, tmp_path):
    logs = Logs(tmp_path, toy_config(), {}, [0])
    logs.write([_record(1)], {"epoch": 1, "seconds": 1.0})
    offsets = logs.sync()
    logs.write([_record(2)], {"epoch": 2, "seconds": 1.0})
    logs.close()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "se')  # killed in the middle of a line
    assert [r["epoch"] for r in read_records(tmp_path / "metrics.jsonl")] == [1, 2]
    logs = Logs(tmp_path, toy_config(), offsets, [7])
    logs.write([_record(2)], {"epoch": 2, "seconds": 2.0})
    logs.close()
    assert [r["epoch"] for r in read_records(tmp_path / "metrics.jsonl")] == [1, 2]
    assert [r["seconds"] for r in read_records(tmp_path / "timings.jsonl")] == [1.0, 2.0]


def test_tensorboard_gets_a_folder_a_seed_and_forgets_what_was_cut(toy_config, tmp_path):
    logs = Logs(tmp_path, toy_config(seeds=2), {}, [0, 0])
    logs.write([_record(1, 0), _record(1, 1)], {"epoch": 1, "seconds": 0.5})
    logs.close()
    logs = Logs(tmp_path, toy_config(seeds=2), {}, [7, 7])
    logs.write([_record(2, 1)], {"epoch": 2, "seconds": 0.5})
    logs.close()
    events = list(_events(tmp_path / "tensorboard/seed-1"))
    assert events[0].file_version == "brain.Event:2"
    values = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    assert (7, "return_mean", np.float32(0.1)) in values
    assert (14, "time/seconds", 0.5) in values
    starts = [e.step for e in events if e.HasField("session_log")]
    assert starts == [8]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff\xfe",
        b"[1]",
        b'{"epoch": 1}',
        b'{"epoch": 1, "round": 1, "seed": 0, "env_steps": 1e999, "return_mean": NaN}',
        b'{"epoch": 1, "round": 1, "seed": "0", "env_steps": {}, "return_mean": []}',
        b"9" * 5000,
        b"[" * 100_000,
    ],
    ids=["cut", "no text", "list", "too few", "no numbers", "other types", "digits", "nested"],
)
def test_readers_of_a_damaged_log_say_file_and_line_and_nothing_more(
    toy_config, tmp_path, capsys, line
):
    write_json(tmp_path / "config.json", toy_config().to_dict())
    (tmp_path / "checkpoints").mkdir()
    good = json.dumps(_record(1)).encode()
    (tmp_path / "metrics.jsonl").write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    assert main(["plot", str(tmp_path), "--out", str(tmp_path / "curve.png")]) == 1
    told = capsys.readouterr().err
    assert f"line 2 of {tmp_path / 'metrics.jsonl'}" in told
    assert told.count("\n") == 1
    assert main(["list", "runs", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["problem"].startswith("metrics.jsonl")
