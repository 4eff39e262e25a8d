import sys
import types

import numpy as np
import pytest

from eniac.envs import CombinationLock, DeepSea, MountainCarContinuous, make, random_linear_mdp
from eniac.envs.mdp import random_mdp, river_swim
from eniac.errors import ConfigError
from eniac.functions import CLASSES, FunctionClass, make_function_class
from eniac.functions.inputs import group_equal
from eniac.theory.planning import Model


class Constant(FunctionClass):
    """A class of somebody's own: one number for all pairs."""

    name = "constant"
    additive = convex = True

    def __init__(self, num_states, num_actions, bound, inputs, scale=1.0):
        self.num_states, self.num_actions, self.bound, self.dim = num_states, num_actions, bound, 1
        self.inputs, self.scale = inputs, scale

    def _fit(self, target, weight, start):
        return np.array([np.sum(weight * target) / np.sum(weight)])

    def __call__(self, params):
        return np.full(self.shape, params[0])

    def widths(self, counts, epsilon, threshold=None):
        return np.full(self.shape, epsilon / np.sqrt(max(np.sum(counts), 1e-12)))

    def sample(self, rng):
        return rng.uniform(-self.bound, self.bound, size=1)


NEEDS = {"aggregation": {"num_groups": 2}, "finite": {"tables": np.full((1, 6, 2), 50.0)}}


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_made_from_an_mdp_by_its_name(name):
    made = make_function_class(name, river_swim(), gamma=0.9, **NEEDS.get(name, {}))
    assert made.name == name
    assert made.shape == (6, 2)
    assert made(made.zero()).shape == (6, 2)
    assert made.bound >= 10


@pytest.mark.parametrize("name", ["tabular", "network", "trees", "glm"])
def test_the_bound_is_that_of_realisability_unless_given(name):
    assert make_function_class(name, river_swim(), gamma=0.9).bound == pytest.approx(100)
    assert make_function_class(name, river_swim(), gamma=0.9, bound=20).bound == 20
    assert make_function_class(name, river_swim(), bound=3).bound == 3


@pytest.mark.parametrize("name", ["tabular", "network", "trees", "glm", "aggregation"])
def test_a_bound_that_cannot_hold_the_values_is_refused(name):
    with pytest.raises(ValueError, match=r"smaller than 1/\(1-gamma\) = 10"):
        make_function_class(name, river_swim(), gamma=0.9, bound=9.9, **NEEDS.get(name, {}))
    with pytest.raises(ValueError, match=r"smaller than 1/\(1-gamma\)"):
        make_function_class("linear", river_swim(), gamma=0.9, norm_bound=1.0)
    with pytest.raises(ValueError, match=r"smaller than 1/\(1-gamma\)"):
        make_function_class("finite", river_swim(), gamma=0.9, tables=np.zeros((1, 6, 2)))


@pytest.mark.parametrize(("name", "meant"), [("tabulr", "tabular"), ("tree", "trees")])
def test_an_unknown_name_is_answered_with_the_nearest(name, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
        make_function_class(name, river_swim(), gamma=0.9)


def test_a_class_of_ones_own_is_named_by_its_module(monkeypatch):
    module = types.ModuleType("somebodys")
    module.Constant, module.number = Constant, 3
    monkeypatch.setitem(sys.modules, "somebodys", module)
    made = make_function_class("somebodys:Constant", river_swim(), gamma=0.9, scale=2.0)
    assert (made.shape, made.bound, made.scale) == ((6, 2), pytest.approx(100), 2.0)
    assert made.inputs.shape == (6, 2, 12)
    assert made(made.fit(np.full((6, 2), 7.0), np.ones((6, 2)))).tolist() == [[7.0] * 2] * 6
    for name, reason in {
        "somebodys:number": "subclass of eniac.functions.FunctionClass",
        "somebodys:Missing": "has no 'Missing'",
        "nobodys:Constant": "there is no module 'nobodys'",
    }.items():
        with pytest.raises(ConfigError, match=reason):
            make_function_class(name, river_swim(), gamma=0.9)
    with pytest.raises(ConfigError, match=r"no option 'scal'. Did you mean 'scale'"):
        make_function_class("somebodys:Constant", river_swim(), gamma=0.9, scal=2.0)


def test_an_unknown_option_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match=r"no option 'max_leafs'. Did you mean 'max_leaves'"):
        make_function_class("trees", river_swim(), gamma=0.9, max_leafs=3)
    with pytest.raises(ValueError, match="no option 'inputs'"):
        make_function_class("tabular", river_swim(), gamma=0.9, inputs="pairs")


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("tabular", {}, "give bound"),
        ("tabular", {"gamma": 1.0}, "gamma is 1.0"),
        ("aggregation", {"gamma": 0.9}, "either groups or num_groups"),
        ("aggregation", {"gamma": 0.9, "num_groups": 7}, "expected 1 to 6"),
        ("aggregation", {"gamma": 0.9, "groups": [0, 1]}, "groups have shape"),
        ("finite", {"gamma": 0.9}, "takes tables"),
        ("finite", {"tables": np.zeros((1, 2, 2))}, "states and actions"),
        ("network", {"gamma": 0.9, "inputs": "coordinate"}, "Did you mean 'coordinates'"),
        ("linear", {"gamma": 0.9, "inputs": "features"}, "needs a linear"),
        ("linear", {"gamma": 0.9, "inputs": np.zeros((5, 2, 3))}, "inputs have shape"),
        ("tabular", {"bound": -1.0}, "bound is -1"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, reason):
    with pytest.raises(ValueError, match=reason):
        make_function_class(name, river_swim(), **options)


def test_continuous_actions_are_refused():
    with pytest.raises(NotImplementedError, match="no exact tabular view"):
        make_function_class("tabular", MountainCarContinuous(), gamma=0.9)


def test_a_model_an_environment_and_one_with_a_time_limit_will_all_do():
    env = make("RiverSwim-v0")
    model = Model.of(river_swim(), gamma=0.9)
    for mdp in (env, model, river_swim()):
        assert make_function_class("tabular", mdp, gamma=0.9).shape == (6, 2)


@pytest.mark.parametrize("env", [DeepSea(4), CombinationLock(3), random_mdp(num_states=5)])
@pytest.mark.parametrize("inputs", ["pairs", "one-hot", "coordinates"])
def test_inputs_tell_all_pairs_apart(env, inputs):
    made = make_function_class("trees", env, gamma=0.9, inputs=inputs)
    assert len(np.unique(group_equal(made.inputs))) == made.num_states * made.num_actions
    assert np.all(made.separable)


def test_the_features_of_a_linear_mdp_are_its_inputs_and_hold_its_values():
    env = random_linear_mdp(dim=4)
    made = make_function_class("linear", env, gamma=0.9)
    assert np.array_equal(made.features, env.features)
    # Q = phi . (theta + gamma mu V): the ball holds the weights for every V within the bound.
    weights = env.theta + 0.9 * env.measures @ np.full(made.num_states, 99.0)
    assert np.linalg.norm(weights) <= made.norm_bound
    table = env.features @ weights
    assert made(made.fit(table, np.ones(made.shape))) == pytest.approx(table)


def test_states_may_be_given_without_their_actions():
    made = make_function_class("network", river_swim(), bound=5, inputs=np.arange(6.0)[:, None])
    assert made.inputs.shape == (6, 2, 3)


def test_groups_of_states_keep_their_actions_apart():
    made = make_function_class("aggregation", river_swim(), bound=5, groups=[0, 0, 0, 1, 1, 1])
    assert made.dim == 4
    assert made.groups.tolist() == [[0, 1]] * 3 + [[2, 3]] * 3


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("glm", {"link": 3}),
        ("glm", {"norm_bound": "large"}),
        ("trees", {"num_trees": "three"}),
        ("trees", {"num_trees": True}),
        ("network", {"seed": "zero"}),
    ],
)
def test_options_of_a_class_are_of_the_kind_of_its_parameters(name, options):
    with pytest.raises(ConfigError, match=r"; it must be (text|a number)"):
        make_function_class(name, make("Chain-4"), gamma=0.9, **options)
