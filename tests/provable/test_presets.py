"""What is left open: measured settings by name, rules from the table for everything else."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from eniac.algorithm1 import epoch
from eniac.envs import make
from eniac.envs.mdp import TabularMDP, chain, river_swim
from eniac.envs.names import find_env
from eniac.envs.toy_text import tabular_from_gymnasium
from eniac.errors import ConfigError
from eniac.provable import PROVABLE, ProvableConfig
from eniac.provable.config import table_of
from eniac.provable.presets import distances
from eniac.sampling.base import Evaluation


def toy_text(name):
    tables = tabular_from_gymnasium(gymnasium.make(name))
    assert tables is not None
    return TabularMDP(*tables)


def test_a_setting_that_is_given_is_kept_and_others_are_chosen_for_the_environment():
    sea = make("DeepSea-10")
    config = ProvableConfig(K=77, m=3.0).resolve(sea, "DeepSea-10")
    assert (config.K, config.m, config.gamma, config.rewards) == (77, 3.0, 0.9, "scale")
    assert ProvableConfig(epsilon=2.0).resolve(sea, "DeepSea-10").m is None
    assert config.resolve(sea, "DeepSea-10") == config
    assert config.max_epochs == config.default_epochs == 14


def test_nothing_is_chosen_before_the_environment_is_known():
    config = ProvableConfig()
    assert config.N is None
    assert config.max_epochs is None
    assert config.resolve(make("DeepSea-20"), "DeepSea-20").N == 28
    with pytest.raises(ConfigError, match="gamma, N, K, T, M, eta"):
        config.complete(2)


def test_distances_count_steps_and_tries():
    assert distances(chain(8)) == (7, 7.0)
    steps, tries = distances(river_swim())
    assert (steps, tries) == (4, pytest.approx(4 / 0.3))


@pytest.mark.parametrize("name", PROVABLE)
@pytest.mark.parametrize(
    "mdp",
    [chain(5), toy_text("FrozenLake-v1"), toy_text("CliffWalking-v1")],
    ids=["chain", "frozen-lake", "cliff-walking"],
)
def test_the_rules_leave_nothing_open_on_any_table(name, mdp):
    found = PROVABLE[name].default.for_mdp(mdp, 100).complete(mdp.num_actions)
    assert 0.8 <= found.gamma <= 0.99
    assert 6 <= found.N <= 50
    assert found.rewards == ("refuse" if mdp.reward.min() >= 0 else "scale")
    assert (found.alpha is None) == (not name.endswith("compute"))


def test_rules_are_near_what_was_measured():
    for env, name in (
        (make("DeepSea-10"), "DeepSea-10"),
        (make("CombinationLock-5"), "CombinationLock-5"),
    ):
        rule, measured = (ProvableConfig().resolve(env, n) for n in ("", name))
        assert rule.gamma == pytest.approx(measured.gamma)
        assert pytest.approx(measured.K, rel=0.1) == rule.K
        assert pytest.approx(measured.N, rel=0.1) == rule.N


@pytest.mark.parametrize("name", ["eniac-spi-sample", "eniac-npg-compute"])
def test_a_table_of_somebodys_own_runs_end_to_end(name):
    mdp = toy_text("FrozenLake-v1")
    small = replace(PROVABLE[name].default, N=2, K=500, T=3, M=500)
    learner = small.resolve(mdp).build(mdp, mdp, Evaluation(episodes=10, horizon=100))
    state = learner.init(0)
    for _ in range(2):
        state, metrics = epoch(learner, state, np.inf)
    assert 0 <= metrics["return_mean"][0] <= 1
    assert metrics["value/last"][0] <= learner.optimum


def test_gymnasiums_frozen_lake_runs_as_it_is():
    env = find_env("FrozenLake-v1", {})
    config = ProvableConfig(N=1, K=100, T=2, M=100).resolve(env, "FrozenLake-v1")
    assert config.adapt(env) is env
    learner = config.build(env, env, Evaluation(episodes=5, horizon=env.time_limit))
    assert learner.shape == (17, 4)
    epoch(learner, learner.init(0), np.inf)


def test_environments_without_a_table_are_refused_with_the_reason():
    for name in ("MountainCarContinuous-v0", "CartPole-v1"):
        with pytest.raises(ConfigError, match=r"finitely many states|no exact table"):
            table_of(find_env(name, {}))


def test_the_theorems_constants_are_refused_where_they_cannot_run():
    with pytest.raises(ConfigError, match=r"takes N \(K \+ T M\) = .* samples"):
        ProvableConfig(theory_constants=True).for_mdp(chain(4))
    with pytest.raises(ConfigError, match="no theorem in the paper"):
        replace(PROVABLE["spi"].default, theory_constants=True).for_mdp(chain(4))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_the_rules_are_good_enough_for_gymnasiums_toys(name):
    mdp = toy_text(name)
    learner = ProvableConfig().for_mdp(mdp).build(mdp, mdp, Evaluation(episodes=10, horizon=100))
    state, values = learner.init(0), []
    for _ in range(learner.config.N):
        state, metrics = epoch(learner, state, np.inf)
        values.append(float(metrics["value/last"][0]))
    worst = -1 / (1 - learner.config.gamma) if name == "CliffWalking-v1" else 0.0
    assert np.mean(values[-5:]) - worst >= 0.7 * (learner.optimum - worst)
