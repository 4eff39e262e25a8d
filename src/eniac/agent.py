"""Agents: an algorithm and an environment as one object that learns, acts, is saved and loaded.

    import eniac

    agent = eniac.ENIAC("MountainCarContinuous-v0", seed=0)
    agent.learn(steps=1_000_000)
    action = agent.predict(observation)

`agents` has a class for every row of the table of algorithms.
"""

from __future__ import annotations

import importlib.util
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np
from rich.console import Console

import eniac
from eniac.algorithms import find_algorithm
from eniac.errors import ConfigError, require, shown
from eniac.incumbent import Acting
from eniac.report.evaluate import judge
from eniac.runs import store
from eniac.runs.cache import prepare_jax
from eniac.runs.config import Built, Config
from eniac.runs.dataclass_io import conform
from eniac.runs.display import Display
from eniac.runs.export import Exported, exported_policies
from eniac.runs.identity import new_run
from eniac.runs.load import Run, choose_policy
from eniac.runs.log import Record, Writer
from eniac.runs.manifest import commit, versions
from eniac.runs.program import Program, make_program, take_seed
from eniac.runs.progress import Progress
from eniac.runs.session import Epoch, Session
from eniac.runs.settings import config_from
from eniac.runs.signals import Signals
from eniac.sampling.base import Evaluation
from eniac.spaces import Spaces, from_env, read, to_env

if TYPE_CHECKING:
    from eniac.report.diagnose import Diagnosis
    from eniac.report.plots import Plots

NOT_SETTINGS = {
    "seeds": "an agent has one seed, so make an agent for each",
    **{name: "give it to learn()" for name in ("epochs", "steps", "seconds")},
    "return_above": "give it to learn(), as until",
    "out": "give it to learn(), or the folder to save()",
    "wandb": "give learn() the callback eniac.WandB()",
    "env": "it is the first argument",
}
"""Fields of a configuration that are no settings of an agent, and where they belong."""

Callback = Callable[[dict[str, Any]], Any]
"""Is given the record of an epoch, and stops the learning by returning False."""
Callbacks = Callback | Sequence[Callback] | None


class Agent:
    """An algorithm that learns to act in an environment.

    `env` is an id, as in `eniac list envs` or gymnasium's, an environment, a vector environment, or
    a function or class that makes one. All settings of the algorithm and of the run are keywords:

        >>> eniac.ENIAC("DeepSea-10", seed=1, depth=4, horizon=20)
        ENIAC('DeepSea-10', seed=1) after 0 epochs, 0 steps
        >>> make_env = lambda: gymnasium.make("CartPole-v1")
        >>> eniac.PPO(make_env, update={"clip": 0.1}, num_envs=8).config.algorithm.update.clip
        0.1
        >>> agent = eniac.ENIAC("DeepSea-10", bonus="rnd", **{"bonus.coefficient": 2.0})

    **Raises** `ConfigError` for a setting that is not known or cannot be, before any work.
    """

    algorithm: ClassVar[str] = ""
    """the row of the table of algorithms"""

    def __init__(self, env: Any, **settings: Any):
        if not self.algorithm:
            names = ", ".join(eniac.AGENTS)
            raise ConfigError(f"Agent is what all agents have in common; make one of: {names}.")
        if env is None:
            raise ConfigError(
                "the environment is None; it must be a name, an environment, or what makes one."
            )
        prepare_jax()
        config = config_from(find_algorithm(self.algorithm), settings, NOT_SETTINGS)
        named = isinstance(env, str)
        config = replace(config, env=env) if named else config.for_object(env)
        self._begin(config, None if named else env)
        self._open()

    def _begin(self, config: Config, given: Any) -> None:
        self._config, self._given = config, given
        self._built: Built | None = None
        self._program: Program | None = None
        self._compiled = False
        self._missing: ConfigError | None = None
        """why there is no environment to learn in, if there is none"""
        self._run = new_run()
        self._states: Any = None
        self._progress = Progress.start(1)
        self._records: list[Record] = []
        self._timings: list[Record] = []
        self._acting: tuple[Acting, Spaces] | None = None
        self._exported: Exported | None = None
        """the policy that was loaded, if there is no state to go on from"""
        self._made_with: dict[str, Any] | None = None
        """what it was made with, as far as that is known; None: with what is here"""
        self._draws = 0

    def _open(self) -> tuple[Built, Program]:
        """What it learns with, opened again if it was closed."""
        if self._missing is not None:
            raise self._missing
        if self._built is None or self._program is None:
            built = self._built or self._config.build(self._given)
            built.require_memory()
            self._built, self._program, self._compiled = built, make_program(built), False
        return self._built, self._program

    def learn(
        self,
        steps: Any = None,
        *,
        epochs: Any = None,
        seconds: Any = None,
        until: Any = None,
        callback: Callbacks = None,
        progress: bool = False,
        out: Any = None,
    ) -> Self:
        """Goes on learning, and returns the agent.

        It stops after the epoch in which it has taken `steps` more environment steps, after
        `epochs` more epochs, after `seconds` more of training, or when an evaluation has a mean
        return above `until`: whichever comes first. Without any of them it learns for 50 epochs, or
        as many as the cover has room for.

            >>> agent.learn(epochs=1).learn(epochs=1)  # the same as agent.learn(epochs=2)
            ENIAC('DeepSea-4', seed=0) after 3 epochs, ... steps
            >>> agent = agent.learn(steps=100, callback=lambda record: record["return_mean"] < 90)

        `callback` is called after each epoch with its record, as in `metrics`, and may use the
        agent; if it returns False, learning ends. There may be several, in a list, and
        `TensorBoard` and `WandB` are such. Ctrl-C ends it after the epoch that is being
        computed; a second one at once, with KeyboardInterrupt, and the agent is as it was before
        that epoch. `progress` shows what goes on. With `out` the agent is saved in that folder at
        the beginning, every `checkpoint_every` epochs, and at the end; otherwise nothing is
        written.
        """
        built, program = self._open()
        config = self._with_rules(built.config, steps, epochs, seconds, until)
        callbacks = _callbacks(callback)
        progress = conform(bool, progress, "progress")
        folder = None if out is None else store.check_folder(out, self._run)
        if folder is not None and self._states is not None:
            self.save(folder)
        session = _Learning(self, built, program, config, callbacks, folder)
        for writer in callbacks:
            if isinstance(writer, Writer):
                writer.begin(self.config)
        aborted = True
        with (
            Display(Console(quiet=not progress), config) as display,
            Signals(display.stopping, (signal.SIGINT,)) as signals,
        ):
            tell = display.warn if progress else warn
            try:
                session.drive(self._states, self._progress, display, signals, tell)
                aborted = False
            except Exception:
                aborted = False
                raise
            finally:
                self._take(session)
                if aborted:  # an epoch may still be running, in which nobody is interested
                    self._built = self._program = None
        return self

    def _take(self, session: Session) -> None:
        """What `session` has come to."""
        if session.states is not None:
            self._states, self._progress = session.states, session.progress
        self._compiled, self._acting = session.compiled, None

    def _with_rules(
        self, config: Config, steps: Any, epochs: Any, seconds: Any, until: Any
    ) -> Config:
        """`config` with stop rules that count from where the agent is."""
        algorithm, now = config.algorithm, self._progress
        for name, value in (("steps", steps), ("epochs", epochs)):
            conform(int | None, value, name)
            require(value is None or value >= 1, name, value, "1 or more")
        conform(float | None, seconds, "seconds")
        require(seconds is None or seconds > 0, "seconds", seconds, "more than 0")
        until = conform(float | None, until, "until")
        last = None if epochs is None else now.epoch + epochs
        if last is None and algorithm.always_ends:
            last = algorithm.default_epochs
        elif last is None and steps is None and seconds is None and until is None:
            last = now.epoch + algorithm.default_epochs
            if algorithm.max_epochs is not None:
                last = min(last, algorithm.max_epochs)
        if last is not None and last <= now.epoch:
            raise ConfigError(
                f"the agent has learned for {now.epoch} epochs, and its cover has room for no "
                f"more: {algorithm.longer}."
            )
        return replace(
            config,
            epochs=last,
            steps=None if steps is None else int(now.steps[0]) + steps,
            seconds=None if seconds is None else now.seconds + seconds,
            return_above=until,
        )

    def predict(self, observations: Any, deterministic: bool | None = True) -> Any:
        """The action for an observation, or the actions for a batch: what `env.step` takes.

            >>> action = agent.predict(observation)
            >>> observation, reward, *_ = env.step(action)
            >>> agent.predict([observation, observation]).shape
            (2,)

        An observation is what the environment gives: an array, a number, a list, or a dict or tuple
        of these; a batch has one more axis in front, or is a list of dicts. The policy is the
        incumbent, the best so far. It takes its most likely action if `deterministic`, a random one
        if not, and with None whichever way it was judged best. Provable algorithms observe the
        number of the state. **Raises** `ConfigError` for what is no observation of the environment,
        and if the agent has not learned yet.
        """
        if self._exported is None and self.epochs == 0:
            raise ConfigError(
                "the agent has not learned yet, so it would act at random; call learn() first. "
                "(evaluate() says what acting at random earns.)"
            )
        acting, spaces = self._judged()
        rows, num = read(spaces.observation, observations, "the observation")
        how = acting.acts(_one_way(deterministic))
        key = jax.random.fold_in(jax.random.key(self._config.seed), self._draws)
        self._draws += 1
        emitted = _act(how, how.noise(key, (1 if num is None else num,)), rows)
        actions = np.asarray(emitted)
        return to_env(spaces.action, actions[0] if num is None else actions)

    def evaluate(
        self, episodes: int = 100, *, seed: int = 0, deterministic: bool | None = None
    ) -> dict[str, Any]:
        """Plays fresh episodes in the environment; nothing is learned from them.

            >>> agent.evaluate(10)
            {'return_mean': ..., 'interval': (..., ...), ...}

        Returns the mean of their returns, a 95% confidence interval of it (Student's t; None for a
        single episode), their spread and range, and the mean length. The same `seed` gives the same
        episodes. `deterministic` is as in `predict`; None is as it was judged best.
        """
        episodes, seed = conform(int, episodes, "episodes"), conform(int, seed, "seed")
        require(1 <= episodes < 2**31, "episodes", episodes, "1 or more, and below 2**31")
        require(0 <= seed < 2**31, "seed", seed, "in 0..2**31 - 1")
        how = _one_way(deterministic)
        from eniac.report.statistics import mean_interval  # with SciPy, which takes a while

        built, _ = self._open()
        acting = self._judged()[0].acts(how)
        evaluation = Evaluation(episodes, built.config.evaluation.horizon)
        key = jax.random.fold_in(jax.random.key(seed), self._config.seed)
        with judge(built.env, evaluation) as judged:
            found = judged(key, acting)
        mean = found.pop("return_mean")
        return {
            "return_mean": mean,
            "interval": mean_interval(mean, found["return_std"], episodes),
            **found,
            "episodes": episodes,
            "deterministic": bool(acting.greedy),
        }

    def bonus(self, observation: Any, action: Any) -> Any:
        """The exploration bonus of an observation and an action, or of a batch of both.

            >>> 0 <= agent.bonus(observation, agent.predict(observation)) <= 0.5
            True

        **Raises** `ConfigError` if the algorithm has none.
        """
        built, _ = self._open()
        found = built.learner.bonus(self._state())
        if found is None:
            raise ConfigError(f"{self.algorithm} has no bonus that could be asked for a pair.")
        rows, num = read(built.env.observation_space, observation, "the observation")
        actions, num_actions = read(built.env.action_space, action, "the action")
        if num != num_actions:
            raise ConfigError(
                f"the observation is {_many(num)}, and the action {_many(num_actions)}; give as "
                "many of each."
            )
        worth = np.asarray(_ask(found, rows, from_env(built.env.action_space, actions)))
        return worth if num is not None else float(worth[0])

    @property
    def incumbent(self) -> Acting:
        """The policy that the agent is judged by, and that `predict` asks: the best so far."""
        return self._judged()[0]

    @property
    def cover(self) -> list[Acting]:
        """The policies of the cover, oldest first.

            >>> len(agent.cover)
            1

        There are none where an algorithm has no cover, or one of mixtures.
        """
        policies = self._open()[0].learner.policies(self._state())
        return [acting for name, acting in policies.items() if name.startswith("cover:")]

    @property
    def metrics(self) -> Any:
        """A record for each round so far: a pandas frame where pandas is installed, else a list of
        dicts.

            >>> [record["epoch"] for record in agent.metrics]
            [1]

        The names are those of `metrics.jsonl`.
        """
        records = [dict(record) for record in self._records]
        if importlib.util.find_spec("pandas") is None:
            return records
        import pandas  # pyright: ignore[reportMissingImports]

        return pandas.DataFrame(records)

    @property
    def plot(self) -> Plots:
        """Figures of matplotlib's: `learning_curve()`, `visits()`, `bonus()`.

            >>> agent.plot.bonus().savefig(folder / "bonus.png")

        They are what `eniac plot` draws.
        """
        from eniac.report.plots import Plots  # with matplotlib, which takes a while

        return Plots(self.config, self._records, self._as_run)

    def diagnose(self) -> Diagnosis:
        """Asks whether the bonus is alive, the cover grows, steps are too large, and so on: a
        verdict for each, the number that it rests on, and what to try.

            >>> print(agent.diagnose())
            eniac on DeepSea-4, seed 0: ...

        It takes some thousand steps in the environment, from which nothing is learned.
        """
        from eniac.report.diagnose import diagnose

        if self._missing is not None:
            why = "the agent was loaded without its environment"
            return diagnose(self.config, self._records, None, why)
        return diagnose(self.config, self._records, self._as_run())

    @property
    def config(self) -> Config:
        """All settings, with what was left open chosen for the environment."""
        return self._config if self._missing is not None else self._open()[0].config

    @property
    def epochs(self) -> int:
        """Epochs learned so far."""
        return self._progress.epoch

    @property
    def steps(self) -> int:
        """Environment steps taken so far to learn."""
        return int(self._progress.steps[0])

    def save(self, folder: Any) -> Path:
        """Saves the whole agent in `folder`, which is new or has this agent already.

            >>> path = agent.save(folder / "sea")
            >>> eniac.load(path)
            ENIAC('DeepSea-4', seed=0) after 1 epochs, ... steps

        It is the folder of a run: `eniac evaluate`, `eniac play` and the others read it.
        **Raises** `ConfigError` if there is something else, `RunError` if it cannot be written.
        """
        built, program = self._open()
        self._state()
        path = store.check_folder(folder, self._run)
        config = replace(built.config, epochs=None, steps=None, seconds=None, return_above=None)
        parts = (self._states, self._progress, self._records, self._timings)
        built = replace(built, config=config)
        store.save(path, store.Stored(self._run, self._config, built, program.devices, *parts))
        return path

    def export(self, folder: Any, format: str = "safetensors") -> Path:
        """Writes the policy that the agent is judged by, for other programs, with a model card.

            agent.export("car", format="onnx")

        "safetensors" is for eniac itself and whoever reads such files, "onnx" a graph for
        onnxruntime and others, "numpy" a Python file that needs NumPy alone (docs/export.md). All
        act as `predict` does. `folder` is new, or has an earlier export, which is replaced.
        **Raises** `ConfigError` if the format is unknown or something else is in the folder.
        """
        from eniac.exports.card import History
        from eniac.exports.write import check_format, export, seed_results

        check_format(format)
        path = Path(conform(Path, folder, "the folder"))
        exported, seeds = self._exported, []
        if exported is None:
            built, _ = self._open()
            self._state()
            # As many epochs in one go are the same.
            config = replace(built.config, epochs=self.epochs or None)
            parts = (config, built.learner, self._states, self._progress)
            [exported] = exported_policies(*parts)
            seeds = seed_results(config.seed_numbers, self._progress)
        made_with = self._made_with
        if made_with is None:
            made_with = {"versions": versions(), "commit": commit()}
        return export({path: exported}, format, History(self._records, made_with, seeds))[0]

    def close(self) -> None:
        """Ends the environments that the agent has opened; not one that it was given. It opens
        them again when it needs them."""
        if self._program is not None:
            self._program.close()
        if self._built is not None:
            self._built.learner.close()
        self._built = self._program = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._config.env!r}, seed={self._config.seed}) after "
            f"{self.epochs:,} epochs, {self.steps:,} steps"
        )

    def _as_run(self) -> Run:
        """The agent as the run that it would be in a folder."""
        built, _ = self._open()
        self._state()
        return Run(Path(self.algorithm), built, self._states, self._progress, [])

    def _state(self) -> Any:
        """The state of its learner, made if it has not begun yet."""
        _, program = self._open()
        if self._states is None:
            self._states = program.init()
        return take_seed(self._states, 0)

    def _judged(self) -> tuple[Acting, Spaces]:
        """The policy that it acts by, and what that sees and does."""
        if self._acting is None:
            built, _ = self._open()
            acting = choose_policy(built.learner.policies(self._state()), None)[1]
            self._acting = acting, Spaces(built.env.observation_space, built.env.action_space)
        return self._acting


class _Learning(Session):
    """The session of an agent, which keeps what is learned in memory, and in `folder` if any."""

    def __init__(
        self,
        agent: Agent,
        built: Built,
        program: Program,
        config: Config,
        callbacks: Sequence[Callback],
        folder: Path | None,
    ):
        super().__init__(built, program)
        self.agent, self.config = agent, config
        self.callbacks, self.folder = callbacks, folder
        self.compiled = agent._compiled

    def log(self, epoch: Epoch) -> bool:
        self.agent._records += epoch.records
        self.agent._timings.append(epoch.timing)
        self.agent._take(self)
        try:
            # All of them, also after one that ends the learning.
            return all([self._go_on(callback, epoch) for callback in self.callbacks])
        except KeyboardInterrupt:
            return False

    def _go_on(self, callback: Callback, epoch: Epoch) -> bool:
        """What a callback makes of an epoch: whether learning is to go on."""
        if isinstance(callback, Writer):
            callback.write(epoch.records, epoch.timing)
            return True
        said = callback(dict(epoch.records[-1]))
        return not isinstance(said, bool | np.bool_) or bool(said)

    def history(self) -> Sequence[Record]:
        return self.agent._records

    def keep(self) -> None:
        if self.folder is not None:
            self.agent._take(self)
            self.agent.save(self.folder)


@eqx.filter_jit
def _act(acting: Acting, noise: Any, rows: Any) -> Any:
    return jax.vmap(acting.action)(noise, rows)


@eqx.filter_jit
def _ask(bonus: Any, rows: Any, actions: Any) -> Any:
    return jax.vmap(bonus)(rows, actions)


def _callbacks(given: Any) -> list[Callback]:
    """What was given as callbacks, as a list."""
    found = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    for each in found:
        if not callable(each):
            raise ConfigError(
                f"callback is {shown(each)}; it must be a function, or some in a list."
            )
    return found


def _one_way(deterministic: Any) -> bool | None:
    """How to act: by the most likely actions, by random ones, or (None) as it was judged best."""
    if deterministic is None or isinstance(deterministic, bool | np.bool_):
        return None if deterministic is None else bool(deterministic)
    raise ConfigError(f"deterministic is {shown(deterministic)}; it must be True, False or None.")


def _many(num: int | None) -> str:
    return "one" if num is None else f"a batch of {num}"


def warn(text: str) -> None:
    """Warns the user, as Python does."""
    warnings.warn(text, UserWarning, stacklevel=2)
