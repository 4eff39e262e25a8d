"""Pictures and the cover of a run that was trained from the command line, quickly and badly."""

import json
import shutil

import gymnasium
import numpy as np
import pytest
from PIL import Image

from eniac.algorithms import ALGORITHMS
from eniac.cli import main
from eniac.envs import make
from eniac.experiments import Config, RunError, load_run, train
from eniac.experiments.coverage import cover_report
from eniac.experiments.load import take_seed
from eniac.experiments.pictures import NoPicture, bonus_values, draw, draw_all, play, some_actions
from eniac.experiments.views import Plane, view_of

SMALL = [
    *("--num-envs", "10", "--trajectory", "10", "--loops", "2", "--hidden", "8"),
    *("--evaluation.episodes", "4", "--horizon", "30", "--visits", "200", "--interval", "1"),
]
WIDTH = ["--bonus.outer", "5", "--bonus.query-size", "200"]
PICTURES = {"learning_curve.png", "visits.png", "bonus.png"}


def _train(folder, *arguments):
    assert main(["train", *arguments, *SMALL, "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def car(tmp_path_factory):
    folder = tmp_path_factory.mktemp("car") / "run"
    return _train(folder, "eniac", *WIDTH, "--epochs", "3", "--seeds", "2")


@pytest.fixture(scope="module")
def ppo(tmp_path_factory):
    """Without a cover, without a bonus, and with observations of many numbers."""
    folder = tmp_path_factory.mktemp("ppo") / "run"
    return _train(folder, "ppo", "--env", "CombinationLock-3", "--epochs", "1")


def test_training_ends_with_all_pictures_none_of_them_large(car, ppo):
    assert {path.name for path in (car / "figures").iterdir()} == PICTURES
    for name in PICTURES:
        path = car / "figures" / name
        assert path.stat().st_size < 300_000
        with Image.open(path) as image:
            image.load()
            assert image.width > image.height > 300
    assert {path.name for path in (ppo / "figures").iterdir()} == {"learning_curve.png"}


def test_a_picture_that_fails_does_not_fail_the_run(car, tmp_path, monkeypatch, capsys):
    def broken(*arguments):
        raise RuntimeError("no more ink")

    monkeypatch.setattr("eniac.experiments.pictures.draw_bonus", broken)
    again = tmp_path / "again"
    assert main(["train", str(car / "config.json"), "--out", str(again)]) == 0
    assert "bonus.png was not drawn: no more ink" in capsys.readouterr().out
    assert {path.name for path in (again / "figures").iterdir()} == PICTURES - {"bonus.png"}
    session = json.loads((again / "manifest.json").read_text())["sessions"][-1]
    assert "bonus.png was not drawn: no more ink" in session["warnings"]


def test_troubles_of_the_bonus_are_shown_and_kept_in_the_manifest(
    car, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("eniac.experiments.advice.UNHEARD", 2.0)
    monkeypatch.setattr("eniac.experiments.run.draw_all", lambda run, folder: ([], []))
    again = tmp_path / "again"
    assert main(["train", str(car / "config.json"), "--out", str(again)]) == 0
    warnings = json.loads((again / "manifest.json").read_text())["sessions"][-1]["warnings"]
    heard = [text for text in warnings if "no say" in text]
    assert [text.split(":")[0] for text in heard] == [f"epoch {n}, seeds 0, 1" for n in (1, 2, 3)]
    assert capsys.readouterr().out.count("--combine add") == 3


def test_the_cover_is_reported_policy_by_policy(car, capsys):
    assert main(["cover", str(car), "--seed", "1", "--episodes", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["seed"], report["epoch"], report["horizon"]) == (1, 3, 30)
    rows = report["policies"]
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
    assert sum(row["new"] for row in rows) == report["covered"] <= report["cells"] == 2500
    assert rows[0]["new"] == rows[0]["covered"] > 0
    assert all(row["length_mean"] == 30 for row in (*rows, report["exploiting"]))
    # By hand, from the buffer.
    observations = take_seed(load_run(car).states, 1).buffer.pairs.observation
    first = np.asarray(observations[:200], np.float64)
    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    cells = np.minimum((first - low) / (high - low) * 50, 49).astype(int)
    assert rows[0]["covered"] == len({tuple(cell) for cell in cells})


def test_the_cover_is_shown_as_a_table(car, capsys):
    assert main(["cover", str(car), "--episodes", "2"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("exploring", "exploiting", "0.333", "50 x 50", "2 episodes, cut after 30 steps"):
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
            values[place, 3], bonus(plane.observations[place], np.float32([0.2])), rtol=1e-6
        )
    # From the bottom left to the right first.
    assert plane.observations[0] == pytest.approx([-1.2, -0.07], abs=0.01)
    assert plane.observations[119] == pytest.approx([0.6, -0.07], abs=0.01)


def test_an_episode_that_ended_stands_still():
    env = make("DeepSea-4")
    policy = ALGORITHMS["ppo"].default.build(env).new_actor(np_key()).policy
    episodes = play(env, policy, np_key(), 9)
    assert (episodes.lengths == 4).all()
    assert episodes.observations.shape == (10, 10, 16)
    assert episodes.observations[:4].sum(-1).all()
    assert not episodes.observations[4:].any()  # the end is zero


def np_key():
    import jax

    return jax.random.key(0)


@pytest.mark.parametrize(
    ("algorithm", "env", "drawn"),
    [
        ("eniac", "DeepSea-4", PICTURES),
        ("pc-pg", "Chain-5", PICTURES),
        ("zero", "MountainCarContinuous-v0", PICTURES - {"bonus.png"}),
        ("ppo-rnd", "MountainCarContinuous-v0", PICTURES),
        ("eniac", "CombinationLock-3", {"learning_curve.png"}),
    ],
)
def test_every_kind_of_run_gets_the_pictures_that_it_has(algorithm, env, drawn, tmp_path):
    run = _untrained(algorithm, env, tmp_path / "run")
    paths, warnings = draw_all(run, tmp_path / "out")
    assert warnings == []
    assert {path.name for path in paths} == drawn


def _untrained(algorithm, env, folder):
    """A run whose state is that of the start, but for a cover of two policies and their visits."""
    import dataclasses

    import jax

    from eniac.experiments.load import Run
    from eniac.experiments.stop import Progress

    row = ALGORITHMS[algorithm].default
    bonus = dataclasses.replace(row.bonus, features=8) if row.cover == "log-det" else row.bonus
    row = dataclasses.replace(row, hidden=(8,), visits=100, bonus=bonus)
    config = Config(row, env=env, horizon=20, out=folder)
    learner, judged_in = config.build()
    state = learner.init(jax.random.key(0))
    if state.cover is not None:
        for key in jax.random.split(jax.random.key(1)):
            state = jax.jit(learner.extend)(key, state)
    states = jax.tree.map(lambda leaf: leaf[None], state)
    folder.mkdir()
    record = {"epoch": 1, "seed": 0, "env_steps": 10, "return_mean": 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    return Run(folder, config, learner, judged_in, states, Progress.start(1), [])


def test_a_full_cover_has_more_policies_than_colours(tmp_path):
    import jax

    run = _untrained("eniac", "MountainCarContinuous-v0", tmp_path / "run")
    state = take_seed(run.states, 0)
    for key in jax.random.split(jax.random.key(2), 9):
        state = jax.jit(run.learner.extend)(key, state)
    states = jax.tree.map(lambda leaf: leaf[None], state)
    full = type(run)(run.path, run.config, run.learner, run.env, states, run.progress, [])
    assert draw(full, "visits", tmp_path / "v.png").stat().st_size > 1000
    assert [row["number"] for row in cover_report(full, episodes=1)["policies"]] == list(
        range(1, 12)
    )


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


def test_a_run_without_a_cover_or_a_picture_is_told(ppo, capsys):
    assert "ppo, which has no policy cover" in _error(capsys, 1, "cover", str(ppo))
    for what in ("visits", "bonus"):
        error = _error(capsys, 1, "plot", str(ppo), "--what", what)
        assert "observations of two numbers" in error
    assert not (ppo / "figures" / "visits.png").exists()


def test_a_cover_that_is_still_empty_is_told(tmp_path):
    run = _untrained("eniac", "Chain-5", tmp_path / "run")
    empty = take_seed(run.states, 0)
    empty = empty._replace(cover=type(empty.cover).empty(empty.exploit.policy, 3))
    import jax

    states = jax.tree.map(lambda leaf: leaf[None], empty)
    run = type(run)(run.path, run.config, run.learner, run.env, states, run.progress, [])
    with pytest.raises(RunError, match="is empty"):
        cover_report(run)


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
    newest, *older = sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True)
    assert len(older) == 1  # that of epoch 0, whose cover is empty
    content = newest.read_bytes()
    newest.write_bytes(content[:-100] + bytes(100))
    error = _error(capsys, 1, "cover", str(folder))
    assert "does not match its checksum" in error
    assert "is empty" in error
    older[0].unlink()
    error = _error(capsys, 1, "plot", str(folder), "--what", "bonus")
    assert "No checkpoint of this run can be used" in error


def test_no_picture_is_an_error_with_a_reason(tmp_path):
    run = _untrained("zero", "Chain-5", tmp_path / "run")
    with pytest.raises(NoPicture, match="0 everywhere"):
        draw(run, "bonus", tmp_path / "b.png")
    assert train  # the runs of this file come from it
