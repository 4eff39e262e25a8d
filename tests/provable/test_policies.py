import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from eniac.envs import make
from eniac.provable.policies import StateIndexEnv, TablePolicy, softmax
from eniac.sampling.base import Evaluation
from eniac.sampling.compiled import CompiledSampler
from eniac.theory.planning import Model, optimal


def test_softmax_survives_huge_logits():
    logits = np.array([[1e6, 1e6 - 1, -1e6], [0.0, 0.0, 0.0]])
    expected = [[1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0.0], [1 / 3] * 3]
    np.testing.assert_allclose(softmax(logits), expected)


def test_a_table_is_sampled_by_its_probabilities():
    policy = TablePolicy(jnp.array([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3]]))
    noise = policy.noise(jax.random.key(0), (4000,))
    actions = np.asarray(jax.vmap(policy.action, (0, None))(noise, jnp.asarray(1)))
    counts = np.bincount(actions, minlength=3)
    assert stats.chisquare(counts, 4000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-4
    assert policy.mode(jnp.asarray(1)) == 1
    assert not jax.vmap(policy.action, (0, None))(noise, jnp.asarray(0)).any()


@pytest.mark.parametrize(("env", "best"), [("DeepSea-4", 0.99), ("CombinationLock-3", 4.0)])
def test_an_optimal_table_is_worth_the_best_return_when_it_is_played(env, best):
    inner = make(env)
    model = Model.of(inner.tabular(), 0.99)
    env = StateIndexEnv(inner, model.num_states)
    policy = TablePolicy(jnp.asarray(optimal(model).policy, jnp.float32))
    asked = Evaluation(episodes=20)
    returns = CompiledSampler(env).evaluate(jax.random.key(0), policy, asked).returns
    np.testing.assert_allclose(returns, best, atol=1e-5)
    assert env.observation_space.n == model.num_states
