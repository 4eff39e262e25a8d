"""The same devices for the command line and Python, and a word where there are others."""

import json
import os

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import toy
from eniac.runs import cache
from eniac.runs.program import CompiledProgram, devices_for, take_seed, too_few_devices
from eniac.runs.tensors import flatten, unflatten

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
several_cores = pytest.mark.skipif(len(CORES) < 2, reason="there is one core only")


def _devices(folder):
    session = json.loads((folder / "manifest.json").read_text())["sessions"][-1]
    return session["machine"]["devices"]


@several_cores
def test_python_and_the_command_line_use_the_same_devices_and_give_the_same_bytes(
    tmp_path, starter
):
    python, shell = tmp_path / "python", tmp_path / "shell"
    assert starter.run(python, cores=CORES[:2]) == 0, starter.output.read_text()
    command = ["train", str(python / "config.json"), "--out", str(shell)]
    assert starter.run(shell, cores=CORES[:2], command=command) == 0, starter.output.read_text()
    assert _devices(python) == _devices(shell) == 2
    assert (python / "metrics.jsonl").read_bytes() == (shell / "metrics.jsonl").read_bytes()


@several_cores
def test_devices_respect_affinity_and_going_on_with_fewer_is_said(tmp_path, starter):
    run = tmp_path / "run"
    starter.run(run, cores=CORES[:2], death="fsync:60")
    assert starter.run(run, cores=CORES[:1]) == 0, starter.output.read_text()
    assert _devices(run) == 1
    printed = starter.output.read_text()
    assert "devices 2 then and 1 now, cores 2 then and 1 now" in printed
    assert "can differ in the last bits" in printed


@several_cores
def test_that_jax_was_started_before_with_fewer_devices_is_said(tmp_path, starter):
    run = tmp_path / "run"
    assert starter.run(run, cores=CORES[:2], jax_first=True) == 0, starter.output.read_text()
    printed = starter.output.read_text()
    assert "JAX was started before this run, with 1 of the 2 devices" in printed
    assert "JAX_NUM_CPU_DEVICES=2" in printed


def test_fewer_devices_are_said_only_where_seeds_would_be_spread_over_more(monkeypatch, toy_config):
    program = CompiledProgram(toy_config(seeds=4).build().learner, [0, 1, 2, 3])
    assert too_few_devices(program, 4) == []  # two were chosen for all tests
    monkeypatch.setattr(cache, "_chosen_devices", lambda: 4)
    assert "on 2 instead of 4" in too_few_devices(program, 4)[0]
    assert too_few_devices(program, 2) == []


def test_by_default_there_is_a_device_for_every_core_unless_a_number_was_chosen(monkeypatch):
    assert cache.default_devices() == 2
    monkeypatch.setattr(cache, "_chosen_devices", lambda: None)
    monkeypatch.setattr(cache, "num_cores", lambda: 7)
    assert cache.default_devices() == 7


@pytest.mark.parametrize(("seeds", "devices", "used"), [(1, 8, 1), (4, 8, 4), (6, 4, 3), (7, 4, 1)])
def test_every_device_gets_the_same_number_of_seeds(seeds, devices, used):
    assert devices_for(seeds, devices) == used


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_run_that_is_resumed_has_the_program_that_it_began_with(toy_config, seeds):
    def program():
        learner = toy_config(toy.Toy(), seeds=seeds).build().learner
        return CompiledProgram(learner, list(range(seeds)))

    def text(program, states):
        program.compile(states)
        return program._epoch.lower(*program._arguments(states, np.ones(seeds, bool), None))

    began = program()
    states = began.init()
    resumed = program()
    loaded = resumed.place(unflatten(resumed.shapes, flatten(states), None))
    assert text(began, states).as_text() == text(resumed, loaded).as_text()


def test_a_seed_is_taken_out_of_the_device_that_it_lies_on_by_no_program_for_all(monkeypatch):
    """Devices that wait for each other would end the process if one of them gets no core."""
    mesh = jax.make_mesh((2,), ("seeds",), axis_types=(AxisType.Auto,))
    over = NamedSharding(mesh, PartitionSpec("seeds"))
    keys, rows = jax.random.split(jax.random.key(0), 4), np.arange(12.0).reshape(4, 3)
    spread = jax.device_put((keys, rows, np.arange(4)), over)
    monkeypatch.setattr(type(spread[1]), "__getitem__", _only_of_one_device(type(spread[1])))
    for k in range(4):
        key, row, number = take_seed(spread, k)
        assert row.devices() == {jax.devices()[0]}
        np.testing.assert_array_equal(row, rows[k])
        np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(keys)[k])
        assert int(number) == k
    with pytest.raises(IndexError, match="seed 4 of 4"):
        take_seed(spread, 4)


def _only_of_one_device(kind):
    whole = kind.__getitem__

    def taken(array, index):
        assert len(array.devices()) == 1
        return whole(array, index)

    return taken
