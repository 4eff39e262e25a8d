"""Pictures of runs, and their covers as tables."""

import dataclasses
import json
import shutil

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from eniac import RunError, load_run, save_gif, train
from eniac.bonuses.zero import Zero
from eniac.cli.main import main
from eniac.cover import Cover
from eniac.envs import make
from eniac.envs.names import env_from
from eniac.provable.policies import TablePolicy
from eniac.report.coverage import cover_report
from eniac.report.episodes import MAX_FRAMES, play, shown
from eniac.report.pictures import NoPicture, bonus_values, draw, draw_all, some_actions
from eniac.report.views import Plane, view_of
from eniac.runs.program import take_seed

PICTURES = {"learning_curve.png", "visits.png", "bonus.png"}


@pytest.fixture
def car(run_of):
    return run_of("car").path


def _with(run, **parts):
    """`run` with parts of its first seed's state replaced."""
    state = take_seed(run.states, 0)._replace(**parts)
    return dataclasses.replace(run, states=jax.tree.map(lambda leaf: leaf[None], state))


def test_training_ends_with_the_pictures_that_there_are(toy_config, console):
    folder = train(toy_config(), console=console).path
    drawn = {path.name for path in (folder / "figures").iterdir()}
    assert drawn == PICTURES - {"bonus.png"}


def test_a_picture_that_fails_does_not_fail_the_run(toy_config, console, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("no more ink")

    monkeypatch.setattr("eniac.report.pictures.draw_visits", broken)
    result = train(toy_config(), console=console)
    assert "Warning: visits.png was not drawn: no more ink" in console.file.getvalue()
    assert [path.name for path in (result.path / "figures").iterdir()] == ["learning_curve.png"]
    manifest = json.loads((result.path / "manifest.json").read_text())
    assert manifest["ended"] == "4 epochs"
    assert manifest["sessions"][-1]["warnings"] == ["visits.png was not drawn: no more ink"]


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("car", PICTURES),
        ("sea", PICTURES),
        ("chain", PICTURES),
        ("rnd", PICTURES),
        ("lock", {"learning_curve.png"}),
        ("lake", PICTURES),
        ("pole", {"learning_curve.png"}),
    ],
)
def test_every_kind_of_run_gets_the_pictures_that_it_has(name, drawn, run_of, tmp_path):
    paths, warnings = draw_all(run_of(name), tmp_path)
    assert warnings == []
    assert {path.name for path in paths} == drawn
    for path in paths:
        assert path.stat().st_size < 300_000
        with Image.open(path) as image:
            image.load()
            assert image.width > image.height > 300


def test_the_cover_is_reported_policy_by_policy(car, capsys):
    assert main(["cover", str(car), "--seed", "1", "--episodes", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["seed"], report["epoch"], report["horizon"]) == (1, 0, 20)
    rows = report["policies"]
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
    assert sum(row["new"] for row in rows) == report["covered"] <= report["cells"] == 2500
    assert rows[0]["new"] == rows[0]["covered"] > 0
    named = [report[name] for name in ("exploring", "exploiting", "incumbent")]
    assert all(row["length_mean"] == 20 for row in (*rows, *named))
    assert report["incumbent"]["deterministic"] == bool(load_run(car).policy(1).greedy)
    # By hand, from the buffer.
    observations = take_seed(load_run(car).states, 1).buffer.pairs.observation
    first = np.asarray(observations[:100], np.float64)
    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    cells = np.minimum((first - low) / (high - low) * 50, 49).astype(int)
    assert rows[0]["covered"] == len({tuple(cell) for cell in cells})


def test_the_cover_is_shown_as_a_table(car, capsys):
    assert main(["cover", str(car), "--episodes", "3"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "exploring",
        "exploiting",
        "incumbent",
        "0.333",
        "50 x 50",
        "3 episodes, cut after 20 steps",
    ):
        assert words in shown


def test_the_bonus_is_drawn_as_it_is(car):
    run = load_run(car)
    bonus = take_seed(run.states, 0).bonus
    plane = view_of(run.env)
    assert isinstance(plane, Plane)
    values = bonus_values(bonus, plane.observations, some_actions(run.env.action_space))
    assert values.shape == (120 * 120, 11)
    for place in (0, 777, 14_399):
        np.testing.assert_allclose(
            values[place, 3],
            bonus(jnp.asarray(plane.observations[place]), jnp.full(1, 0.2)),
            rtol=1e-6,
        )
    # From the bottom left to the right first.
    assert plane.observations[0] == pytest.approx([-1.2, -0.07], abs=0.01)
    assert plane.observations[119] == pytest.approx([0.6, -0.07], abs=0.01)


def test_an_episode_ends_where_it_ends(run_of):
    episodes = play(make("DeepSea-4"), run_of("sea").policy(), jax.random.key(0), 10)
    assert [episode.length for episode in episodes] == [4] * 10
    assert all(episode.terminated for episode in episodes)
    for episode in episodes:
        assert episode.observations.shape == (5, 16)
        assert episode.observations[:4].sum(-1).all()
        assert not episode.observations[4].any()  # the end is zero


def test_an_episode_that_does_not_end_is_cut(run_of):
    (episode,) = play(make("Chain-5", 450), run_of("chain").policy(), jax.random.key(0))
    assert (episode.length, episode.terminated) == (450, False)
    cut = play(make("Chain-5", 450), run_of("chain").policy(), jax.random.key(0), max_steps=7)[0]
    assert (cut.length, cut.terminated, len(cut.observations)) == (7, False, 8)


def test_an_episode_on_the_host_is_that_of_the_environment(run_of):
    run = run_of("lake")
    episodes = play(run.env, run.policy(), jax.random.key(0), 5)
    again = play(run.env, run.policy(), jax.random.key(0), 5)
    for episode, same in zip(episodes, again, strict=True):
        assert 1 <= episode.length <= 20
        assert len(episode.observations) == episode.length + 1
        assert episode.observations[0] == 0
        np.testing.assert_array_equal(episode.observations, same.observations)


def test_a_film_has_few_frames_and_ends_on_the_last():
    assert shown(0) == [0]
    assert shown(249) == list(range(250))
    for length in (250, 999, 10_000):
        times = shown(length)
        assert len(times) <= MAX_FRAMES
        assert times[-1] == length
        assert len(set(np.diff(times))) == 1


class Corridor(gymnasium.Env):
    """Goes right until the end. Draws itself, or says that it cannot."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012, gymnasium's way

    def __init__(self, render_mode=None, picture=True):
        self.render_mode, self.picture, self.place = render_mode, picture, 0
        self.observation_space = gymnasium.spaces.Discrete(9)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place += 1
        return self.place, 1.0, self.place == 8, False, {}

    def render(self):
        if not self.picture:
            return "nothing to see"
        frame = np.zeros((20, 90, 3), np.uint8)
        frame[:, self.place * 10 : self.place * 10 + 10] = 255
        return frame


ANY = TablePolicy(jnp.full((9, 2), 0.5))


def test_an_environment_on_the_host_draws_itself(tmp_path):
    (episode,) = play(env_from(Corridor), ANY, jax.random.key(0), draw=True)
    assert (episode.length, episode.total_reward, episode.terminated) == (8, 8.0, True)
    assert [int(frame[0].argmax()) // 30 for frame in episode.frames] == list(range(9))
    assert save_gif(episode, tmp_path / "film.gif") == 9
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 9
        assert film.info["duration"] == 100


def test_what_cannot_be_drawn_on_the_host_says_what_to_do(tmp_path):
    key = jax.random.key(0)
    with pytest.raises(RunError, match="render_mode"):
        play(env_from(lambda: Corridor()), ANY, key, draw=True)
    with pytest.raises(RunError, match=r"\(str\); .*rgb_array"):
        play(env_from(Corridor, {"picture": False}), ANY, key, draw=True)
    undrawn = play(env_from(lambda: Corridor()), ANY, key)[0]
    with pytest.raises(RunError, match="draw=True"):
        save_gif(undrawn, tmp_path / "film.gif")


def test_an_environment_that_was_given_is_not_closed(monkeypatch):
    env = Corridor()
    monkeypatch.setattr(env, "close", lambda: pytest.fail("closed"))
    assert play(env_from(env), ANY, jax.random.key(0))[0].length == 8


def test_actions_fill_their_space():
    spaces = gymnasium.spaces
    np.testing.assert_array_equal(some_actions(spaces.Discrete(3)), [0, 1, 2])
    line = some_actions(spaces.Box(-2, 4, (1,)))
    np.testing.assert_allclose(line[:, 0], np.linspace(-2, 4, 11), rtol=1e-6)
    box = spaces.Box(np.float32([0, -np.inf]), np.float32([2, np.inf]))
    some = some_actions(box)
    np.testing.assert_allclose(some[0], [1, 0])
    assert (np.abs(some - [1, 0]) <= 1).all()


# What cannot be drawn or shown


def _error(capsys, code, *arguments):
    assert main(list(arguments)) == code
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize("command", [["cover"], ["plot", "--what", "visits"]])
def test_a_folder_that_is_no_run_is_told(command, capsys, tmp_path):
    error = _error(capsys, 2, *command, str(tmp_path / "nowhere"))
    assert "is not the folder of a run" in error
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_cover_or_a_picture_is_told(run_of, capsys):
    folder = run_of("lock").path
    assert "ppo has no cover" in _error(capsys, 1, "cover", str(folder))
    for what in ("visits", "bonus"):
        error = _error(capsys, 1, "plot", str(folder), "--what", what)
        assert "observations of two numbers" in error
    assert not (folder / "figures").exists()


def test_a_bonus_that_is_zero_is_told(run_of, tmp_path):
    chain = run_of("chain")
    algorithm = dataclasses.replace(chain.config.algorithm, bonus=Zero())
    built = dataclasses.replace(chain.config, algorithm=algorithm).build()
    with pytest.raises(NoPicture, match="no bonus that can be drawn"):
        draw(dataclasses.replace(chain, built=built), "bonus", tmp_path / "b.png")


def test_a_cover_that_is_still_empty_is_told(run_of):
    run = run_of("sea")
    empty = Cover.empty(run.policy().policy, 9)
    with pytest.raises(RunError, match="is empty"):
        cover_report(_with(run, cover=empty))


def test_options_that_make_no_sense_are_refused(car, capsys):
    for words, *arguments in (
        ("seed is 7", "cover", str(car), "--seed", "7"),
        ("episodes is 0", "cover", str(car), "--episodes", "0"),
        ("seed is 7", "plot", str(car), "--what", "all", "--seed", "7"),
        ("draws one run, and 2", "plot", str(car), str(car), "--what", "bonus"),
        ("a curve is of all seeds", "plot", str(car), "--seed", "0"),
        ("only curves have one", "plot", str(car), "--what", "bonus", "--metric", "loss"),
    ):
        assert words in _error(capsys, 2, *arguments)


def test_pictures_go_where_they_are_asked_to(car, tmp_path, capsys):
    assert main(["plot", str(car), "--what", "all", "--seed", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == PICTURES
    target = tmp_path / "new" / "b.png"
    assert main(["plot", str(car), "--what", "bonus", "--out", str(target)]) == 0
    assert target.exists()
    blocked = str(tmp_path / "bonus.png" / "b.png")
    error = _error(capsys, 1, "plot", str(car), "--what", "bonus", "--out", blocked)
    assert "Cannot draw to" in error


def test_a_damaged_checkpoint_is_passed_over_and_told_when_it_is_the_last(car, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(car, folder)
    good = folder / "checkpoints" / "epoch-000000.safetensors"
    damaged = folder / "checkpoints" / "epoch-000001.safetensors"
    damaged.write_bytes(good.read_bytes()[:-100] + b"?" * 100)
    assert main(["cover", str(folder), "--episodes", "3"]) == 0
    shown = capsys.readouterr()
    assert "epoch-000001.safetensors is damaged" in shown.err
    assert "exploiting" in shown.out
    good.unlink()
    error = _error(capsys, 1, "plot", str(folder), "--what", "bonus")
    assert "No checkpoint of this run can be used" in error
