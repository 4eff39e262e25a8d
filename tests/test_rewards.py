"""Rewards over the spread of discounted returns."""

import jax.numpy as jnp
import numpy as np

from eniac.rewards import RewardScale
from eniac.sampling.base import Trajectory

GAMMA = 0.9


def trajectory(reward, ended, on_policy):
    nothing = np.zeros_like(reward)
    return Trajectory(
        observation=nothing,
        action=nothing,
        log_prob=nothing,
        value=nothing,
        next_value=nothing,
        reward=reward,
        terminated=ended,
        truncated=np.zeros_like(ended),
        on_policy=on_policy,
        num_steps=np.asarray(reward.size, np.int32),
    )


def totals_by_hand(reward, ended):
    totals = np.zeros_like(reward)
    for env in range(reward.shape[1]):
        total = 0.0
        for t in range(len(reward)):
            total = GAMMA * total + reward[t, env]
            totals[t, env] = total
            total = 0.0 if ended[t, env] else total
    return totals


def test_rewards_are_divided_by_the_spread_of_all_discounted_sums_so_far():
    rng = np.random.default_rng(0)
    scale, seen = RewardScale.start(), []
    for spread in (1.0, 20.0, 0.1):
        reward = rng.normal(1.0, spread, (30, 4)).astype(np.float32)
        ended, on_policy = rng.random((30, 4)) < 0.1, rng.random((30, 4)) < 0.7
        scale = scale.update(trajectory(reward, ended, on_policy), GAMMA)
        seen.append(totals_by_hand(reward, ended)[on_policy])
        expected = reward / np.std(np.concatenate(seen))
        np.testing.assert_allclose(scale(jnp.asarray(reward)), expected, rtol=1e-4)


def test_a_rollout_of_roll_ins_alone_changes_no_scale():
    reward = np.full((5, 2), 100.0, np.float32)
    none = np.zeros((5, 2), bool)
    scale = RewardScale.start().update(trajectory(reward, none, none), GAMMA)
    np.testing.assert_allclose(scale(jnp.asarray(reward)), reward, rtol=1e-6)
