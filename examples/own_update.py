"""A policy update of your own: one step of the plain policy gradient on each rollout.

    python examples/own_update.py [FOLDER]
    eniac train ppo --env CartPole-v1 --update own_update:PolicyGradient

The second works in the folder of this file. An update is a frozen dataclass with two functions:
what it remembers of a fresh policy, and what it makes of a policy, that memory and a rollout.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import eniac


@dataclass(frozen=True)
class PolicyGradient(eniac.UpdateRule):
    learning_rate: float = 3e-3
    gamma: float = 0.99

    def init(self, policy):
        return optax.adam(self.learning_rate).init(eqx.filter(policy, eqx.is_inexact_array))

    def learn(self, key, policy, memory, seen, explores=False):
        gain, returns = eniac.rollout_advantages(seen, self.gamma, 0.95)

        def loss(policy):
            distribution, value = jax.vmap(jax.vmap(policy))(seen.observation)
            log_prob = jax.vmap(jax.vmap(lambda d, a: d.log_prob(a)))(distribution, seen.action)
            each = 0.01 * (value - returns) ** 2 - log_prob * gain
            return jnp.sum(each * seen.on_policy) / jnp.sum(seen.on_policy)

        error, gradient = eqx.filter_value_and_grad(loss)(policy)
        step, memory = optax.adam(self.learning_rate).update(gradient, memory)
        return eqx.apply_updates(policy, step), memory, {"loss": error}


def main(out: Path, **settings: object) -> float:
    """Trains in the folder `out` and returns the mean return of the last evaluation."""
    algorithm = replace(eniac.ALGORITHMS["ppo"].default, update=PolicyGradient(), **settings)
    result = eniac.train(eniac.Config(algorithm, env="RiverSwim-v0", epochs=2, out=out))
    return float(result.progress.returns[0])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_update"))
