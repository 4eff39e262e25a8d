"""The rows of Stable-Baselines3 in benchmarks/exploration.py: PPO and SAC, with gSDE where actions
are continuous. That program runs this one with .venv-bench's Python, for a run at a time.

Settings are those of rl-baselines3-zoo (hyperparams/ppo.yml and sac.yml) where it has the task, and
the library's own elsewhere; networks of mountain car have the task's depth. The last policy is
judged in 20 episodes every 5,000 steps (later: every twentieth of the steps so far), by its most
likely actions, and on MiniGrid by random ones, as the zoo does. If their mean passes the threshold,
100 more decide. No episode of these is counted, in steps or seconds.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces.utils import flatdim, flatten
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from eniac.reproduce.judged import FRESH, thinned
from eniac.reproduce.tasks import EPISODES, TASKS, Task
from eniac.reproduce.wanted import Wanted, machine
from eniac.runs.manifest import commit

LOOKS = 20
"""Episodes of a first look, and environments side by side."""
EVERY, SHARE = 5_000, 20

# Beside the arguments of PPO or SAC: n_envs, normalize, and under `lin` what falls to 0 over the
# limit of steps.
PPO_SETTINGS: dict[str, dict[str, Any]] = {
    "MountainCarContinuous-v0": {
        "normalize": True,
        "n_steps": 8,
        "batch_size": 256,
        "gamma": 0.9999,
        "learning_rate": 7.77e-5,
        "ent_coef": 0.00429,
        "clip_range": 0.1,
        "n_epochs": 10,
        "gae_lambda": 0.9,
        "max_grad_norm": 5,
        "vf_coef": 0.19,
        "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "sde_sample_freq": 4,
    },
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "lin": {"learning_rate": 1e-3, "clip_range": 0.2},
    },
    "MountainCar-v0": {
        "normalize": True,
        "n_envs": 16,
        "n_steps": 16,
        "gae_lambda": 0.98,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "Acrobot-v1": {
        "normalize": True,
        "n_envs": 16,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "MiniGrid": {
        "normalize": True,
        "n_envs": 8,
        "n_steps": 512,
        "batch_size": 64,
        "gae_lambda": 0.95,
        "gamma": 0.99,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 2.5e-4,
        "clip_range": 0.2,
    },
}
SAC_SETTINGS: dict[str, dict[str, Any]] = {
    "MountainCarContinuous-v0": {
        "learning_rate": 3e-4,
        "buffer_size": 50_000,
        "batch_size": 512,
        "ent_coef": 0.1,
        "train_freq": 32,
        "gradient_steps": 32,
        "gamma": 0.9999,
        "tau": 0.01,
        "learning_starts": 0,
        "policy_kwargs": {"log_std_init": -3.67},
    },
    "Pendulum-v1": {"learning_rate": 1e-3},
}


class PoolEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment of EnvPool's as one of gymnasium's; chosen keys of a Dict joined to one
    vector, as numbers or one-hot."""

    def __init__(self, id: str, keys: tuple[str, ...], seed: int):
        import envpool

        self.pool = envpool.make_gymnasium(id, num_envs=1, seed=seed)
        self.action_space = self.pool.action_space
        space = self.pool.observation_space
        self.keys = keys or (tuple(space) if isinstance(space, gymnasium.spaces.Dict) else ())
        self.observation_space = space
        if self.keys:
            size = sum(flatdim(space[key]) for key in self.keys)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def flat(self, seen: Any) -> np.ndarray:
        if not self.keys:
            return seen[0]
        space = self.pool.observation_space
        parts = [flatten(space[key], seen[key][0]) for key in self.keys]
        return np.concatenate(parts).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        return self.flat(self.pool.reset()[0]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        batch = np.asarray(action, self.action_space.dtype)[None]
        seen, reward, terminated, truncated, _ = self.pool.step(batch)
        return self.flat(seen), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}


def environments(task: Task, num: int, seed: int, training: bool) -> DummyVecEnv:
    """Mountain car of gymnasium's, whose episodes in training have 100 steps if it is episodic;
    else EnvPool's."""
    pool, _, id = task.env.rpartition(":")
    if pool:
        return DummyVecEnv([lambda k=k: PoolEnv(id, task.keys, seed + k) for k in range(num)])
    limit = {"max_episode_steps": 100} if task.episodic and training else {}
    envs = DummyVecEnv([lambda: gymnasium.make(id, **limit)] * num)
    envs.seed(seed)
    return envs


def settings(task: Task, algorithm: str) -> dict[str, Any]:
    known = PPO_SETTINGS if algorithm == "sb3-ppo" else SAC_SETTINGS
    id = task.env.rpartition(":")[2]
    chosen = dict(known.get("MiniGrid" if id.startswith("MiniGrid") else id, {}))
    if task.continuous:
        chosen["use_sde"] = True
    if task.depth:
        from eniac.networks import DEPTHS

        hidden = list(DEPTHS[task.depth])
        chosen["policy_kwargs"] = {**chosen.get("policy_kwargs", {}), "net_arch": hidden}
    return chosen


def play(task: Task, model: Any, envs: DummyVecEnv, normaliser: Any, episodes: int) -> np.ndarray:
    """The returns of so many episodes, equally many in each of `envs`."""
    greedy = "MiniGrid" not in task.env
    returns: list[list[float]] = [[] for _ in range(envs.num_envs)]
    each = -(-episodes // envs.num_envs)
    total, seen = np.zeros(envs.num_envs), envs.reset()
    while min(map(len, returns)) < each:
        observation = seen if normaliser is None else normaliser.normalize_obs(seen)
        action, _ = model.predict(observation, deterministic=greedy)
        seen, reward, done, _ = envs.step(action)
        total += reward
        for k in np.flatnonzero(done):
            returns[k].append(float(total[k]))
            total[k] = 0
    return np.array([x for one in returns for x in one[:each]])


class Judge(BaseCallback):
    """Looks at the policy from time to time, and ends the training when the task is solved."""

    def __init__(self, task: Task, envs: DummyVecEnv, normaliser: Any, to_the_end: bool):
        super().__init__()
        self.task, self.envs, self.normaliser = task, envs, normaliser
        self.to_the_end = to_the_end
        self.curve: list[list[Any]] = []
        self.solved: int | None = None
        self.solved_at: dict[str, Any] | None = None
        self.next = EVERY
        self.judging = 0.0
        self.began = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.began - self.judging

    def _on_step(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        return self.look() or self.to_the_end

    def look(self) -> bool:
        """Whether the task is not solved yet."""
        clock = time.process_time()
        self.next = self.num_timesteps + max(EVERY, self.num_timesteps // SHARE)
        mean = float(np.mean(play(self.task, self.model, self.envs, self.normaliser, LOOKS)))
        passed = self.task.solves(mean)
        if passed:
            mean = float(np.mean(play(self.task, self.model, self.envs, self.normaliser, EPISODES)))
            passed = self.task.solves(mean)
        self.judging += time.process_time() - clock
        self.curve.append([self.num_timesteps, round(mean, 4), None])
        if passed and self.solved_at is None:
            self.solved = len(self.curve) - 1
            self.solved_at = {"steps": self.num_timesteps, "seconds": round(self.seconds, 2)}
        return not passed


def make(run: Wanted) -> int:
    """Trains and writes the file. It begins anew if it was interrupted."""
    torch.set_num_threads(1)
    task = TASKS[run.task]
    if run.flags:
        print(
            f"{run.algorithm} takes no flags of eniac's: {shlex.join(run.flags)}", file=sys.stderr
        )
        return 2
    chosen = settings(task, run.algorithm)
    kind = PPO if run.algorithm == "sb3-ppo" else SAC
    # Before the library adds to what it is given.
    command = f"{kind.__name__}('MlpPolicy', {task.env!r}, **{chosen!r})"
    print(f"  {command}", flush=True)
    envs: Any = environments(task, chosen.pop("n_envs", 1), 1000 * run.seed, training=True)
    normaliser = None
    if chosen.pop("normalize", False):
        gamma = chosen.get("gamma", 0.99)
        envs = normaliser = VecNormalize(envs, gamma=gamma)
    for name, value in chosen.pop("lin", {}).items():
        chosen[name] = lambda left, value=value: left * value
    model = kind("MlpPolicy", envs, seed=run.seed, device="cpu", **chosen)
    watching = environments(task, LOOKS, FRESH + 1000 * run.seed, training=False)
    judge = Judge(task, watching, normaliser, run.to_the_end)
    model.learn(run.steps, callback=judge)
    seconds = judge.seconds
    if not judge.curve or judge.curve[-1][0] < model.num_timesteps:
        judge.look()
    fresh = environments(task, LOOKS, 2 * FRESH + 1000 * run.seed, training=False)
    final = play(task, model, fresh, normaliser, EPISODES)
    run.keep_result(
        command=command,
        commit=commit(),
        versions={name: version(name) for name in ("stable-baselines3", "torch", "gymnasium")},
        machine=machine(),
        solved_at=judge.solved_at,
        steps=model.num_timesteps,
        seconds=round(seconds, 2),
        compile_seconds=0.0,
        final={
            "episodes": EPISODES,
            "return_mean": round(float(final.mean()), 4),
            "return_std": round(float(final.std()), 4),
            "return_min": round(float(final.min()), 4),
            "return_max": round(float(final.max()), 4),
        },
        curve=thinned(judge.curve, judge.solved),
    )
    return 0


if __name__ == "__main__":
    sys.exit(make(Wanted.from_dict(json.loads(sys.argv[1]))))
