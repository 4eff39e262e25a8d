"""Values that no run can have: each is refused in one line that names it."""

import json
import math

import pytest

from eniac import Config, ConfigError, train
from eniac.algorithms import ALGORITHMS
from runs.random_configs import check_line, draw_config, judge_config

NAN, INF = math.nan, math.inf
HUGE, HUGER = 10**400, 10**5000
LONG = "a" * 300

BAD = [
    # environment
    *(("env", x, "env") for x in ("", 3, None, ["DeepSea-4"], LONG, "a\0b", {})),
    *(("env", x, "no name of one") for x in ("x y", "../x", ":", "nowhere:", "a:b:c:d", "é-5!")),
    ("env", "DeepSee-4", "Did you mean"),
    *(("env_options", x, "env_options") for x in ([], "size 3", None, 3)),
    *(("env_options", {"size": x}, "env_options.size") for x in ([1], NAN, -INF, None, {}, "a\0")),
    *(("env_options", {"size": x}, "digits") for x in (HUGE, -HUGE, HUGER)),
    *(("env_options", {x: 1}, "a name in env_options") for x in ("", "a\0", LONG, 3, "a\nb")),
    *(("observation_keys", x, "observation_keys") for x in ("x", [1], [""], [LONG], ["a\0"], {})),
    *(("vectorization", x, "vectorization") for x in ("syncc", 1, None)),
    *(("horizon", x, "horizon") for x in (0, -1, 2**31, 1.5, True, "100", HUGE, HUGER)),
    # seeds and stop rules
    *(("seed", x, "seed") for x in (-1, 2**31, 1.0, None, "0", HUGE)),
    *(("seeds", x, "seeds") for x in (0, 10_001, 10**9, 1.5, None, True, HUGE)),
    *(("epochs", x, "epochs") for x in (0, 101, "3", 1e3, 2**63, HUGER)),
    *(("steps", x, "steps") for x in (0, -5, 2.5, 10**30, "many", [])),
    *(("seconds", x, "seconds") for x in (0, -1.0, NAN, INF, 1e39, HUGE, "60", True)),
    *(("return_above", x, "return_above") for x in (NAN, INF, -INF, 1e300, "93", HUGER, [93])),
    # evaluation
    *(("evaluation", x, "evaluation") for x in (None, 3, [], "100", {"episode": 1})),
    *(
        ("evaluation.episodes", x, "episodes")
        for x in (0, -1, 2**31, 10**12, 1.5, None, True, HUGE)
    ),
    *(("evaluation.horizon", x, "horizon") for x in (0, 2**31, "9", 1.0)),
    *(("evaluation.deterministic", x, "deterministic") for x in (0, 1, "false", "no", None)),
    *(("evaluation.first", x, "first") for x in (0, HUGE)),
    # files
    *(("checkpoint_every", x, "checkpoint_every") for x in (0, -1, None, 2.0, 2**63)),
    *(("keep", x, "keep") for x in (1, 0, -3, "3", None)),
    *(("out", x, "out") for x in ("", 3, "a\0b", LONG, ["x"], f"a/{LONG}", "a" * 5000, "\ud800")),
    *(("wandb", x, "wandb") for x in (1, "false", None)),
    # names that there are not
    *((x, 1, "is not a field") for x in ("epoch", "a\nb", "__class__", LONG, "\x1b[2J", "\u202e")),
    *((f"algorithm.{x}", 1, "is not a field") for x in ("num_env", "", "hidden ", "type")),
    ("algorithm.bonus.outter", 1, "Did you mean 'outer'"),
    # the algorithm
    *(("algorithm", x, "algorithm") for x in (None, 3, "eniac", [], {}, {"name": 3}, HUGER)),
    *(("algorithm.name", x, "algorithm") for x in ("eniak", "", None, LONG, "os:system")),
    *(("algorithm.hidden", x, "hidden") for x in ([], 3, "64", [0], [-1], [1.5], [True], [[8]])),
    *(("algorithm.hidden", x, "hidden") for x in ([10**12], [8] * 101, [HUGE], [8] * 20_000)),
    *(("algorithm.num_envs", x, "num_envs") for x in (0, -1, 10**12, 10**30, 1.5, "9", None, True)),
    *(("algorithm.rollout_length", x, "rollout_length") for x in (0, 1, 10**12, "x", HUGE)),
    *(("algorithm.updates_per_round", x, "updates_per_round") for x in (0, 10**9, 10**12)),
    *(("algorithm.rounds", x, "rounds") for x in (0, 10**12, None)),
    *(("algorithm.episodes", x, "episodes") for x in ("episodes", 1, None)),
    *(("algorithm.normalise_observations", x, "normalise_obs") for x in ("no", 0, None)),
    *(("algorithm.cover", x, "cover") for x in ("uniform", 3, [], {}, {"type": 3}, {"type": LONG})),
    *(("algorithm.cover", {"type": x}, "cover") for x in ("unifrom", "os:system", "no:X", ":", "")),
    ("algorithm.cover", {"type": "uniform", "x": 1}, "is not a field"),
    ("algorithm.cover", None, "bonus is"),
    *(("algorithm.bonus", x, "bonus") for x in (None, "width", {}, {"type": "widht"}, [1])),
    ("algorithm.bonus", {"type": "zero", "coefficient": 1}, "coefficient is not a field"),
    *(("algorithm.bonus.outer", x, "outer") for x in (0, 10**12, 1.5, HUGER)),
    *(("algorithm.bonus.quantile", x, "quantile") for x in (0, 1.5, NAN)),
    *(("algorithm.bonus.coefficient", x, "coefficient") for x in (0, -1, NAN, 1e39)),
    *(("algorithm.bonus.threshold", x, "threshold") for x in (0, "0.5")),
    *(("algorithm.bonus.of", x, "of") for x in ("action", 1)),
    *(("algorithm.combine", x, "combine") for x in ("plus", None)),
    *(("algorithm.roll_in", x, "roll_in") for x in (3, None, [])),
    *(("algorithm.roll_in.share", x, "share") for x in (-0.1, 1.1, NAN, "half")),
    *(("algorithm.roll_in.group", x, "group") for x in (0, 1.5, 2**31)),
    *(("algorithm.fit_after", x, "fit_after") for x in (-1, 50)),
    *(("algorithm.visit_steps", x, "visit_steps") for x in (0, 10**15, 2**31 - 1)),
    *(("algorithm.buffer_rows", x, "buffer_rows") for x in (0, 10**12)),
    *(("algorithm.capacity", x, "capacity") for x in (0, 10**12, None)),
    *(("algorithm.exploit_from", x, "exploit_from") for x in (-1, 10**18)),
    *(("algorithm.update", x, "update") for x in (None, "ppo", {"type": "ppoo"})),
    *(
        ("algorithm.update.learning_rate", x, "learning_rate")
        for x in (0, -1, NAN, 1e39, "x", HUGE)
    ),
    *(("algorithm.update.minibatch", x, "minibatch") for x in (0, 10**30, HUGER)),
    *(("algorithm.update.gamma", x, "gamma") for x in (1, -0.1, 1.5, INF)),
    *(("algorithm.update.optimizer", x, "optimizer") for x in ("sgd", 0)),
]

BAD_PROVABLE = [
    *(("algorithm.gamma", x, "gamma") for x in (0, 1, 1.5, NAN, "0.9")),
    *(("algorithm.N", x, "N") for x in (0, 10**12, 1.5, HUGER)),
    *((f"algorithm.{name}", x, name) for name in "KTM" for x in (0, -1, 10**12, HUGE)),
    *(("algorithm.eta", x, "eta") for x in (0, -1, INF, HUGE)),
    *((f"algorithm.{name}", 0, name) for name in ("m", "beta", "epsilon", "bound", "delta")),
    *(("algorithm.alpha", x, "alpha") for x in (0.5, 2)),
    *(("algorithm.class_options", x, "class_options") for x in ([], {"": 1}, {"x": [1]})),
    *((f"algorithm.{name}", "x", name) for name in ("rewards", "tangent", "version", "update")),
    *(("algorithm.subsample", x, "subsample") for x in ("no", 1)),
    *(("algorithm.function_class", x, "function_class") for x in (3, None, "a\0", "a" * 5000)),
]


def changed(row, path, value):
    """The data of a row's config, with another value at a dotted path."""
    data = table = json.loads(
        json.dumps(Config(ALGORITHMS[row].default, env="DeepSea-4").to_dict())
    )
    *above, name = path.split(".") if path.startswith(("algorithm", "evaluation")) else [path]
    for each in above:
        table = table[each]
    table[name] = value
    return data


def test_there_are_as_many_bad_values_as_promised():
    assert len(BAD) + len(BAD_PROVABLE) >= 200


@pytest.mark.parametrize(
    ("row", "path", "value", "word"),
    [
        *(pytest.param("eniac", *row, id=f"{i}-{row[0]:.30}") for i, row in enumerate(BAD)),
        *(pytest.param("spi", *row, id=f"spi-{i}-{row[0]}") for i, row in enumerate(BAD_PROVABLE)),
    ],
)
def test_a_bad_value_is_refused_in_a_line_that_names_it(row, path, value, word):
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(changed(row, path, value))
    check_line(str(caught.value))
    assert word in str(caught.value)


@pytest.mark.usefixtures("unchecked")
def test_random_configs_are_taken_or_refused_in_a_line_and_nothing_else():
    found = [judge_config(draw_config(seed)) for seed in range(300)]
    # Some of each: a generator that is always refused, or never, tests nothing.
    assert found.count("taken") >= 10
    assert found.count("refused") >= 200


def test_a_run_that_fits_no_memory_is_refused_and_leaves_no_folder(toy_config, monkeypatch):
    monkeypatch.setattr("eniac.memory.available", lambda: 100)
    config = toy_config()
    with pytest.raises(ConfigError, match=r"would take at least .* and 100 bytes are free"):
        train(config)
    assert not config.out.exists()


def test_out_is_a_folder_and_not_a_file(toy_config):
    config = toy_config()
    config.out.write_text("the user's")
    with pytest.raises(ConfigError, match="is a file"):
        train(config)
    assert config.out.read_text() == "the user's"
