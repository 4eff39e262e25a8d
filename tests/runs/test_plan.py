"""Which runs a sweep has: all combinations, checked before any is run."""

import json

import pytest

from eniac import ConfigError, EniacError
from eniac.cli.sweep import plan_words
from eniac.runs.plan import plan, read_definition

SPI, SEA = "eniac-spi-sample", "DeepSea-3"


def words(algorithms=(SPI,), envs=(SEA,), vary=(), options=(), seed=0, seeds=1):
    return plan_words(algorithms, envs, vary, list(options), seed, seeds)


def test_a_sweep_is_all_combinations_the_first_seed_first():
    runs = plan(
        [SPI, {"name": "npg", "N": 3}],
        [SEA, {"name": "FrozenLake-v1", "horizon": 9}],
        {"epochs": 2},
        {"K": [50, 60]},
        seed=4,
        seeds=2,
    )
    assert len(runs) == 2 * 2 * 2 * 2
    assert [run.config.seed for run in runs] == [4] * 8 + [5] * 8
    assert len({run.name for run in runs}) == 16
    last = runs[-1]
    assert last.group == ("npg N=3", "FrozenLake-v1 horizon=9", "K=60")
    assert last.name == "npg-N-3-FrozenLake-v1-horizon-9-K-60-5"
    config = last.config
    assert (config.algorithm.N, config.algorithm.K, config.horizon) == (3, 60, 9)
    assert (config.epochs, config.seeds, config.checkpoint_every) == (2, 1, 1)
    assert runs[0].config.algorithm.N != 3
    assert runs[0].config.horizon is None


def test_words_of_a_command_line_say_the_same():
    by_name = plan(
        [SPI, {"name": "npg", "N": 3}], SEA, {"epochs": 2}, {"K": [50, 60]}, seed=1, seeds=2
    )
    by_words = words((SPI, "npg --N 3"), vary=(("K", "50", "60"),), options=("--epochs", "2"))
    again = words((SPI, "npg --N 3"), (SEA,), (("K", "50", "60"),), ("--epochs", "2"), 1, 2)
    assert [run.config for run in by_name] == [run.config for run in again]
    assert [run.name for run in by_name] == [run.name for run in again]
    assert len(by_words) == 4


def test_options_of_several_words_and_switches_can_be_varied():
    runs = words(
        ("ppo",),
        vary=(("hidden", "4 4", "8"), ("evaluation.deterministic", "true", "false")),
        options=("--checkpoint-every", "7"),
    )
    found = [(run.config.algorithm.hidden, run.config.evaluation.deterministic) for run in runs]
    assert runs[1].setting == "hidden=4 4 evaluation.deterministic=false"
    assert found == [((4, 4), True), ((4, 4), False), ((8,), True), ((8,), False)]
    assert {run.config.checkpoint_every for run in runs} == {7}


def test_names_are_those_of_folders_and_never_the_same():
    long = {"name": SEA, "env_timeout": 1 / 7, "return_above": 1 / 3}
    runs = plan({"name": SPI, "K": 50, "T": 2, "M": 50, "m": 5.0, "N": 3, "beta": 0.123456}, long)
    runs += plan(SPI, SEA, vary={"return_above": [0.5, -0.5]})
    for run in runs:
        assert len(run.name) < 140
        assert run.name.replace("-", "").replace(".", "").isalnum()
    assert len({run.name for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"algorithms": []}, r"Which algorithms\? A sweep needs one or more\."),
        ({"envs": []}, r"Which environments\?"),
        ({"envs": [SEA, SEA]}, "the environment DeepSea-3 is given twice"),
        ({"algorithms": [SPI, "pppo"]}, "pppo on DeepSea-3: .*'pppo'.* Did you mean 'ppo'"),
        ({"envs": ["DeepSee-3"]}, "eniac-spi-sample on DeepSee-3: "),
        ({"settings": {"K": 0}}, "on DeepSea-3: .*K is 0"),
        ({"vary": {"K": [5, 0]}}, "eniac-spi-sample on DeepSea-3 with K=0: .*K is 0"),
        ({"vary": {"K": 5}}, "vary of K is 5; it must be a list of values"),
        ({"vary": {"K": []}}, r"vary of K is \[\]; it must be a list"),
        ({"vary": {"K": [5, 5]}}, "the setting K=5 is given twice"),
        ({"vary": {"seed": [1, 2]}}, "seed is 1; it is given for the sweep"),
        ({"settings": {"out": "x"}}, "out is 'x'; it is given for the sweep"),
        ({"settings": {"env": SEA}}, "env is 'DeepSea-3'; environments are given as envs"),
        ({"settings": ["K"]}, r"settings is \['K'\]; it must be a table"),
        ({"algorithms": [{"K": 5}]}, "one of algorithms is .*; it must be a name, or a table"),
        ({"seeds": 0}, "seeds is 0; it must be a whole number, 1 or more"),
        ({"seed": "0"}, "seed is '0'; it must be a whole number"),
        ({"seeds": 200_000}, "the number of runs is 200000; it must be 100,000 or less"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(given, told, unchecked):
    with pytest.raises(ConfigError, match=told) as caught:
        plan(**{"algorithms": [SPI], "envs": [SEA]} | given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"options": ("--seeds", "3")}, "--seeds is chosen by the sweep: give --seeds before"),
        ({"algorithms": ("ppo --env X",)}, "--env is chosen by the sweep: give --envs"),
        ({"vary": (("out", "x"),)}, "--out is chosen by the sweep"),
        ({"vary": (("K",),)}, "--vary K has no values; for instance"),
        ({"algorithms": ("ppo 'x",)}, "cannot be read: No closing quotation"),
        ({"algorithms": ("--depth 4",)}, "has no name; it must begin with one"),
        ({"algorithms": (SPI, "ppo"), "options": ("--depth", "4")}, f"{SPI} on .* has no --depth"),
    ],
)
def test_words_that_cannot_be_are_told(given, told):
    with pytest.raises(ConfigError, match=told):
        words(**given)


def test_a_file_says_the_same_in_json_and_toml(tmp_path):
    table = {"algorithms": [SPI, {"name": "npg", "N": 3}], "envs": [SEA], "vary": {"K": [5, 6]}}
    (tmp_path / "a.json").write_text(json.dumps(table | {"seeds": 2}))
    (tmp_path / "a.toml").write_text(
        f'algorithms = ["{SPI}", {{name = "npg", N = 3}}]\nenvs = ["{SEA}"]\nseeds = 2\n'
        "[vary]\nK = [5, 6]\n"
    )
    found = [read_definition(tmp_path / f"a.{kind}") for kind in ("json", "toml")]
    assert found[0] == found[1]
    assert len(plan(**found[0])) == 8


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.yaml", "", "must end in .json or .toml"),
        ("none.toml", None, "there is no file"),
        ("a.toml", "algorithms = ", "is damaged: "),
        ("a.json", "[1]", r"has \[1\]; it must be a table of algorithms"),
        ("a.json", "{", "is damaged: "),
        ("a.toml", 'envs = ["x"]', "has no algorithms"),
        ("a.toml", 'algorithm = ["x"]', "has 'algorithm', .* Did you mean 'algorithms'"),
    ],
)
def test_a_file_that_is_none_of_a_sweep_is_told_in_a_line(tmp_path, name, text, told):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(EniacError, match=told) as caught:
        read_definition(tmp_path / name)
    assert "\n" not in str(caught.value)
