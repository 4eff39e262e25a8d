"""One learner, every kind of environment: a conformance suite with environments that count."""

import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from eniac.envs import names
from eniac.envs.names import env_from, find_env
from eniac.envs.stepping import HostStep, env_seeds
from eniac.errors import ConfigError, RunError
from envs.counting import (
    NUM_ACTIONS,
    Broken,
    Counting,
    Failing,
    NativeCounting,
    Unseeded,
    length,
)

MODES = list(AutoresetMode)
KINDS = ["box", "dict", "tuple"]
SEED = 11


def makers(kind, mode):
    # gymnasium's own do not copy the last observation before a reset in this mode.
    reuse = mode is not AutoresetMode.SAME_STEP
    return [lambda: Counting(kind, reuse=reuse)] * 5


# What environments may be made of: how to give them, how many, and how they are opened.
WAYS = {
    "function": (lambda kind: lambda: Counting(kind), 5, {}),
    "instance": (lambda kind: Counting(kind), 1, {}),
    "async": (lambda kind: lambda: Counting(kind), 3, {"vectorization": "async"}),
}
for mode in MODES:
    WAYS[f"SyncVectorEnv {mode.name}"] = (
        lambda kind, mode=mode: SyncVectorEnv(makers(kind, mode), autoreset_mode=mode),
        5,
        {},
    )
    WAYS[f"SyncVectorEnv {mode.name}, nothing copied"] = (
        lambda kind, mode=mode: SyncVectorEnv(makers(kind, mode), copy=False, autoreset_mode=mode),
        5,
        {},
    )
    WAYS[f"wrapped {mode.name}"] = (
        lambda kind, mode=mode: gymnasium.wrappers.vector.RecordEpisodeStatistics(
            SyncVectorEnv(makers(kind, mode), autoreset_mode=mode)
        ),
        5,
        {},
    )
    WAYS[f"AsyncVectorEnv {mode.name}"] = (
        lambda kind, mode=mode: AsyncVectorEnv(
            makers(kind, mode)[:3], autoreset_mode=mode, context="forkserver"
        ),
        3,
        {},
    )
    WAYS[f"native {mode.name}"] = (
        lambda kind, mode=mode: NativeCounting(5, mode, kind),
        5,
        {},
    )

# Processes take long to start: they are looked at in one test, dicts and tuples in one mode.
PROCESSES = [way for way in WAYS if way.lower().startswith("async")]
QUICK = [way for way in WAYS if way not in PROCESSES]


@pytest.fixture
def opened():
    """Opens environments, and closes what it was given at the end."""
    given, envs = [], []

    def open_(way, kind="box"):
        make, num_envs, options = WAYS[way]
        given.append(make(kind))
        envs.append(env_from(given[-1]).open(num_envs, **options))
        return envs[-1]

    yield open_
    for one in envs:
        one.close()
    for one in given:
        if hasattr(one, "close"):
            one.close()


def numbers(observation, i):
    """(number, episode, step, last action), after a look at what else an observation holds."""
    if isinstance(observation, dict):
        assert type(observation) is dict
        row = observation["numbers"][i]
        image = observation["inner"]["image"][i]
        assert image.dtype == np.uint8
        assert image.shape == (2, 3)
        assert (image == row[2]).all()
        return tuple(row.tolist())
    if isinstance(observation, tuple):
        assert observation[1][i] == observation[0][i][2]
        return tuple(observation[0][i].tolist())
    assert observation.dtype == np.float64
    return tuple(int(x) for x in observation[i])


def act(i, k):
    """The action of environment i at its k-th real step."""
    return (7 * i + 3 * k) % NUM_ACTIONS


def rollout(envs, seed, steps, begin=None):
    """Per environment, its real steps: (seen, action, reward, terminated, truncated, seen next).

    What is seen after the end of an episode is its last observation if it was truncated, None if
    it terminated.
    """
    n = envs.num_envs
    observation = begin(seed) if begin else envs.begin(seed)
    taken = np.zeros(n, int)
    streams = [[] for _ in range(n)]
    for _ in range(steps):
        seen = [numbers(observation, i) for i in range(n)]
        actions = np.array([act(i, taken[i]) for i in range(n)])
        step = envs.step(actions)
        assert isinstance(step, HostStep)
        assert step.real.dtype == step.terminated.dtype == step.truncated.dtype == bool
        assert step.final_index.tolist() == np.flatnonzero(step.truncated).tolist()
        observation = step.observation
        for i in range(n):
            if not step.real[i]:
                assert not step.terminated[i]
                assert not step.truncated[i]
                assert step.reward[i] == 0
                assert numbers(observation, i)[2] == 0
                continue
            following = numbers(observation, i)
            if step.truncated[i]:
                where = step.final_index.tolist().index(i)
                following = numbers(step.final_observation, where)
            elif step.terminated[i]:
                following = None
            streams[i].append(
                (
                    seen[i],
                    int(actions[i]),
                    pytest.approx(float(step.reward[i]), rel=1e-5),
                    bool(step.terminated[i]),
                    bool(step.truncated[i]),
                    following,
                )
            )
            taken[i] += 1
    return streams


def by_hand(i, seed, steps):
    """The same of one environment by a plain loop."""
    env, stream = Counting(), []
    observation = tuple(int(x) for x in env.reset(seed=seed)[0])
    for k in range(steps):
        action = act(i, k)
        row, reward, terminated, truncated, _ = env.step(action)
        following = tuple(int(x) for x in row)
        truncated = truncated and not terminated
        stream.append(
            (observation, action, reward, terminated, truncated, None if terminated else following)
        )
        observation = following
        if terminated or truncated:
            observation = tuple(int(x) for x in env.reset()[0])
    return stream


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", QUICK)
def test_every_real_step_is_seen_once_in_order_as_by_a_plain_loop(opened, way, kind):
    check_stream(opened(way, kind), way)


def check_stream(envs, way):
    streams = rollout(envs, SEED, 30)
    seeds = env_seeds(SEED, envs.num_envs)
    if way.startswith("native"):  # which takes one seed
        seeds = [seeds[0] + i for i in range(envs.num_envs)]
    for i, (stream, seed) in enumerate(zip(streams, seeds, strict=True)):
        assert len(stream) >= 20
        assert stream == by_hand(i, seed, len(stream))
        episodes = [seen[1] for seen, *_ in stream]
        assert episodes == sorted(episodes)
        assert episodes[-1] >= 4
    # All ways of ending have occurred, so the above has looked at them.
    ends = {(step[3], step[4]) for stream in streams for step in stream}
    assert ends == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("way", QUICK)
def test_only_next_step_environments_have_steps_that_are_not_real(opened, way):
    check_real(opened(way), way)


def check_real(envs, way):
    observation = envs.begin(SEED)
    ended = np.zeros(envs.num_envs, bool)
    dummies = 0
    for k in range(25):
        step = envs.step(np.full(envs.num_envs, k % NUM_ACTIONS))
        if "NEXT" in way:
            assert (step.real == ~ended).all()
        else:
            assert step.real.all()
        dummies += (~step.real).sum()
        ended = step.terminated | step.truncated
        observation = step.observation
    assert observation.shape == (envs.num_envs, 4)
    assert (dummies > 0) == ("NEXT" in way)


@pytest.mark.parametrize("way", QUICK)
def test_the_seed_decides_the_stream(opened, way):
    check_seeds(opened(way))


def check_seeds(envs):
    one, same, other = (rollout(envs, seed, 9) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    whole = {stream[0][0][0] for stream in one} | {stream[0][0][0] for stream in other}
    assert len(whole) == 2 * envs.num_envs  # all numbers differ, between environments and seeds
    assert envs.is_deterministic()
    assert rollout(envs, 1, 9) == one


@pytest.mark.parametrize("way", QUICK)
def test_a_reset_starts_every_environment_and_keeps_its_seed(opened, way):
    check_reset(opened(way))


@pytest.mark.parametrize(
    ("way", "kind"),
    [(way, kind) for way in PROCESSES for kind in KINDS if kind == "box" or way == "async"],
)
def test_the_same_holds_through_processes(opened, way, kind):
    envs = opened(way, kind)
    check_stream(envs, way)
    check_seeds(envs)
    if kind == "box":
        check_real(envs, way)
        check_reset(envs)


def check_reset(envs):
    before = [numbers(envs.begin(3), i) for i in range(envs.num_envs)]
    for k in (1, 2, 5):  # after five steps some have just ended
        for _ in range(k):
            envs.step(np.zeros(envs.num_envs, int))
        after = [numbers(envs.reset(), i) for i in range(envs.num_envs)]
        assert [row[0] for row in after] == [row[0] for row in before]
        assert all(row[2] == 0 for row in after)
        step = envs.step(np.zeros(envs.num_envs, int))
        assert step.real.all()
        assert [numbers(step.observation, i)[2] for i in range(envs.num_envs)] == [
            1 for _ in range(envs.num_envs)
        ]


def test_both_flags_at_once_are_a_termination():
    envs = env_from(lambda: Counting()).open(64)
    envs.begin(0)
    both = 0
    for _ in range(12):
        step = envs.step(np.zeros(64, int))
        both += step.terminated.sum()
        assert not (step.terminated & step.truncated).any()
        assert not step.terminated[step.final_index].any()
    assert both


def test_seeds_of_environments_differ_and_fit_every_generator():
    seeds = [set(env_seeds(seed, 500)) for seed in range(5)]
    assert all(len(one) == 500 and max(one) < 2**31 for one in seeds)
    assert len(set.union(*seeds)) >= 2499
    assert all(type(seed) is int for seed in seeds[0])


def test_an_environment_that_ignores_its_seed_is_found_out():
    assert not env_from(Unseeded).open(2).is_deterministic()


def test_a_step_without_a_beginning_is_refused():
    with env_from(Counting).open(2) as envs:
        for call in (lambda: envs.step(np.zeros(2, int)), envs.reset):
            with pytest.raises(RunError, match="has not begun, or is closed: call begin"):
                call()
        envs.begin(0)
        with pytest.raises(ConfigError, match="seed is -1; it must be 0 or more"):
            envs.begin(-1)
    with pytest.raises(RunError, match="call begin"):
        envs.reset()


def test_what_was_made_is_closed_and_what_was_given_is_not():
    made = []

    def make():
        made.append(Counting())
        return made[-1]

    source = env_from(make)
    assert len(made) == 1
    with source.open(3) as envs:
        envs.begin(0)
    assert len(made) == 3  # the one that showed the spaces is the first
    assert all(env.closed for env in made)
    source.open(2).close()
    assert len(made) == 5
    source.close()
    unused = env_from(make)
    unused.close()
    assert made[-1].closed
    given = Counting()
    source = env_from(given)
    source.open(1).close()
    source.close()
    assert not given.closed
    vector = NativeCounting(2, AutoresetMode.NEXT_STEP)
    source = env_from(vector)
    source.open(2).close()
    source.close()
    assert not vector.closed


def test_a_vector_environment_that_a_function_makes_is_made_for_every_opening():
    made = []

    def make(num_envs):
        made.append(NativeCounting(num_envs, AutoresetMode.NEXT_STEP))
        return made[-1]

    source = env_from(make, {"num_envs": 3})
    assert source.num_envs == 3
    with source.open(3) as one, source.open(3) as two:
        one.begin(0)
        two.begin(0)
    assert len(made) == 2
    assert all(vector.closed for vector in made)
    unused = env_from(make, {"num_envs": 3})
    unused.close()
    assert made[-1].closed


@pytest.mark.usefixtures("unchecked")
def test_the_number_of_environments_must_fit():
    with pytest.raises(ConfigError, match=r"num_envs is 4, but .*NativeCounting has 2: it was giv"):
        env_from(NativeCounting(2, AutoresetMode.NEXT_STEP)).open(4)
    with pytest.raises(ConfigError, match=r"num_envs is 2, but .*Counting has 1"):
        env_from(Counting()).open(2)
    with pytest.raises(ConfigError, match="num_envs is 0; it must be a whole number of 1 or more"):
        env_from(Counting).open(0)
    with pytest.raises(ConfigError, match="vectorization is 'many'; it must be 'sync' or 'async'"):
        env_from(Counting).open(1, "many")  # pyright: ignore
    with pytest.raises(ConfigError, match="is stepped as it is; use 'sync'"):
        env_from(Counting()).open(1, "async")
    envs = env_from(Counting).open(3)
    envs.begin(0)
    with pytest.raises(RunError, match="2 actions were given to 3 environments"):
        envs.step(np.zeros(2, int))
    lying = NativeCounting(2, AutoresetMode.NEXT_STEP)
    lying.num_envs = 3
    lying.rows.append(lying.rows[0])
    with pytest.raises(RunError, match=r"raised IndexError: .* in reset\(\)"):
        env_from(lying).open(3).begin(0)

    class Short(NativeCounting):
        def _batch(self):
            return super()._batch()[:1]

    with pytest.raises(RunError, match=r"is an array of shape \(1, 4\) .* says shape \(2, 4\)"):
        env_from(Short(2, AutoresetMode.NEXT_STEP)).open(2).begin(0)
    sizes = iter((2, 3))
    source = env_from(lambda: NativeCounting(next(sizes), AutoresetMode.NEXT_STEP))
    source.open(2)
    with pytest.raises(RunError, match="made 3 environments where 2 were wanted"):
        source.open(2)


def test_vector_environments_that_break_their_word_are_named():
    silent = NativeCounting(2, AutoresetMode.NEXT_STEP)
    silent.metadata = {}
    with pytest.raises(RunError, match=r"metadata\['autoreset_mode'\] is None. Set it to one of"):
        env_from(silent).open(2)
    named = NativeCounting(2, AutoresetMode.NEXT_STEP)
    named.metadata = {"autoreset_mode": "NextStep"}
    env_from(named).open(2).begin(0)

    class NoFinal(NativeCounting):
        def step(self, actions):
            return (*super().step(actions)[:4], {})

    class NoneFinal(NativeCounting):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return (*rest, {"final_obs": np.full(self.num_envs, None)})

    class ResetsAll(NativeCounting):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)

    for wrong, mode, text in (
        (NoFinal, AutoresetMode.SAME_STEP, "has no last observation .it is missing"),
        (NoneFinal, AutoresetMode.SAME_STEP, "has no last observation"),
        (ResetsAll, AutoresetMode.DISABLED, "changed environments outside the mask"),
    ):
        envs = env_from(wrong(5, mode)).open(5)
        envs.begin(SEED)
        with pytest.raises(RunError, match=text) as caught:
            run(envs, 20)
        assert "\n" not in str(caught.value)


def run(envs, steps):
    for _ in range(steps):
        envs.step(np.zeros(envs.num_envs, int))


def test_the_older_name_and_a_list_of_final_observations_are_read():
    class Older(NativeCounting):
        def step(self, actions):
            *rest, infos = super().step(actions)
            if infos:
                infos = {"final_observation": list(infos["final_obs"])}
            return (*rest, infos)

    older, newer = (
        rollout(env_from(one(5, AutoresetMode.SAME_STEP)).open(5), 3, 20)
        for one in (Older, NativeCounting)
    )
    assert older == newer


@pytest.mark.parametrize("how", ["sync", "async"])
def test_an_environment_that_raises_is_named_in_one_line(how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gymnasium warns of its workers' errors
        with env_from(Failing).open(2, how) as envs:
            envs.begin(0)
            envs.step(np.zeros(2, int))
            with pytest.raises(RunError) as caught:
                envs.step(np.zeros(2, int))
    assert str(caught.value).startswith(
        f"given: envs.counting.Failing (copy 1 of 2, seed {env_seeds(0, 2)[0]}, step 2) raised "
        "ZeroDivisionError: the motor in step() (counting.py, line "
    )


def test_observations_that_do_not_fit_the_space_are_refused():
    with pytest.raises(
        RunError,
        match=r"is an array of shape \(1,\) and type float64; .* says shape \(4,",
    ):
        env_from(Broken).open(1).begin(0)

    class Cut(Counting):
        def reset(self, **_):
            return (np.zeros(4), 0), {}

    with pytest.raises(
        RunError, match=r"an observation\[0\] that is an array of .* type float64; .*int64"
    ):
        env_from(lambda: Cut("tuple")).open(1).begin(0)


def test_a_function_must_make_a_new_environment_with_the_same_spaces_each_time():
    env = Counting()
    with pytest.raises(RunError, match="returned the same environment twice"):
        env_from(lambda: env).open(2)
    kinds = iter(("box", "dict"))
    with pytest.raises(
        RunError, match=r"copy 2 of 2, step 0\) has another observation_space than the first"
    ):
        env_from(lambda: Counting(next(kinds))).open(2)
    kinds = iter(("box",))
    with pytest.raises(RunError, match=r"\(copy 2 of 2\) raised StopIteration in make\(\)"):
        env_from(lambda: Counting(next(kinds))).open(2)


@pytest.mark.parametrize("how", ["loop", "async", "vector", "instance"])
def test_chosen_keys_are_all_that_is_seen(how):
    given, num_envs = (lambda: Counting("dict")), 3
    if how == "vector":
        given = SyncVectorEnv([given] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    elif how == "instance":
        given, num_envs = Counting("dict"), 1
    source = env_from(given, observation_keys=["numbers"])
    assert source.observation_keys == ("numbers",)
    assert source.observation_space == spaces.Dict(
        {"numbers": Counting("dict").observation_space["numbers"]}
    )
    with source.open(num_envs, "async" if how == "async" else "sync") as envs:
        assert set(envs.begin(0)) == {"numbers"}
        finals = 0
        for _ in range(12):
            step = envs.step(np.zeros(num_envs, int))
            assert set(step.observation) == set(step.final_observation) == {"numbers"}
            assert step.final_observation["numbers"].shape == (len(step.final_index), 4)
            finals += len(step.final_index)
        assert finals
    if how != "vector":
        assert set(source.single().reset(seed=0)[0]) == {"numbers"}


def test_keys_that_are_not_there_and_observations_that_are_no_arrays():
    with pytest.raises(ConfigError, match=r"has 'nothing', but .* has the keys 'inner', 'numbers'"):
        env_from(lambda: Counting("dict"), observation_keys=["nothing"])
    with pytest.raises(ConfigError, match=r"'inner', 'numbers'. Did you mean 'numbers'\?"):
        env_from(lambda: Counting("dict"), observation_keys=["number"])
    with pytest.raises(ConfigError, match=r"is no dict: it is Box. Leave observation_keys out"):
        env_from(Counting, observation_keys=["numbers"])
    source = env_from(Counting, {"kind": "text"})
    with pytest.raises(ConfigError, match=r"has a Text, .* with observation_keys: numbers\."):
        source.open(1)
    chosen = env_from(Counting, {"kind": "text"}, observation_keys=["numbers"])
    for how in ("sync", "async"):
        with chosen.open(2, how) as envs:
            assert set(envs.begin(0)) == {"numbers"}

    class Sequences(Counting):
        observation_space = spaces.Sequence(spaces.Discrete(2))

        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Sequence(spaces.Discrete(2))

    with pytest.raises(
        ConfigError, match=r"has a Sequence, which is no array. Wrap the environmen"
    ):
        env_from(Sequences).open(1)


def test_actions_may_be_dicts_and_tuples_of_arrays():
    class Composed(Counting):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Dict(
                {"a": spaces.Discrete(NUM_ACTIONS), "b": spaces.Box(-1, 1, (2,))}
            )

        def step(self, action):
            self.action_space, whole = spaces.Discrete(NUM_ACTIONS), self.action_space
            assert action in whole, action
            result = super().step(action["a"])
            self.action_space = whole
            return result

    envs = env_from(Composed).open(3)
    envs.begin(0)
    actions = {"a": np.array([1, 2, 3]), "b": np.zeros((3, 2), np.float32)}
    assert envs.step(actions).observation[:, 3].tolist() == [1, 2, 3]
    assert envs.is_deterministic()


# Time limits and single environments


def test_the_horizon_is_known_where_it_can_be():
    assert find_env("CartPole-v1", {}).horizon == 500
    assert find_env("CartPole-v1", {}, 7).horizon == 7
    assert env_from(Counting).horizon is None
    assert env_from(Counting, horizon=3).horizon == 3
    assert env_from(lambda: gymnasium.make("CartPole-v1"), horizon=3).horizon == 3
    assert env_from(lambda: gymnasium.make("CartPole-v1"), horizon=900).horizon == 500
    assert env_from(gymnasium.make("CartPole-v1")).horizon == 500
    assert env_from(gymnasium.make("CartPole-v1"), horizon=8).horizon == 8
    make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=9)  # noqa: E731
    assert env_from(SyncVectorEnv([make])).horizon == 9
    vector = AsyncVectorEnv([make], context="forkserver")
    assert env_from(vector).horizon == 9
    vector.close()
    native = gymnasium.make_vec("CartPole-v1", 2, "vector_entry_point", max_episode_steps=6)
    assert env_from(native).horizon == 6
    assert find_env("envpool:CartPole-v1", {}).horizon == 500
    assert find_env("envpool:CartPole-v1", {}, 4).horizon == 4


@pytest.mark.parametrize(
    "given",
    [
        "CartPole-v1",
        "envpool:CartPole-v1",
        "envpool:MountainCarContinuous-v0",
        lambda: gymnasium.make("CartPole-v1"),
        gymnasium.make("CartPole-v1"),
    ],
    ids=["gymnasium", "envpool", "envpool-continuous", "factory", "instance"],
)
def test_a_horizon_truncates_whatever_it_is_given_to(given):
    source = env_from(given, horizon=4)
    with source.open(source.num_envs or 3) as envs:
        envs.begin(0)
        for t in range(15):
            step = envs.step(zero_actions(envs))
            due = (t % 5 == 3) if "envpool" in source.name else (t % 4 == 3)
            assert step.truncated.all() == due
            assert step.truncated.any() == due


def zero_actions(envs):
    space = envs.action_space
    return np.zeros((envs.num_envs, *space.shape), space.dtype)


def test_single_environments_are_there_to_play_and_draw_in():
    source = find_env("CartPole-v1", {}, 3)
    env = source.single()
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    assert env_from(Counting).single("rgb_array").render().shape == (2, 2, 3)
    assert env_from(lambda **options: Counting(**options)).single("rgb_array").render() is not None
    given = Counting(render_mode="rgb_array")
    assert env_from(given).single("rgb_array") is given
    assert env_from(Counting(), horizon=2).single().spec is None
    for undrawn, advice in (
        (Counting(), "Make it with render_mode='rgb_array'."),
        (lambda: Counting(), "Let what makes it take render_mode='rgb_array' and hand it on."),
    ):
        with pytest.raises(RunError, match="cannot be drawn: its render_mode is None") as caught:
            env_from(undrawn).single("rgb_array")
        assert advice in str(caught.value)
    with pytest.raises(RunError, match="is a vector environment, in which no single episode"):
        env_from(NativeCounting(2, AutoresetMode.NEXT_STEP)).single()
    with pytest.raises(
        RunError, match="gymnasium has one of this name: use 'gymnasium:CartPole-v1'"
    ):
        find_env("envpool:CartPole-v1", {}).single()
    with pytest.raises(RunError, match=r"no single episode can be played or drawn in it\.$"):
        find_env("envpool:CartpoleSwingupSparse-v1", {}).single()


# Environments of others


@pytest.mark.parametrize("native", [False, True])
def test_cart_pole_is_the_same_through_the_loop_and_natively(native):
    # Physics from a state: what follows a state and an action is known, whoever computes it.
    vector = gymnasium.make_vec("CartPole-v1", 6, "vector_entry_point", max_episode_steps=20)
    source = env_from(vector) if native else find_env("CartPole-v1", {}, 20)
    with source.open(6) as envs:
        follow_cart_pole(envs, 100, limit=20)


def test_envpools_cart_pole_obeys_the_physics_of_gymnasiums():
    with find_env("envpool:CartPole-v1", {}, 20).open(6) as envs:
        follow_cart_pole(envs, 100, limit=20, cut_hides_fall=True)


def follow_cart_pole(envs, steps, limit, cut_hides_fall=False):
    physics = gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    physics.reset(seed=0)
    observation = envs.begin(5).copy()
    elapsed = np.zeros(6, int)
    ends = np.zeros(2, int)
    for _ in range(steps):
        actions = rng.integers(2, size=6)
        step = envs.step(actions)
        following = step.observation.copy()
        for i in range(6):
            if not step.real[i]:
                assert np.abs(following[i]).max() <= 0.05
                continue
            physics.state, physics.steps_beyond_terminated = tuple(observation[i]), None
            expected, reward, terminated, _, _ = physics.step(int(actions[i]))
            elapsed[i] += 1
            if cut_hides_fall and elapsed[i] == limit:
                terminated = False
            assert step.reward[i] == reward
            assert step.terminated[i] == terminated
            assert step.truncated[i] == (elapsed[i] == limit and not terminated)
            if step.truncated[i]:
                final = step.final_observation[step.final_index.tolist().index(i)]
                np.testing.assert_allclose(final, expected, atol=1e-5)
            elif not terminated:
                np.testing.assert_allclose(following[i], expected, atol=1e-5)
            if terminated or step.truncated[i]:
                ends += terminated, not terminated
                elapsed[i] = 0
        observation = following
    assert ends.min() >= 3


def trace(envs, seed, steps=12):
    out = [envs.begin(seed).copy()]
    rng = np.random.default_rng(1)
    for _ in range(steps):
        actions = zero_actions(envs)
        actions[:] = rng.integers(2, size=actions.shape)
        out.append(envs.step(actions).observation.copy())
    return np.stack(out)


def test_envpool_has_no_more_threads_than_there_are_cores_for_it_or_as_many_as_asked(monkeypatch):
    import envpool

    monkeypatch.setattr(names, "num_cores", lambda: 3)
    made = []
    make = envpool.make_gymnasium
    monkeypatch.setattr(envpool, "make_gymnasium", lambda *a, **k: made.append(k) or make(*a, **k))
    traces = []
    for options, num_envs in (({}, 4), ({}, 2), ({"num_threads": 1}, 4)):
        with find_env("envpool:CartPole-v1", options).open(num_envs) as envs:
            traces.append(trace(envs, 1))
    assert [k["num_threads"] for k in made] == [3, 2, 1]
    assert (traces[0] == traces[2]).all()


@pytest.mark.parametrize("id", ["CartPole-v1", "MountainCarContinuous-v0"])
def test_envpool_begins_as_its_seed_says_and_is_made_once_for_it(id, monkeypatch):
    import envpool

    made = []
    make = envpool.make_gymnasium
    monkeypatch.setattr(envpool, "make_gymnasium", lambda *a, **k: made.append(k) or make(*a, **k))
    with find_env(f"envpool:{id}", {}, 5).open(4) as envs:
        assert made == []
        one = trace(envs, 1)
        assert len(made) == 1
        other, same = trace(envs, 2), trace(envs, 1)
        assert (one == same).all()
        assert (one != other).any()
        assert len(np.unique(one[0], axis=0)) == 4  # environments differ
        reset = envs.reset()
        assert len(made) == 3  # a reset makes nothing
        assert (reset != one[0]).any()
        assert envs.is_deterministic()


def test_an_envpool_that_is_given_is_a_pattern_for_those_that_are_stepped():
    import envpool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=7)
        lazy = envpool.make_gymnasium("CartPole-v1", num_envs=3, batch_size=2)
    source = env_from(pool, horizon=6)
    assert (source.num_envs, source.horizon) == (3, 6)
    with source.open(3) as envs, find_env("envpool:CartPole-v1", {}, 6).open(3) as same:
        assert (trace(envs, 1) == trace(same, 1)).all()
    with pytest.raises(ConfigError, match="has batch_size 2 and 3 environments; all must step"):
        env_from(lazy)


def test_envpools_dicts_are_plain_and_their_keys_can_be_chosen():
    source = find_env("envpool:MiniGrid-DoorKey-5x5-v0", {}, 3, ["image", "direction"])
    assert set(source.observation_space.spaces) == {"image", "direction"}
    with source.open(4) as envs:
        assert envs.begin(0)["image"].shape == (4, 7, 7, 3)
        for _ in range(3):
            step = envs.step(np.zeros(4, int))
        assert step.final_index.tolist() == [0, 1, 2, 3]
        assert step.final_observation["image"].shape == (4, 7, 7, 3)
        assert (step.final_observation["direction"] == step.observation["direction"]).all()


def test_processes_can_be_had_where_jax_runs_already(tmp_path):
    (tmp_path / "my_env.py").write_text(
        "from envs.counting import Counting\ndef make(kind): return Counting(kind)\n"
    )
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "import warnings\n"
        "warnings.simplefilter('error')\n"
        "import numpy as np\n"
        "from eniac.envs.names import find_env\n"
        "if __name__ == '__main__':\n"
        "    import jax\n"
        "    jax.numpy.zeros(3).block_until_ready()\n"
        "    source = find_env('my_env:make', {'kind': 'dict'})\n"
        "    assert not any(p in ('', sys.argv[1]) for p in sys.path), sys.path\n"
        "    with source.open(2, 'async') as envs:\n"
        "        envs.begin(0)\n"
        "        print(envs.step(np.array([1, 2])).observation['numbers'][:, 3])\n"
    )
    place = tmp_path / "elsewhere"
    place.mkdir()
    script = (tmp_path / "script.py").rename(place / "script.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(__file__))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[1 2]", done.stderr


def test_no_jax_is_needed():
    code = (
        "import sys; from eniac.envs import names, sources, toy_text; "
        "envs = names.find_env('CartPole-v1', {}).open(2); envs.begin(0); "
        "import numpy; envs.step(numpy.zeros(2, int)); print('jax' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_lengths_of_the_counting_environment_vary():
    assert {length(number, 0) for number in range(12)} == {2, 3, 4, 5}
