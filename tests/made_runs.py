"""Runs that readers of runs can look at, made when they are first asked for."""

import dataclasses
import json
import shutil
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac import Config, Run, load_run
from eniac.algorithms import ALGORITHMS
from eniac.runs.checkpoint import Checkpoint, save_checkpoint
from eniac.runs.files import write_json
from eniac.runs.identity import Origin
from eniac.runs.progress import Progress


def _make(algorithm, env, folder, policies, seeds=1):
    """A run that never trained, with so many policies and their visits in its cover."""
    row = ALGORITHMS[algorithm].default
    bonus = dataclasses.replace(row.bonus, features=8) if algorithm == "pc-pg" else row.bonus
    row = dataclasses.replace(row, hidden=(8,), visit_steps=100, bonus=bonus)
    config = Config(row, env=env, horizon=20, seeds=seeds, out=folder)
    built = config.build()
    learner = built.learner

    def visited(state):
        state, samples = learner.visit(state)
        return learner.extend(learner.merge(state, samples), samples)

    # Run once: the compiler's time is all that counts.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": "0"})
    def start(seed):
        state = learner.init(seed)
        return jax.lax.fori_loop(0, policies, lambda _, s: visited(s), state) if policies else state

    if learner.compiled:
        states = [start(seed) for seed in range(seeds)]
    else:
        states = [learner.init(seed) for seed in range(seeds)]
        for _ in range(policies):
            states = [visited(state) for state in states]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    run = Run(folder, built, states, Progress.start(seeds), [])
    (folder / "checkpoints").mkdir(parents=True)
    saved = Checkpoint(states, run.progress, {}, Origin("run", "settings", {}))
    save_checkpoint(folder / "checkpoints", saved, keep=2)
    write_json(folder / "config.json", config.to_dict())
    record = {"epoch": 1, "round": 1, "seed": 0, "env_steps": 10, "return_mean": 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    return run


RUNS = {
    "car": ("eniac", "MountainCarContinuous-v0", 3, 2),
    "sea": ("eniac", "DeepSea-4", 9, 1),  # more policies than colours
    "chain": ("pc-pg", "Chain-5", 2, 1),
    "rnd": ("ppo-rnd", "MountainCarContinuous-v0", 0, 1),
    "lock": ("ppo", "CombinationLock-3", 0, 1),
    "lake": ("eniac", "FrozenLake-v1", 2, 1),  # on the host
    "pole": ("eniac", "CartPole-v1", 1, 1),
}


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """The run with a name in `RUNS`, made when it is first asked for."""
    made = {}

    def get(name):
        if name not in made:
            algorithm, env, policies, seeds = RUNS[name]
            folder = tmp_path_factory.mktemp(name) / "run"
            made[name] = _make(algorithm, env, folder, policies, seeds)
        return made[name]

    return get


@pytest.fixture(scope="session")
def kept_car(run_of, tmp_path_factory):
    """The folder of a run of four epochs, of whose checkpoints the first and the last were kept.
    Its bonus is not 0."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    shutil.copytree(run_of("car").path, folder)
    old = load_run(folder)
    bias = old.states.bonus.f.head.bias
    states = eqx.tree_at(lambda s: s.bonus.f.head.bias, old.states, bias + 0.1)
    for epoch in (1, 4):
        epochs = np.full(2, epoch)
        progress = Progress(epochs, 100 * epochs, np.zeros(2), np.zeros(2), 1.0)
        saved = Checkpoint(states, progress, {}, Origin("run", "settings", {}))
        save_checkpoint(folder / "checkpoints", saved, keep=9)
    records = [
        {
            "epoch": n,
            "round": 1,
            "seed": seed,
            "env_steps": 100 * n,
            "return_mean": float(n),
            "explore/bonus_decides": 0.5,
        }
        for n in (1, 2, 3, 4)
        for seed in (0, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in records))
    return folder
