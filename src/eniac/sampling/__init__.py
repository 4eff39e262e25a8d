"""Where experience comes from: compiled environments, gymnasium's on the host, tables."""

from __future__ import annotations

from eniac.envs.base import Environment
from eniac.envs.sources import HostEnv
from eniac.sampling.base import Sampler
from eniac.sampling.compiled import CompiledSampler
from eniac.sampling.host import HostSampler


def make_sampler(
    env: Environment | HostEnv, evaluation_env: Environment | HostEnv, num_envs: int
) -> Sampler:
    """The sampler for `env`: compiled where it is pure JAX, on the host where it is not."""
    if isinstance(env, HostEnv):
        assert isinstance(evaluation_env, HostEnv)
        return HostSampler(env, num_envs, evaluation_env)
    assert isinstance(evaluation_env, Environment)
    return CompiledSampler(env, evaluation_env)
