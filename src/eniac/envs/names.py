"""What `--env NAME` means, and what a Python user may give in its place.

| name | environment |
| --- | --- |
| `DeepSea-20` | ours, compiled; also where gymnasium has the same id |
| `CartPole-v1`, `eniac/DeepSea-v0` | gymnasium's, where we have none of this name |
| `gymnasium:MountainCarContinuous-v0` | gymnasium's, whether or not we have one |
| `package:ID-v0`, `gymnasium:package:ID-v0` | gymnasium's, after importing what registers it |
| `envpool:CartPole-v1` | EnvPool's |
| `package.module:function` | what the user's function makes |

A module is imported as Python would from where the program was started, never from a run's folder:
reading a run must not run code that came with it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from eniac.cores import num_cores
from eniac.envs.faults import FAILURES, raised
from eniac.envs.registry import ENVS, without_version
from eniac.errors import ConfigError, EniacError, one_line, require_kinds, suggestion
from eniac.lazy import import_named, import_users_module

if TYPE_CHECKING:
    from eniac.envs.base import Environment
    from eniac.envs.sources import HostEnv

_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_ID = r"(?:[\w-]+/)?[\w.-]+"  # a gymnasium id, with or without a namespace

_KINDS = (
    "Write one of our ids, a gymnasium id ('package:ID' imports the package that registers it), "
    "'envpool:ID' for EnvPool's, or 'package.module:function' for your own."
)


def check_name(name: str) -> None:
    """Raises a ConfigError unless `name` can be an environment's. Nothing is made.

    Of our ids and gymnasium's it says whether there is one. Modules of the user are not imported
    for this, nor is EnvPool, so those names are looked at only for their form.
    """
    kind, _, rest = _parse(name)
    if kind == "gymnasium" and ":" not in rest:
        _find_spec(name, rest)


def find_env(
    name: str,
    options: Mapping[str, Any],
    horizon: int | None = None,
    observation_keys: Sequence[str] = (),
) -> Environment | HostEnv:
    """The environment called `name`: one of ours, or where host environments come from.

    `options` are keyword arguments of the environment, or of the user's function. `horizon` is the
    time limit in place of its own; around what a function makes it is a second limit, and the
    smaller of the two holds. `observation_keys` are the keys to keep of a Dict observation.

    **Raises** ConfigError, in one line, for whatever is wrong with these.
    """
    _check_horizon(horizon)
    kind, name, rest = _parse(name)
    if kind == "ours":
        return _make_ours(name, options, horizon, observation_keys)
    if kind == "envpool":
        return _from_envpool(name, rest, options, horizon, observation_keys)
    if kind == "gymnasium":
        return _from_gymnasium(name, rest, options, horizon, observation_keys)
    factory = UserFactory(rest, os.getcwd())
    factory.load()
    return _from_factory(name, factory, options, horizon, observation_keys)


def env_from(
    given: Any,
    options: Mapping[str, Any] | None = None,
    horizon: int | None = None,
    observation_keys: Sequence[str] = (),
) -> Environment | HostEnv:
    """As `find_env`, for what Python users give: a name, an environment, or what makes one.

    That is one of our environments, a gymnasium environment or vector environment, or a function
    or class that returns one of these when called with `options`.

    **Raises** ConfigError for anything else, and for options of what is made already.
    """
    options = {} if options is None else options
    if isinstance(given, str):
        return find_env(given, options, horizon, observation_keys)
    _check_horizon(horizon)
    name = describe(given)
    ready = _from_ready(name, given, horizon, observation_keys)
    if ready is not None:
        if options:
            raise ConfigError(
                f"options {_names(options)} cannot be set on {name}, which is made already. Set "
                "them where you make it, or give what makes it."
            )
        return ready
    if callable(given):
        return _from_factory(name, given, options, horizon, observation_keys)
    raise ConfigError(
        f"the environment is {given!r}, a {type(given).__name__}; expected a name, an eniac "
        "Environment, a gymnasium Env or VectorEnv, or a function that makes one of these."
    )


def describe(given: Any) -> str:
    """A short text for what a Python user gave: `given: package.Class`; a name is its own."""
    if isinstance(given, str):
        return given
    while isinstance(given, functools.partial):
        given = given.func
    named = given if hasattr(given, "__qualname__") else type(getattr(given, "unwrapped", given))
    return f"given: {named.__module__}.{named.__qualname__}"


@dataclass(frozen=True)
class UserFactory:
    """`module:function` of the user, called as the function would be.

    It holds names, not the function: a process for an environment imports the module itself, from
    the same `directory`, which need not be on its path.
    """

    target: str
    directory: str

    def __call__(self, **options: Any) -> Any:
        return self.load()(**options)

    def load(self) -> Callable[..., Any]:
        """Imports the module and finds the function. **Raises** ConfigError if it cannot."""
        found = import_named(self.target, "the environment", self.directory)
        if not callable(found):
            raise ConfigError(
                f"{self.target!r} is a {type(found).__name__}, not a function or class that makes "
                "an environment."
            )
        return found


def _parse(name: str) -> tuple[str, str, str]:
    """Kind (ours, gymnasium, envpool or factory), the name, and what follows its prefix."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"the environment is {name!r}; it must have a name. {_KINDS}")
    name = name.strip()
    prefix, colon, rest = name.partition(":")
    if not colon:
        if _is_our_id(name):
            return "ours", name, name
        kind, form = "gymnasium", _ID
    elif prefix == "envpool":
        kind, form = "envpool", _ID
    elif prefix == "gymnasium":
        kind, form = "gymnasium", f"(?:{_MODULE}:)?{_ID}"
    elif re.fullmatch(f"{_MODULE}:{_MODULE}", name):
        return "factory", name, name
    else:
        kind, form, rest = "gymnasium", f"{_MODULE}:{_ID}", name
    rest = rest if colon else name
    if not re.fullmatch(form, rest):
        raise ConfigError(f"the environment is {name!r}, which is no name of one. {_KINDS}")
    return kind, name, rest


def _is_our_id(name: str) -> bool:
    short = re.fullmatch(r"(.+)-\d+", name)
    return name in ENVS or (short is not None and f"{short[1]}-v0" in ENVS)


def _make_ours(
    name: str, options: Mapping[str, Any], horizon: int | None, observation_keys: Sequence[str]
) -> Environment:
    from eniac.envs.registry import make

    try:
        env = make(name, horizon, **options)
    except EniacError:
        raise
    except (TypeError, ValueError) as error:  # ours say what was given and what to do
        raise ConfigError(str(error)) from error
    return _ours(name, env, None, observation_keys)


def _ours(
    name: str, env: Environment, horizon: int | None, observation_keys: Sequence[str]
) -> Environment:
    from eniac.envs.base import TimeLimit
    from eniac.envs.observations import select_keys

    if observation_keys:
        select_keys(name, env.observation_space, observation_keys)
        raise ConfigError(
            f"observation_keys is {list(observation_keys)}, but {name} is compiled, where no keys "
            "can be left out. Let it observe only these."
        )
    return env if horizon is None else TimeLimit(env, horizon)


def _users_own(
    name: str, env: Environment, horizon: int | None, observation_keys: Sequence[str]
) -> Environment:
    """An environment in JAX that a user has made."""
    from eniac.envs.check import check_environment

    limited = _ours(name, env, horizon, observation_keys)
    check_environment(name, env)
    return limited


def _find_spec(name: str, id: str) -> Any:
    """gymnasium's entry for an id. **Raises** ConfigError with near names if there is none."""
    import gymnasium

    if id in gymnasium.registry:
        return gymnasium.registry[id]
    asked = name.startswith("gymnasium:")
    known = [f"gymnasium:{one}" if asked else one for one in gymnasium.registry]
    if not asked:
        known += ENVS
    hint = suggestion(name, known, without_version, most=3)
    raise ConfigError(f"no environment is called {name!r}.{hint} {_KINDS}")


def _from_gymnasium(
    name: str,
    id: str,
    options: Mapping[str, Any],
    horizon: int | None,
    observation_keys: Sequence[str],
) -> HostEnv:
    import gymnasium

    from eniac.envs.sources import MadeEnv, VectorEnvSource

    module, colon, rest = id.rpartition(":")
    if colon:
        import_users_module(module, f"the environment is {name!r}")
    spec = _find_spec(name, rest)
    _refuse_ours(
        name,
        options,
        {"max_episode_steps": "horizon", "num_envs": "num_envs", "render_mode": None},
    )
    fixed: dict[str, Any] = {**options, **_limit(horizon)}
    # The spec, not the id: a process for an environment has imported nothing that registers it.
    make = functools.partial(_make_registered, spec, fixed)

    def make_vector(num_envs: int) -> Any:
        return gymnasium.make_vec(
            spec, num_envs=num_envs, vectorization_mode="vector_entry_point", **fixed
        )

    single = spec.entry_point is not None
    _check_kinds(name, spec.entry_point if single else spec.vector_entry_point, options)
    try:
        first = make(None) if single else make_vector(1)
    except FAILURES as error:
        takes = ""
        if isinstance(error, TypeError) and options:
            takes = _takes(spec.entry_point if single else spec.vector_entry_point)
        given = f" with options {_names(options)}" if options else ""
        raise ConfigError(f"{name}{given} {raised(error, 'make')}{takes}") from error
    if single:
        return MadeEnv(name, make, first, observation_keys)
    return VectorEnvSource(name, make_vector, first, None, observation_keys=observation_keys)


def _make_registered(spec: Any, options: Mapping[str, Any], render_mode: str | None) -> Any:
    import gymnasium

    drawn: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    return gymnasium.make(spec, disable_env_checker=True, **options, **drawn)


def _from_envpool(
    name: str,
    id: str,
    options: Mapping[str, Any],
    horizon: int | None,
    observation_keys: Sequence[str],
) -> HostEnv:
    from eniac.envs.sources import EnvPoolSource

    try:
        envpool = importlib.import_module("envpool")
    except ImportError as error:
        raise ConfigError(
            f"{name} needs EnvPool, which cannot be imported ({one_line(error)}). Install it: "
            "pip install 'eniac[envpool]'"
        ) from error
    ids = envpool.list_all_envs()
    if id not in ids:
        known = [f"envpool:{one}" for one in ids]
        hint = suggestion(name, known, without_version, most=3)
        raise ConfigError(
            f"EnvPool has no environment {id!r}.{hint} envpool.list_all_envs() lists them."
        )
    _refuse_ours(
        name,
        options,
        {
            "max_episode_steps": "horizon",
            "num_envs": "num_envs",
            "batch_size": "num_envs",
            "seed": "seed",
            "env_seed": "seed",
            "gym_reset_return_info": None,
        },
    )
    fields = envpool.make_spec(id).config._fields
    unknown = [option for option in options if option not in fields]
    if unknown:
        raise ConfigError(
            f"{name} takes no {', '.join(map(repr, unknown))}; EnvPool's own options for it are "
            f"{', '.join(fields)}."
        )
    kinds = zip(fields, envpool.make_spec(id).config, strict=True)
    usual = inspect.Parameter.KEYWORD_ONLY
    require_kinds(name, [inspect.Parameter(x, usual, default=y) for x, y in kinds], options)
    fixed = {**options, **_limit(horizon)}
    try:
        spec = envpool.make_spec(id, **fixed)
    except Exception as error:
        raise ConfigError(
            f"{name} could not be made with options {_names(fixed)}: {one_line(error)}"
        ) from error

    def make(num_envs: int, seeds: list[int]) -> Any:
        # EnvPool would have a thread for every core of the machine. On a part of them, which is
        # what each process of several seeds has, they take turns, and steps take longer by a tenth
        # or more.
        threads = {"num_threads": min(num_cores(), num_envs)}
        return envpool.make_gymnasium(id, num_envs=num_envs, seed=seeds, **(threads | fixed))

    return EnvPoolSource(name, make, spec, observation_keys=observation_keys)


def _from_factory(
    name: str,
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    horizon: int | None,
    observation_keys: Sequence[str],
) -> Environment | HostEnv:
    import gymnasium

    from eniac.envs.sources import MadeEnv, VectorEnvSource

    function = factory.load() if isinstance(factory, UserFactory) else factory
    signature = _signature(function)
    if signature is not None:
        try:
            signature.bind(**options)
        except TypeError as error:
            raise ConfigError(
                f"{name} cannot be called with {_names(options)}: {error}.{_takes(function)}"
            ) from error
        require_kinds(name, signature.parameters.values(), options)
    draws = (
        signature is not None
        and "render_mode" not in options
        and any(
            p.name == "render_mode" or p.kind is p.VAR_KEYWORD
            for p in signature.parameters.values()
        )
    )

    try:
        made = factory(**options)
    except FAILURES as error:
        raise ConfigError(f"{name} {raised(error, 'make')}") from error
    if _is_ours(made):
        return _users_own(name, made, horizon, observation_keys)
    if _is_envpool(made):
        return _from_pool(name, made, horizon, observation_keys)
    if isinstance(made, gymnasium.vector.VectorEnv):
        _refuse_horizon(name, horizon)
        return VectorEnvSource(
            name,
            lambda _: factory(**options),
            made,
            made.num_envs,
            observation_keys=observation_keys,
        )
    if isinstance(made, gymnasium.Env):
        make = functools.partial(_make_limited, factory, options, horizon, draws)
        return MadeEnv(name, make, _limited(made, horizon), observation_keys)
    raise ConfigError(
        f"{name} returned {made!r:.80}, a {type(made).__name__}; expected an eniac Environment or "
        "a gymnasium Env or VectorEnv."
    )


def _make_limited(
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    horizon: int | None,
    draws: bool,
    render_mode: str | None,
) -> Any:
    drawn = {"render_mode": render_mode} if draws and render_mode is not None else {}
    return _limited(factory(**options, **drawn), horizon)


def _from_ready(
    name: str, given: Any, horizon: int | None, observation_keys: Sequence[str]
) -> Environment | HostEnv | None:
    """What was given, if it is an environment."""
    if _is_ours(given):
        return _users_own(name, given, horizon, observation_keys)
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:  # then nobody can have made one
        return None
    from eniac.envs.sources import GivenEnv, VectorEnvSource

    if _is_envpool(given):
        return _from_pool(name, given, horizon, observation_keys)
    if isinstance(given, gymnasium.vector.VectorEnv):
        _refuse_horizon(name, horizon)
        if given.unwrapped.closed:
            raise ConfigError(f"{name} was closed already; give an open one, or what makes one.")
        return VectorEnvSource(
            name,
            lambda _: given,
            given,
            given.num_envs,
            given=True,
            observation_keys=observation_keys,
        )
    if isinstance(given, gymnasium.Env):
        return GivenEnv(name, _limited(given, horizon), observation_keys)
    return None


def _from_pool(
    name: str, pool: Any, horizon: int | None, observation_keys: Sequence[str]
) -> HostEnv:
    """EnvPools like the one given, which itself is not stepped: it cannot be seeded again."""
    from eniac.envs.sources import EnvPoolSource

    if pool.config["batch_size"] not in (0, pool.num_envs):
        raise ConfigError(
            f"{name} has batch_size {pool.config['batch_size']} and {pool.num_envs} environments; "
            "all must step together. Leave batch_size out."
        )
    spec = type(pool.spec)(pool.spec.config._replace(**_limit(horizon)))

    def make(num_envs: int, seeds: list[int]) -> Any:
        return type(pool)(type(spec)(spec.config._replace(seed=0, env_seed=seeds)))

    return EnvPoolSource(name, make, spec, pool.num_envs, observation_keys)


def _limit(horizon: int | None) -> dict[str, Any]:
    return {} if horizon is None else {"max_episode_steps": horizon}


def _limited(env: Any, horizon: int | None) -> Any:
    if horizon is None:
        return env
    from gymnasium.wrappers import TimeLimit

    return TimeLimit(env, horizon)


def _is_ours(given: Any) -> TypeGuard[Environment]:
    base = sys.modules.get("eniac.envs.base")  # not imported: then nobody can have made one
    return base is not None and isinstance(given, base.Environment)


def _is_envpool(given: Any) -> bool:
    envpool = sys.modules.get("envpool.python.envpool")
    return envpool is not None and isinstance(given, envpool.EnvPoolMixin)


def _check_horizon(horizon: int | None) -> None:
    if horizon is not None and (not isinstance(horizon, int) or horizon < 1):
        raise ConfigError(f"horizon is {horizon!r}; it must be a whole number of 1 or more.")


def _refuse_horizon(name: str, horizon: int | None) -> None:
    if horizon is not None:
        raise ConfigError(
            f"horizon is {horizon}, but {name} is a vector environment, around which no time limit "
            "can be put. Set it where you make it, for instance gymnasium.make_vec(id, "
            f"max_episode_steps={horizon}), or give a function that makes one environment."
        )


def _refuse_ours(name: str, options: Mapping[str, Any], taken: Mapping[str, str | None]) -> None:
    for option, setting in taken.items():
        if option in options:
            advice = f"use {setting} instead" if setting else "leave it out"
            raise ConfigError(f"options of {name} have {option!r}, which eniac sets: {advice}.")


def _names(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones have none
        return None


def _check_kinds(name: str, function: Any, options: Mapping[str, Any]) -> None:
    """Refuses options of another kind than a function takes. A string is an entry point."""
    signature = _signature(_loaded(function)) if options else None
    if signature is not None:
        require_kinds(name, signature.parameters.values(), options)


def _loaded(function: Any) -> Any:
    if not isinstance(function, str):
        return function
    from gymnasium.envs.registration import load_env_creator

    try:
        return load_env_creator(function)
    except (ImportError, AttributeError):  # whoever makes one says what is missing
        return None


def _takes(function: Any) -> str:
    """` It takes a, b=1.`, or nothing if that cannot be told. A string is an entry point."""
    signature = _signature(_loaded(function))
    if signature is None:
        return ""
    takes = [str(p.replace(annotation=p.empty)) for p in signature.parameters.values()]
    return f" It takes {', '.join(takes) or 'no options'}."
