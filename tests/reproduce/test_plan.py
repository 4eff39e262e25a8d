"""What is said before runs are made, and what is refused."""

import errno
from dataclasses import replace

import pytest

import eniac
from eniac.errors import ConfigError, RunError
from eniac.reproduce import wanted
from eniac.reproduce.make import config_of
from eniac.reproduce.plan import Plan
from eniac.reproduce.wanted import Wanted, settings_of
from eniac.reproduce.work import jobs_of, make_all
from eniac.runs.work import Outcome
from reproduce.fake_results import result_of, write_result


def asked(folder, *seeds, algorithm="ppo"):
    return [Wanted("lock-2", algorithm, seed, results=folder) for seed in seeds]


def written(folder, seed, **more):
    run = Wanted("lock-2", "ppo", seed, results=folder)
    settings = settings_of(config_of(run).build().config.to_dict(), True)
    made = {"settings": settings, "versions": {"eniac": eniac.__version__}, "seconds": 100.0}
    write_result(folder, result_of("lock-2", "ppo", seed, solved=1000, **{**made, **more}))


def test_a_plan_knows_what_is_done_and_how_long_the_like_took(tmp_path):
    written(tmp_path, 0)
    plan = Plan.of(asked(tmp_path, 0, 1, 2))
    assert [run.seed for run in plan.done] == [0]
    assert [run.seed for run in plan.missing] == [1, 2]
    assert 200 < plan.seconds() < 300
    plan.check(mix_versions=False)


def test_a_row_that_another_version_has_begun_is_not_added_to(tmp_path):
    written(tmp_path, 0, versions={"eniac": "0.0.9"})
    plan = Plan.of(asked(tmp_path, 0, 1))
    with pytest.raises(
        ConfigError, match=r"seed 0\) is by eniac 0\.0\.9, .*--mix-versions goes on"
    ):
        plan.check(mix_versions=False)
    plan.check(mix_versions=True)
    Plan.of(asked(tmp_path, 0)).check(mix_versions=False)
    Plan.of(asked(tmp_path, 0, algorithm="zero")).check(mix_versions=False)


def test_a_row_of_other_settings_is_never_added_to(tmp_path):
    written(tmp_path, 0, settings="others")
    with pytest.raises(ConfigError, match="made with other settings"):
        Plan.of(asked(tmp_path, 0, 1)).check(mix_versions=True)


def test_the_seeds_of_a_provable_algorithm_are_one_job_and_all_others_one_each(tmp_path):
    runs = [Wanted("provable-lock-5", "spi", seed, results=tmp_path) for seed in (100, 101)]
    one, other, third = jobs_of([*runs, *asked(tmp_path, 0, 1)])
    assert one.name == "provable-lock-5 spi (seeds 100-101)"
    assert one.product == runs[-1].file
    assert [Wanted.from_dict(run).seed for run in one.arguments["runs"]] == [100, 101]
    assert (other.name, third.name) == ("lock-2 ppo-0", "lock-2 ppo-1")
    assert other.run == replace(asked(tmp_path, 0)[0], runs=wanted.RUNS.absolute()).folder


def test_a_result_that_says_less_than_was_asked_for_is_kept_beside_the_run(tmp_path, monkeypatch):
    short = Wanted("lock-2", "ppo", 0, limit=10, results=tmp_path / "r", runs=tmp_path / "u")
    write_result(tmp_path / "r", result_of("lock-2", "ppo", 0, steps=10))
    given = []

    def note(jobs, *_, **how):
        given.extend(jobs)
        return Outcome((), (), (), None)

    monkeypatch.setattr("eniac.reproduce.work.execute", note)
    make_all([short])
    assert not given
    make_all([replace(short, limit=20)])
    assert [job.product for job in given] == [short.file.absolute()]
    assert not short.file.exists()
    assert (tmp_path / "u" / "lock-2" / "ppo-0.before.json").exists()


def test_a_full_disk_costs_no_run(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(wanted, "write_atomically", full)
    run = Wanted("lock-2", "ppo", 0, results=tmp_path)
    with pytest.raises(RunError, match=r"No space left on device\. The run is kept in runs/"):
        run.keep_result(steps=1)
    assert not run.file.exists()
