"""The presets against the tables of the paper's appendix, copied number by number."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.algorithms.deep import PRESETS, DeepSpec
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND as RNDRule
from eniac.bonuses.width import Width
from eniac.bonuses.zero import Zero
from eniac.cover import LogDet, Uniform
from eniac.envs import make
from eniac.incumbent import IncumbentRule
from eniac.networks import DEPTHS
from eniac.sampling.base import Evaluation

# Table 1, "ENIAC Width Training Hyperparameters": 2-layer, 4-layer, 6-layer.
WIDTH = {
    "lambda": (0.1, 0.1, 0.1),
    "lambda_1": (0.01, 0.01, 0.01),
    "|Z_Q|": (20000, 20000, 20000),
    "Learning Rate": (0.001, 0.001, 0.0015),
    "|D_j|": (160, 160, 160),
    "|D_Q|": (20, 20, 10),
    "Gradient Clipping": (5.0, 5.0, 5.0),
    "I": (1000, 1000, 1000),
    "J": (10, 10, 10),
}
# Table 2, "ENIAC/PC-PG Optimization Hyperparameters". What it prints as e^{-3} means 1e-3.
OPTIMISATION = {
    "Learning Rate": (5e-4, 5e-4, 5e-4),
    "tau_GAE": (0.95, 0.95, 0.95),
    "Gradient Clipping": (5.0, 5.0, 5.0),
    "Entropy Bonus": (0.01, 0.01, 0.01),
    "PPO Ratio Clip": (0.2, 0.2, 0.2),
    "PPO Minibatch": (160, 160, 160),
    "PPO Optimization Epochs": (5, 5, 5),
    "epsilon-greedy sampling": (0.05, 0.05, 0.05),
}
# Table 3, "PPO-RND Hyperparameters".
RND = {
    "Learning Rate": (1e-4, 1e-4, 1e-4),
    "tau_GAE": (0.95, 0.95, 0.95),
    "Gradient Clipping": (5.0, 5.0, 5.0),
    "Entropy Bonus": (0.01, 0.01, 0.01),
    "PPO Ratio Clip": (0.2, 0.2, 0.2),
    "PPO Minibatch": (160, 160, 160),
    "PPO Optimization Epochs": (5, 5, 5),
    "Intrinsic Reward Normalization": (False, False, False),
    "Intrinsic Reward Coefficient": (5e3, 1e3, 1e3),
}
# Section 5.3.
NETWORKS = {2: (64, 64), 4: (64, 128, 128, 64), 6: (64, 64, 128, 128, 64, 64)}

each_depth = pytest.mark.parametrize(("column", "depth"), list(enumerate((2, 4, 6))))

DEEP = [name for name, row in ALGORITHMS.items() if isinstance(row, DeepSpec)]


def preset(name, depth):
    return ALGORITHMS[name].settings(preset=f"paper-depth{depth}")


def at(table, column):
    return {name: values[column] for name, values in table.items()}


def optimisation(ppo):
    return {
        "Learning Rate": ppo.learning_rate,
        "tau_GAE": ppo.gae_lambda,
        "Gradient Clipping": ppo.max_gradient_norm,
        "Entropy Bonus": ppo.entropy,
        "PPO Ratio Clip": ppo.clip,
        "PPO Minibatch": ppo.minibatch,
        "PPO Optimization Epochs": ppo.passes,
    }


def test_there_is_a_preset_for_each_depth_of_the_paper():
    assert PRESETS == {"paper-depth2": 2, "paper-depth4": 4, "paper-depth6": 6}
    assert DEPTHS == NETWORKS


@each_depth
def test_eniacs_width_is_trained_with_the_numbers_of_table_1(column, depth):
    width = preset("eniac", depth).bonus
    assert at(WIDTH, column) == {
        "lambda": width.weight,
        "lambda_1": width.push,
        "|Z_Q|": width.query_size,
        "Learning Rate": width.learning_rate,
        "|D_j|": width.buffer_batch,
        "|D_Q|": width.query_batch,
        "Gradient Clipping": width.max_gradient_norm,
        "I": width.outer,
        "J": width.inner,
    }


@each_depth
@pytest.mark.parametrize("name", ["eniac", "pc-pg", "zero"])
def test_algorithms_with_a_cover_are_optimised_with_the_numbers_of_table_2(name, column, depth):
    settings = preset(name, depth)
    epsilon = {"epsilon-greedy sampling": settings.roll_in.epsilon}
    assert optimisation(settings.update) | epsilon == at(OPTIMISATION, column)


@each_depth
def test_rnd_has_the_numbers_of_table_3(column, depth):
    settings = preset("ppo-rnd", depth)
    assert at(RND, column) == optimisation(settings.update) | {
        "Intrinsic Reward Normalization": settings.bonus.normalise,
        "Intrinsic Reward Coefficient": settings.bonus.coefficient,
    }
    assert settings.bonus.learning_rate == RND["Learning Rate"][column]


@each_depth
@pytest.mark.parametrize("name", DEEP)
def test_every_preset_has_the_papers_network_discount_and_horizon(name, column, depth):
    settings = preset(name, depth)
    assert settings.name == name
    assert settings.hidden == NETWORKS[depth]
    assert settings.update.gamma == 0.99
    assert settings.rollout_length == 100
    assert settings.update.optimizer == "rmsprop"


@each_depth
@pytest.mark.parametrize("name", DEEP)
def test_no_preset_takes_a_step_to_choose_its_policy_and_no_update_ends_early(name, column, depth):
    """The paper's result is the exploiting policy as it is; ours have an incumbent."""
    settings = preset(name, depth)
    assert settings.incumbent == IncumbentRule(episodes=0)
    assert settings.update.max_clipped == 1
    assert not settings.update.imitate
    assert settings.update.explore_entropy is None
    assert not settings.fit_episodes
    assert not settings.first_visits
    assert not settings.normalise_observations
    assert not settings.normalise_rewards
    learner = settings.build(make("DeepSea-3"), make("DeepSea-3"), Evaluation())
    assert learner.shapes().incumbent is None
    assert ALGORITHMS[name].settings(depth).incumbent.episodes > 0


@each_depth
def test_the_papers_width_is_its_equation_on_its_own_queries_by_its_maximum(column, depth):
    width = preset("eniac", depth).bonus
    assert width.training == "lagrangian"
    assert width.uniform_share == 0
    assert not width.reinitialise
    assert width.normaliser == "max"
    assert width.coefficient == 0.5
    assert width.threshold is None


def test_the_rows_differ_in_what_section_5_2_says_they_differ_in():
    rows = {name: preset(name, 2) for name in DEEP}
    assert {n: type(r.cover) for n, r in rows.items()} == {
        "eniac": Uniform,
        "ppo": type(None),
        "ppo-rnd": type(None),
        "pc-pg": LogDet,
        "zero": LogDet,
    }
    assert {n: type(r.bonus) for n, r in rows.items()} == {
        "eniac": Width,
        "ppo": Zero,
        "ppo-rnd": RNDRule,
        "pc-pg": Kernel,
        "zero": Zero,
    }
    for name in ("eniac", "pc-pg", "zero"):
        assert rows[name].combine == "max"
    assert rows["ppo-rnd"].combine == "add"
    assert rows["ppo"].bonus.coefficient == 0
    assert rows["zero"].bonus.coefficient == 0
    assert rows["pc-pg"].bonus.coefficient == 1


@pytest.mark.parametrize("name", ["eniac", "pc-pg", "zero"])
def test_an_epoch_with_a_cover_is_that_of_the_papers_program(name):
    settings = preset(name, 2)
    # Half a million steps a round.
    assert settings.num_envs * settings.rollout_length * settings.updates_per_round == 500_000
    assert settings.visit_steps == settings.visit_rows == 10 * 10 * 100
    assert settings.rounds == settings.exploit_from == 3
    assert settings.updates_per_round == 10
    assert settings.roll_in.share == 0.8
    assert settings.roll_in.length == "uniform"
    assert settings.episodes == "continuing"
    assert not settings.restart


@pytest.mark.parametrize("name", ["ppo", "ppo-rnd"])
def test_an_update_without_a_cover_is_of_ten_workers_and_a_hundred_steps(name):
    settings = preset(name, 2)
    assert (settings.num_envs, settings.rollout_length) == (10, 100)
    assert settings.num_envs * settings.rollout_length * settings.updates_per_round == 500_000


@pytest.mark.parametrize("depth", [2, 4, 6])
@pytest.mark.parametrize("name", DEEP)
def test_our_own_settings_are_the_same_algorithm(name, depth):
    ours, paper = ALGORITHMS[name].settings(depth), preset(name, depth)
    assert ours.hidden == paper.hidden
    assert ours.name == paper.name == name
    assert type(ours.cover) is type(paper.cover)
    # With a cover and a bonus, ours explores by the bonus alone.
    own = {"eniac": "bonus", "pc-pg": "bonus"}
    assert ours.combine == own.get(name, paper.combine)
    assert type(ours.bonus) is type(paper.bonus)


def test_the_papers_eniac_fits_its_width_after_six_updates_of_thirty():
    """Three rounds of ten, the first six of them before the width is fitted, in line 9."""
    settings = preset("eniac", 2)
    assert (settings.rounds, settings.updates_per_round, settings.fit_after) == (3, 10, 6)
    assert preset("pc-pg", 2).fit_after == preset("zero", 2).fit_after == 0


@pytest.fixture(scope="module")
def paper_eniac():
    """The paper's ENIAC with its counts as they are and everything that is counted made small:
    the states before and after two epochs, and the metrics of each."""
    settings = preset("eniac", 2)
    width = replace(settings.bonus, outer=2, inner=2, query_size=30, buffer_batch=8, query_batch=4)
    settings = replace(
        settings,
        hidden=(4,),
        num_envs=NUM_ENVS,
        rollout_length=TIME,
        visit_envs=2,
        visit_steps=VISITS,
        capacity=4,
        bonus=width,
        roll_in=replace(settings.roll_in, group=1),
        update=replace(settings.update, minibatch=8, passes=1),
    )
    env = make("DeepSea-3")
    learner = settings.build(env, env, Evaluation(episodes=2))
    run = jax.jit(lambda state: epoch(learner, state, jnp.inf))
    states, metrics = [jax.jit(learner.init)(0)], []
    for _ in range(2):
        state, reported = run(states[-1])
        states.append(state)
        metrics.append(jax.device_get(reported))
    return states, metrics


NUM_ENVS, TIME, VISITS = 2, 3, 6


def test_the_papers_eniac_makes_thirty_exploring_updates_an_epoch(paper_eniac):
    """Counted through its steps: no exploiting policy learns in the first epoch."""
    _, (first, second) = paper_eniac
    rollout = NUM_ENVS * TIME
    # The six updates of line 9 are reported with the first round, which leaves out as many.
    assert first["steps"].tolist() == [VISITS + 10 * rollout, 10 * rollout, 10 * rollout]
    assert first["steps"].sum() == VISITS + 30 * rollout
    # Then both policies learn: as many updates again.
    assert second["steps"].sum() == VISITS + 60 * rollout


def test_the_papers_exploiting_policy_starts_in_round_3_of_the_run(paper_eniac):
    states, (first, second) = paper_eniac
    assert first["exploit/entropy"].tolist() == [0, 0, 0]
    assert (second["exploit/entropy"] > 0).all()
    exploiting = [jax.tree.map(lambda x: x[1], state.actors.policy) for state in states]
    leaves = [[x for x in jax.tree.leaves(policy)] for policy in exploiting]
    assert all(np.array_equal(a, b) for a, b in zip(leaves[0], leaves[1], strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves[1], leaves[2], strict=True))


def test_the_papers_cover_grows_once_an_epoch(paper_eniac):
    states, metrics = paper_eniac
    assert [int(state.cover.count) for state in states] == [0, 1, 2]
    assert [m["cover/count"].tolist() for m in metrics] == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.usefixtures("unchecked")
def test_unknown_presets_and_depths_are_refused_with_those_that_exist():
    row = ALGORITHMS["eniac"]
    with pytest.raises(ValueError, match="preset is 'paper-depth3'; it must be one of paper-dept"):
        row.settings(preset="paper-depth3")
    with pytest.raises(ValueError, match="depth is 3; it must be one of 2, 4, 6"):
        row.settings(3)
    with pytest.raises(ValueError, match="episodes is 'forever'; it must be 'continuing' or 'epi"):
        row.settings(episodes="forever")
