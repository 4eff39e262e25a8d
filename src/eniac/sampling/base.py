"""Experience, whatever gives it: what a learner asks of a sampler, and what it gets.

A learner is written once, over a `Sampler`. Where environments are pure JAX (`compiled.py`) all of
an epoch is one program; where they are gymnasium's (`host.py`) Python steps them. The two differ in
`when` and `repeat`, which are `lax.cond` and `lax.scan` or Python's `if` and `for`, and in who
steps the environments. What lies between two steps is the same pure function, `decide`.

Functions on a trajectory take one trajectory, with time as the only axis; those that act take a
batch of environments, because drawing the randomness of a whole rollout ahead, for all environments
and steps together, is what makes it fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from eniac.errors import require
from eniac.policies import ActorCritic
from eniac.spaces import Spaces, element_bytes, emitted

AnyArray = jax.Array | np.ndarray
"""JAX's inside a program, NumPy's where Python steps the environments."""

LONGEST_EPISODE = 10_000
"""Steps after which an episode that is only watched, to judge or to draw it, is cut if there is no
time limit. Training copes with episodes that never end; an evaluation would wait for them."""

Carry = TypeVar("Carry")
Metrics = dict[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


class EnvBatch(NamedTuple):
    """Environments under way: their states, and what their agents see."""

    state: Any
    observation: Any

    @property
    def size(self) -> int:
        return jax.tree.leaves(self.observation)[0].shape[0]


class Trajectory(NamedTuple):
    """What a rollout saw, time first, then environments.

    `next_value` is V of the state that the step led to, before any reset: what a truncated or
    unfinished episode is bootstrapped with. It is not to be used where `terminated`. `on_policy` is
    False for what is not to be learned from: the steps of a roll-in, which another policy chose,
    and the steps with which some gymnasium environments reset themselves.
    """

    observation: Any
    action: AnyArray
    log_prob: Float[AnyArray, "time envs"]
    value: Float[AnyArray, "time envs"]
    next_value: Float[AnyArray, "time envs"]
    reward: Float[AnyArray, "time envs"]
    terminated: Bool[AnyArray, "time envs"]
    truncated: Bool[AnyArray, "time envs"]
    on_policy: Bool[AnyArray, "time envs"]
    num_steps: Int[AnyArray, ""]
    """environment steps that were taken, roll-ins included, resets not"""
    rolled_in: Bool[AnyArray, "time envs"] | None = None
    """the steps of a roll-in; `log_prob` is what the current policy thinks of them"""


class RollIn(NamedTuple):
    """How the trajectories of a rollout begin: groups of environments each follow a policy of the
    cover for `length` steps, and then the current policy.

    A group shares its policy, its length and its coin: one set of weights serves all its
    environments, which is what keeps the cost of many policies small. The first action of the
    current policy after a roll-in is uniform if `coin`, a toss with probability `epsilon`.
    """

    policies: Any
    length: Int[Array, " groups"]
    happens: Bool[Array, " groups"]
    coin: Bool[Array, " groups"]
    epsilon: Float[Array, ""]


@dataclass(frozen=True)
class Evaluation:
    """How the policy is judged after every round. Nothing is learned from these episodes."""

    episodes: int = 100
    """Number of episodes, each from a fresh start state."""

    horizon: int | None = None
    """Steps after which an episode of the evaluation is cut. None: as in training."""

    deterministic: bool = False
    """Take the policy's most likely action instead of sampling one."""

    first: int | None = None
    """Report also the mean return of the first so many steps of an episode (return_first_mean).
    None: not, or the length of a trajectory if the algorithm's episodes are episodic."""

    def __post_init__(self):
        for name in ("episodes", "horizon", "first"):
            value = getattr(self, name)
            fits = value is None or 1 <= value < 2**31
            require(fits, f"evaluation.{name}", value, "1 or more, and below 2**31")

    def memory(self, spaces: Spaces) -> dict[str, int]:
        """Bytes that the episodes take at least, which are played side by side."""
        each = element_bytes(spaces.observation) + element_bytes(emitted(spaces.action)) + 32
        return {"evaluation.episodes": self.episodes * each}


class Episodes(NamedTuple):
    """What an evaluation saw: undiscounted returns and lengths, one of each an episode."""

    returns: Float[AnyArray, " episodes"]
    lengths: Int[AnyArray, " episodes"]
    first_returns: Float[AnyArray, " episodes"]
    """what the first steps of each episode brought, as many as were asked for"""
    num_steps: Int[AnyArray, ""]
    """environment steps that were taken, resets not"""
    cut: Bool[AnyArray, " episodes"] | None = None
    """whether only we have ended it, after `LONGEST_EPISODE`; None if there is a time limit"""


@runtime_checkable
class Sampler(Protocol):
    """Where a learner's experience comes from."""

    @property
    def compiled(self) -> bool:
        """Whether what is written over this sampler is one program for JAX to compile."""
        ...

    @property
    def spaces(self) -> Spaces: ...

    def when(
        self, condition: Any, step: Callable[[Carry], tuple[Carry, Metrics]], carry: Carry
    ) -> tuple[Carry, Metrics]:
        """`step(carry)` if `condition`; else `carry` as it is, and zeros (or nothing) for what it
        reports."""
        ...

    def repeat(
        self, step: Callable[[Carry, Any], tuple[Carry, Any]], carry: Carry, inputs: Any
    ) -> tuple[Carry, Any]:
        """`step` on each row of `inputs` in turn; the last carry, and all reports stacked."""
        ...

    def pure(self, function: Function) -> Function:
        """`function`, which takes and returns arrays and steps no environment, made fast."""
        ...

    def begin(self, key: PRNGKeyArray, num_envs: int, parked: Any = None) -> EnvBatch:
        """Environments to roll out in: those that were `parked`, where that is possible, or fresh
        ones at their start. There are `num_envs`, or as many as the user has given."""
        ...

    def park(self, envs: EnvBatch) -> Any:
        """What of `envs` can be kept in a state, as arrays, until the next `begin`."""
        ...

    def reset(self, key: PRNGKeyArray, envs: EnvBatch) -> EnvBatch:
        """All of them at a new start."""
        ...

    def rollout(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        envs: EnvBatch,
        num_steps: int,
        roll_in: RollIn | None = None,
    ) -> tuple[EnvBatch, Trajectory]:
        """`num_steps` steps of `policy` in every environment; one whose episode ends is reset.

        With a `roll_in` the first steps of a group are those of a policy of the cover. They stand
        in the trajectory too, and `on_policy` is False there.
        """
        ...

    def evaluate(self, key: PRNGKeyArray, policy: Any, evaluation: Evaluation) -> Episodes:
        """So many whole episodes of `policy`."""
        ...

    def evaluate_each(self, key: PRNGKeyArray, policies: Any, evaluation: Evaluation) -> Episodes:
        """So many whole episodes of each of some policies, which are stacked, and so is what they
        come to; the steps are those of all."""
        ...

    def warnings(self) -> list[str]:
        """What the user should know of the environments before they are used."""
        ...

    def counts(self) -> Metrics:
        """What has happened to the environments since this was last asked, as metrics."""
        ...

    def events(self) -> list[str]:
        """The same in words."""
        ...

    def close(self) -> None:
        """Ends all environments."""
        ...


class Draws(NamedTuple):
    """The randomness of all actions of a rollout, drawn ahead."""

    noise: Array
    uniform_action: Array | None
    """the first own one of each environment after a roll-in, if there is any"""


def draw_actions(
    keys: Key[Array, "2"],
    policy: ActorCritic,
    num_steps: int,
    num_envs: int,
    rolls_in: bool,
) -> Draws:
    noise_key, uniform_key = keys
    noise = policy.noise(noise_key, (num_steps, num_envs))
    return Draws(noise, policy.uniform(uniform_key, (num_envs,)) if rolls_in else None)


class Decision(NamedTuple):
    action: Array
    log_prob: Float[Array, " envs"]
    value: Float[Array, " envs"]
    on_policy: Bool[Array, " envs"]


def decide(
    policy: ActorCritic,
    roll_in: RollIn | None,
    uniform_action: Array | None,
    time: Int[Array, ""],
    noise: Array,
    observation: Any,
) -> Decision:
    """What all environments do at step `time` of a rollout.

    The log-probability of the first own action after a roll-in is that of the mixture,
    log((1 - epsilon) pi + epsilon uniform).
    """
    num_envs = noise.shape[0]
    if roll_in is None:
        return Decision(*jax.vmap(policy.act)(noise, observation), jnp.ones(num_envs, bool))
    groups = roll_in.length.shape[0]

    def spread(x: Array) -> Array:
        return jnp.repeat(x, num_envs // groups)

    def grouped(x: Array) -> Array:
        return x.reshape((groups, num_envs // groups, *x.shape[1:]))

    theirs = jax.vmap(lambda other, n, o: jax.vmap(lambda n, o: other.act(n, o)[0])(n, o))(
        roll_in.policies, grouped(noise), jax.tree.map(grouped, observation)
    )
    theirs = theirs.reshape((num_envs, *theirs.shape[2:]))
    on_policy = time >= spread(roll_in.length)
    first = spread(roll_in.happens) & (time == spread(roll_in.length))
    distribution, value = jax.vmap(policy)(observation)
    ours = jax.vmap(lambda d, n: d.transform(n))(distribution, noise)
    ours = select(first & spread(roll_in.coin), uniform_action, ours)
    action = select(on_policy, ours, theirs)
    log_prob = jax.vmap(lambda d, a: d.log_prob(a))(distribution, action)
    mixed = jnp.logaddexp(
        jnp.log1p(-roll_in.epsilon) + log_prob, jnp.log(roll_in.epsilon) + policy.log_uniform
    )
    return Decision(action, jnp.where(first, mixed, log_prob), value, on_policy)


def choose(policy: Any, key: PRNGKeyArray, observation: Any, deterministic: bool) -> Array:
    """What `policy` does in each of many environments: its most likely action, or a random one."""
    if deterministic:
        return jax.vmap(policy.mode)(observation)
    num = jax.tree.leaves(observation)[0].shape[0]
    return jax.vmap(policy.action)(policy.noise(key, (num,)), observation)


def advantages(
    trajectory: Trajectory,
    gamma: float | Float[Array, ""],
    gae_lambda: float | Float[Array, ""],
) -> tuple[Float[Array, " time"], Float[Array, " time"]]:
    """Generalised advantage estimates of one trajectory, and its discounted returns.

    A terminal step has no future; a truncated one, like the last, has the value of the state it
    led to as its future: a time limit is not death.
    """
    future = jnp.where(trajectory.terminated, 0.0, gamma * trajectory.next_value)
    delta = trajectory.reward + future - trajectory.value
    goes_on = ~(trajectory.terminated | trajectory.truncated)

    def backwards(carry: tuple[Array, Array], now: tuple[Any, ...]):
        advantage, following = carry
        delta, reward, future, goes_on = now
        advantage = delta + gamma * gae_lambda * goes_on * advantage
        following = reward + jnp.where(goes_on, gamma * following, future)
        return (advantage, following), (advantage, following)

    start = (jnp.zeros(()), trajectory.next_value[-1])
    _, (advantage, returns) = jax.lax.scan(
        backwards, start, (delta, trajectory.reward, future, goes_on), reverse=True
    )
    return advantage, returns


def rollout_advantages(
    seen: Trajectory, gamma: float, gae_lambda: float
) -> tuple[Float[Array, "time envs"], Float[Array, "time envs"]]:
    """`advantages` in every environment of a rollout."""
    axes = Trajectory(*(1,) * 9, num_steps=None)  # pyright: ignore[reportArgumentType]
    each = jax.vmap(lambda one: advantages(one, gamma, gae_lambda), in_axes=(axes,), out_axes=1)
    return each(seen._replace(rolled_in=None))


NONFINITE = ("nothing", "observations", "actions", "rewards")
"""What may be NaN or infinite, in the order in which an agent sees, acts and is paid: the first of
them to be so is the cause of all that follows."""


def nonfinite(seen: Trajectory) -> Int[Array, ""]:
    """What of a rollout was the first to be NaN or infinite, as a place in `NONFINITE`.

    An action counts with its probability and value, and an observation that nobody acts on any
    more by its value.
    """

    def bad(x: Any) -> Bool[Array, "time envs"]:
        leaves = [leaf for leaf in jax.tree.leaves(x) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        found = jnp.zeros(seen.reward.shape, bool)
        for leaf in leaves:
            found |= jnp.any(~jnp.isfinite(leaf), axis=tuple(range(2, leaf.ndim)))
        return found

    never = 4 * (len(seen.reward) + 1)
    parts = (seen.observation, (seen.action, seen.log_prob, seen.value), seen.reward)
    at = jnp.full(seen.reward.shape, never)
    # From the last that a step brings to the first, which then stands.
    for place, x in ((5, seen.next_value), *reversed(list(enumerate(parts, 1)))):
        time = jnp.arange(len(seen.reward))[:, None]
        at = jnp.where(bad(x), 4 * time + place, at)
    return jnp.min(at) % 4


def first_nonfinite(before: Int[AnyArray, ""], seen: Trajectory) -> Int[Array, ""]:
    """What was found in earlier rollouts, or else what is in this one."""
    return jnp.where(jnp.asarray(before) > 0, before, nonfinite(seen))


def summary(episodes: Episodes, first: int | None = None) -> Metrics:
    """The numbers of an evaluation, under the names that metrics and reports have for them."""
    judged = {
        "return_mean": jnp.mean(episodes.returns),
        "return_std": jnp.std(episodes.returns),
        "return_min": jnp.min(episodes.returns),
        "return_max": jnp.max(episodes.returns),
        "length_mean": jnp.mean(episodes.lengths.astype(jnp.float32)),
    }
    if first is not None:
        judged["return_first_mean"] = jnp.mean(episodes.first_returns)
    if episodes.cut is not None:
        judged["episodes_cut"] = jnp.sum(episodes.cut)
    return judged


def select(condition: Bool[Array, " envs"], yes: Any, no: Any) -> Any:
    """For each environment the leaf of `yes` where `condition`, else that of `no`."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, yes, no)


def flat(x: Any) -> Any:
    """Times and environments in one axis, in every leaf."""
    return jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), x)


def on_policy_first(
    on_policy: Bool[Array, " rows"],
) -> tuple[Int[Array, " rows"], Int[Array, ""]]:
    """An order of the rows in which those that are on-policy come first, and their number."""
    num = jnp.sum(on_policy)
    place = jnp.where(on_policy, jnp.cumsum(on_policy) - 1, num + jnp.cumsum(~on_policy) - 1)
    order = (
        jnp.zeros(on_policy.shape, jnp.int32)
        .at[place]
        .set(jnp.arange(on_policy.shape[0], dtype=jnp.int32), unique_indices=True)
    )
    return order, num
