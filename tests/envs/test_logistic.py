import numpy as np
import pytest

from eniac.envs import LogisticMDP
from eniac.theory.planning import Model, action_values, optimal, uniform_policy, value


def logit(x):
    return np.log(x) - np.log1p(-x)


@pytest.mark.parametrize("seed", range(3))
def test_action_values_are_logistic_in_the_features_for_every_policy(seed):
    env = LogisticMDP(num_contexts=3, num_actions=4, dim=2, seed=seed)
    model = Model.of(env.tabular(), 0.8)
    policy = np.random.default_rng(seed).dirichlet(np.ones(4), model.num_states)
    q = action_values(model, policy)[:-1] / 25.0
    features = env.features[:-1].reshape(-1, env.features.shape[2])
    u, *_ = np.linalg.lstsq(features, logit(q.ravel()), rcond=None)
    np.testing.assert_allclose(features @ u, logit(q.ravel()), atol=1e-8)


def test_rewards_lie_in_the_unit_interval_and_the_best_is_worth_finding():
    env = LogisticMDP()
    reward = env.tabular().reward
    assert reward.min() == 0.0
    assert reward.max() == pytest.approx(0.9)
    model = Model.of(env.tabular(), 0.8)
    best = float(model.start @ optimal(model).values)
    assert value(model, uniform_policy(model)) < best / 2


@pytest.mark.parametrize("wrong", [{"num_actions": 1}, {"dim": 0}, {"scale": 0.5}])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        LogisticMDP(**wrong)
