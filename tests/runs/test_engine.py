import gc
import json
import logging
import os
from pathlib import Path

import jax
import numpy as np
import pytest

import toy
from eniac import (
    Config,
    ConfigError,
    Evaluation,
    NonFiniteError,
    RunError,
    evaluate_run,
    load_run,
    resume,
    train,
)
from eniac.runs.checkpoint import list_checkpoints
from eniac.runs.files import TEMPORARY
from eniac.runs.log import Logs, read_records
from eniac.runs.program import CompiledProgram
from eniac.runs.session import Session
from eniac.runs.tensors import flatten


@pytest.fixture(autouse=True)
def _no_figure(request, monkeypatch):
    """Drawing takes longer than all the rest of a run of the toy."""
    if "leaves_the_folder" not in request.node.name:
        monkeypatch.setattr("eniac.training.draw", lambda run: [])


def _records(folder):
    return read_records(folder / "metrics.jsonl")


def _parameters(folder):
    return flatten(load_run(folder).states)


def _assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_a_run_leaves_the_folder_it_promises(toy_config, console):
    result = train(toy_config(seeds=2), console=console)
    files = {path.name for path in result.path.iterdir()}
    assert files == {
        "config.json",
        "manifest.json",
        "metrics.jsonl",
        "timings.jsonl",
        "tensorboard",
        "checkpoints",
        "policy",
        "figures",
    }
    records = _records(result.path)
    assert [(r["epoch"], r["round"], r["seed"], r["env_steps"]) for r in records] == [
        (epoch, 1, seed, 7 * epoch) for epoch in (1, 2, 3, 4) for seed in (0, 1)
    ]
    assert {"return_mean", "return_std", "return_min", "return_max", "loss"} <= records[0].keys()
    assert records[0]["undefined"] is None  # NaN is not JSON
    manifest = json.loads((result.path / "manifest.json").read_text())
    assert manifest["ended"] == "4 epochs"
    assert manifest["seeds"] == [0, 1]
    assert manifest["sessions"][0]["versions"]["jax"] == jax.__version__
    stored = Config.from_dict(json.loads((result.path / "config.json").read_text()))
    assert stored.build().config == result.config
    assert len(list((result.path / "tensorboard").glob("seed-*/events*"))) == 2
    assert (result.path / "figures" / "learning_curve.png").stat().st_size > 1000
    printed = console.file.getvalue()
    assert "epoch 4/4  steps 56  return" in printed


def test_seconds_of_the_processor_are_not_those_of_others(toy_config, console, monkeypatch):
    """What waits for others takes longer by the clock, and no more of the processor."""
    computing = Session._compute

    def waiting(session, active):
        outcome, took = computing(session, active)
        return outcome, took._replace(wall=took.wall + 100)

    monkeypatch.setattr(Session, "_compute", waiting)
    folder = train(toy_config(), console=console).path
    timings = read_records(folder / "timings.jsonl")
    assert timings[-1]["seconds_so_far"] > 400
    assert 0 < sum(row["processor_seconds"] for row in timings) < 100


def test_the_same_seed_gives_the_same_files(toy_config, tmp_path, console):
    for name in "ab":
        train(toy_config(out=tmp_path / name), console=console)
    assert (tmp_path / "a/metrics.jsonl").read_bytes() == (
        tmp_path / "b/metrics.jsonl"
    ).read_bytes()
    _assert_same(_parameters(tmp_path / "a"), _parameters(tmp_path / "b"))


def test_seed_k_of_a_run_is_the_single_run_of_that_seed_bit_for_bit(toy_config, tmp_path, console):
    together = train(toy_config(seed=3, seeds=4, out=tmp_path / "all"), console=console)
    for k in (0, 1, 3):
        alone = train(toy_config(seed=3 + k, out=tmp_path / f"{k}"), console=console)
        mine = [r for r in _records(together.path) if r["seed"] == 3 + k]
        assert mine == _records(alone.path)
        parameters = {name: x[k : k + 1] for name, x in _parameters(together.path).items()}
        _assert_same(parameters, _parameters(alone.path))


def test_an_epoch_is_compiled_once(toy_config, console, caplog):
    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level(logging.WARNING):
            train(toy_config(epochs=6, evaluation=Evaluation(episodes=2)), console=console)
    finally:
        jax.config.update("jax_log_compiles", False)
    messages = [record.getMessage() for record in caplog.records]
    compiled = [
        text for text in messages if "Finished XLA compilation of jit(over_one_epoch" in text
    ]
    assert len(compiled) == 1, messages


def test_no_epoch_leaves_arrays_behind(toy_config, console, monkeypatch):
    held = []
    epoch = CompiledProgram.epoch

    def counted(*arguments):
        gc.collect()
        held.append(sum(x.nbytes for x in jax.live_arrays()))
        return epoch(*arguments)

    monkeypatch.setattr(CompiledProgram, "epoch", counted)
    gc.collect()
    gc.freeze()  # what there is already, which takes a second to look through
    try:
        train(toy_config(seeds=2, epochs=8), console=console)
    finally:
        gc.unfreeze()
    assert len(held) == 8
    assert max(held[4:]) <= max(held[:4])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="told by Linux")
@pytest.mark.parametrize("on_host", [False, True])
def test_the_memory_of_a_run_is_flat(toy_config, console, monkeypatch, on_host):
    pages, log = [], Logs.write

    def counted(*arguments):
        pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
        log(*arguments)

    monkeypatch.setattr(Logs, "write", counted)
    config = toy_config(toy.Toy(on_host=on_host), epochs=120, checkpoint_every=30)
    train(config, console=console)
    gc.collect()
    grown = (max(pages[100:]) - max(pages[:40])) * os.sysconf("SC_PAGE_SIZE")
    # A leak of a hundred kB an epoch would be 6 MB or more.
    assert grown < 5 * 2**20, grown


def test_a_seed_that_met_its_rule_stands_still_while_the_others_go_on(
    toy_config, tmp_path, console
):
    probe = train(toy_config(seeds=4, epochs=8, out=tmp_path / "probe"), console=console)
    returns = {
        seed: [r["return_mean"] for r in _records(probe.path) if r["seed"] == seed]
        for seed in range(4)
    }
    threshold = float(np.median([max(row) for row in returns.values()]))
    config = toy_config(seeds=4, epochs=8, return_above=threshold)
    result = train(config, console=console)
    expected = {
        seed: next((n + 1 for n, value in enumerate(row) if value > threshold), 8)
        for seed, row in returns.items()
    }
    assert len(set(expected.values())) > 1  # else this test shows nothing
    assert dict(enumerate(result.progress.epochs.tolist())) == expected
    for seed, epochs in expected.items():
        mine = [r for r in _records(result.path) if r["seed"] == seed]
        assert mine == [r for r in _records(probe.path) if r["seed"] == seed][:epochs]
        state = load_run(result.path).states
        assert int(state.epoch[seed]) == epochs


def test_steps_and_seconds_stop_a_run(toy_config, tmp_path, console):
    by_steps = train(toy_config(epochs=None, steps=15, out=tmp_path / "a"), console=console)
    assert by_steps.progress.steps.tolist() == [21]  # the first multiple of 7 that is enough
    assert by_steps.ended == "15 steps"
    by_time = train(toy_config(epochs=None, seconds=1e-9, out=tmp_path / "b"), console=console)
    assert by_time.progress.epochs.tolist() == [1]


def test_a_longer_run_is_a_shorter_one_resumed(toy_config, tmp_path, console):
    whole = train(toy_config(seeds=2, epochs=7, out=tmp_path / "whole"), console=console)
    train(toy_config(seeds=2, epochs=3, out=tmp_path / "parts"), console=console)
    with pytest.raises(ConfigError, match="already come to its end"):
        resume(tmp_path / "parts", console=console)
    parts = resume(tmp_path / "parts", epochs=7, console=console)
    assert parts.progress.epoch == 7
    _assert_same(_parameters(whole.path), _parameters(parts.path))
    for name in ("metrics.jsonl", "policy/seed-1/policy.safetensors"):
        assert (whole.path / name).read_bytes() == (parts.path / name).read_bytes()
    sessions = json.loads((parts.path / "manifest.json").read_text())["sessions"]
    assert [s["from_epoch"] for s in sessions] == [0, 3]


def test_a_run_in_a_folder_that_was_moved_resumes(toy_config, tmp_path, console):
    train(toy_config(epochs=2), console=console)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert resume(tmp_path / "elsewhere", epochs=3, console=console).progress.epoch == 3
    assert not (tmp_path / "run").exists()


def test_the_checkpoint_before_a_damaged_one_is_resumed(toy_config, tmp_path, console):
    whole = train(toy_config(epochs=9, out=tmp_path / "whole"), console=console)
    train(toy_config(epochs=5), console=console)
    newest = list_checkpoints(tmp_path / "run/checkpoints")[0]
    content = bytearray(newest.read_bytes())
    content[-2] ^= 64
    newest.write_bytes(content)
    resumed = resume(tmp_path / "run", epochs=9, console=console)
    assert "epoch-000005.safetensors is damaged" in console.file.getvalue()
    sessions = json.loads((tmp_path / "run/manifest.json").read_text())["sessions"]
    assert sessions[1]["from_epoch"] == 4
    assert "damaged" in sessions[1]["warnings"][0]
    assert (whole.path / "metrics.jsonl").read_bytes() == (
        resumed.path / "metrics.jsonl"
    ).read_bytes()
    _assert_same(_parameters(whole.path), _parameters(resumed.path))


def test_what_an_interrupted_write_left_is_cleaned_up_by_the_next_writer(
    toy_config, tmp_path, console
):
    train(toy_config(epochs=2), console=console)
    leftover = tmp_path / "run/checkpoints" / f"epoch-000004.safetensors{TEMPORARY}"
    leftover.write_bytes(b"half")
    resume(tmp_path / "run", epochs=3, console=console)
    assert not leftover.exists()
    assert f"Removed {leftover.name}, a write cut short" in console.file.getvalue()


def test_a_folder_that_holds_a_run_is_left_alone(toy_config, console):
    result = train(toy_config(), console=console)
    before = {p: p.stat().st_mtime_ns for p in result.path.rglob("*")}
    with pytest.raises(ConfigError, match=r"already holds a run.*eniac resume"):
        train(toy_config(epochs=9), console=console)
    assert {p: p.stat().st_mtime_ns for p in result.path.rglob("*")} == before


def test_an_impossible_environment_is_refused_before_any_work(toy_config, tmp_path, console):
    with pytest.raises(ConfigError, match="Chain-0"):
        train(toy_config(env="Chain-0"), console=console)
    assert not (tmp_path / "run").exists()


def test_nan_in_parameters_stops_the_run_with_what_where_and_the_last_good_state(
    toy_config, tmp_path, console
):
    good = train(toy_config(seeds=2, epochs=3, out=tmp_path / "good"), console=console)
    config = toy_config(toy.Toy(nan_at=4), seeds=2, epochs=9, checkpoint_every=2)
    with pytest.raises(NonFiniteError) as caught:
        train(config, console=console)
    for words in (
        "policy.probabilities",
        "epoch 4 of seed 0",
        str(tmp_path / "run/checkpoints/epoch-000003.safetensors"),
    ):
        assert words in str(caught.value)
    _assert_same(_parameters(good.path), _parameters(tmp_path / "run"))
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (
        good.path / "metrics.jsonl"
    ).read_bytes()
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["ended"].startswith("failed: NonFiniteError")


def test_nan_in_rewards_stops_the_run(toy_config, tmp_path, console):
    with pytest.raises(NonFiniteError, match=r"rewards that are NaN or infinite in epoch 1 of"):
        train(toy_config(toy.Toy(bad_reward_at=1)), console=console)
    assert load_run(tmp_path / "run").progress.epoch == 0


def test_a_folder_that_is_no_run_is_told(tmp_path, console):
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        resume(tmp_path, console=console)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        resume(tmp_path, console=console)


def test_the_return_of_the_first_steps_is_logged_if_asked(toy_config, tmp_path, console):
    train(toy_config(evaluation=Evaluation(episodes=3, first=5)), console=console)
    whole = [(r["return_first_mean"], r["return_mean"]) for r in _records(tmp_path / "run")]
    assert len(whole) == 4
    assert all(first == mean for first, mean in whole)  # episodes of the toy have five steps


def test_the_evaluation_of_a_run_states_its_horizon(toy_config, console):
    result = train(toy_config(evaluation=Evaluation(episodes=3, horizon=9)), console=console)
    judged = evaluate_run(load_run(result.path), episodes=5, seed=1)
    assert judged["horizon"] == 9
    assert judged["seeds"][0]["length_mean"] == 9
    assert judged == evaluate_run(load_run(result.path), episodes=5, seed=1)
