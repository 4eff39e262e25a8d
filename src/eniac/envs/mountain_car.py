"""Continuous mountain car, with the physics of gymnasium's `MountainCarContinuous-v0`."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from eniac.envs.base import Environment, Step
from eniac.envs.pictures import draw_mountain_car

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
GOAL_POSITION = 0.45
POWER = 0.0015
GRAVITY = 0.0025


class CarState(NamedTuple):
    position: Float[Array, ""]
    velocity: Float[Array, ""]


class MountainCarContinuous(Environment):
    """A car too weak for the hill it stands under; swinging back and forth gets it to the flag.

    One step equals one of gymnasium 1.4's `Continuous_MountainCarEnv`, in float32: the engine's
    force is the action clipped to [-1, 1], while the reward, 100 at the flag minus
    0.1 action^2, charges for the action *as given*, outside the box too. The left wall stops the
    car; the right one clips its position and leaves its velocity.

    `goal_velocity` is the least velocity with which passing the flag counts.
    """

    goal_velocity: float = eqx.field(static=True, default=0.0)

    def __check_init__(self):
        if not np.isfinite(self.goal_velocity):
            raise ValueError(f"goal_velocity is {self.goal_velocity}; expected a finite number.")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        low = np.array([MIN_POSITION, -MAX_SPEED], np.float32)
        high = np.array([MAX_POSITION, MAX_SPEED], np.float32)
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[CarState, Float[Array, "2"]]:
        """At rest, at a position uniform in [-0.6, -0.4]."""
        position = jax.random.uniform(key, (), jnp.float32, -0.6, -0.4)
        state = CarState(position, jnp.zeros((), jnp.float32))
        return state, jnp.stack(state)

    def step(self, key: PRNGKeyArray, state: CarState, action: Float[Array, "1"]) -> Step:
        del key  # the physics is deterministic
        effort = jnp.asarray(action, jnp.float32)[0]
        force = jnp.clip(effort, -1.0, 1.0)
        velocity = state.velocity + (force * POWER - GRAVITY * jnp.cos(3 * state.position))
        velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
        position = jnp.clip(state.position + velocity, MIN_POSITION, MAX_POSITION)
        velocity = jnp.where((position <= MIN_POSITION) & (velocity < 0), 0.0, velocity)
        terminated = (position >= GOAL_POSITION) & (velocity >= self.goal_velocity)
        reward = jnp.where(terminated, 100.0, 0.0) - 0.1 * effort**2
        state = CarState(position, velocity)
        return Step(state, jnp.stack(state), reward, terminated, jnp.zeros((), bool))

    def render(self, state: CarState) -> np.ndarray:
        limits = (MIN_POSITION, MAX_POSITION)
        return draw_mountain_car(
            float(state.position), float(state.velocity), limits, GOAL_POSITION
        )

    @property
    def render_fps(self) -> int:
        return 30
