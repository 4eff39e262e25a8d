import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eniac.minibatches import shuffled_passes
from eniac.policies import actor_critic
from eniac.updates.ppo import METRICS, PPO, Rows, standardise

SEES = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
BOX = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
NUM_ROWS = 23


@pytest.fixture(scope="module")
def policies():
    """A Gaussian and a softmax policy whose heads do not start near zero."""

    def make(action_space):
        policy = actor_critic(jax.random.key(0), SEES, action_space, (8,))
        heads = lambda p: [p.value_head.weight, p.action_head.weight]  # noqa: E731
        return eqx.tree_at(heads, policy, replace_fn=lambda w: 500 * w)

    return {"gaussian": make(BOX), "softmax": make(gymnasium.spaces.Discrete(3))}


def rows_of(policy, seed=0, ratio=1.0, target_scale=1.0):
    """Random rows whose probability ratio under `policy` is `ratio`."""
    observation_key, noise_key, rest = jax.random.split(jax.random.key(seed), 3)
    observation = jax.random.normal(observation_key, (NUM_ROWS, 3))
    action, log_prob, _ = jax.vmap(policy.act)(policy.noise(noise_key, (NUM_ROWS,)), observation)
    advantage, target = jax.random.normal(rest, (2, NUM_ROWS))
    return Rows(observation, action, log_prob - jnp.log(ratio), advantage, target_scale * target)


def assert_close(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


EVEN = jnp.ones(NUM_ROWS)

# The loss

policy_gradient = eqx.filter_jit(
    eqx.filter_grad(PPO(entropy=0.0, value_weight=0.0).loss, has_aux=True)
)


@pytest.mark.parametrize("kind", ["gaussian", "softmax"])
def test_at_ratio_one_the_gradient_is_the_policy_gradient(policies, kind):
    policy = policies[kind]
    rows = rows_of(policy)

    def surrogate(policy):
        laws, _ = jax.vmap(policy)(rows.observation)
        log_prob = jax.vmap(lambda law, action: law.log_prob(action))(laws, rows.action)
        return -jnp.mean(rows.advantage * log_prob)

    gradient, parts = policy_gradient(policy, rows, EVEN)
    expected = eqx.filter_jit(eqx.filter_grad(surrogate))(policy)
    assert optax.tree.norm(expected) > 0.1
    assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parts["policy_loss"], -rows.advantage.mean(), rtol=1e-5)
    np.testing.assert_allclose(parts["kl"], 0.0, atol=1e-6)
    assert parts["clipped"] == 0


@pytest.mark.parametrize(
    ("ratio", "sign", "cut"),
    [(1.3, 1, True), (1.3, -1, False), (0.7, -1, True), (0.7, 1, False), (1.1, 1, False)],
)
def test_the_gradient_is_cut_where_the_ratio_is_beyond_the_clip_and_improving(
    policies, ratio, sign, cut
):
    policy = policies["gaussian"]
    rows = rows_of(policy, ratio=ratio)._replace(advantage=sign * jnp.ones(NUM_ROWS))
    gradient, parts = policy_gradient(policy, rows, EVEN)
    assert (optax.tree.norm(gradient) == 0) == cut
    assert parts["clipped"] == (abs(ratio - 1) > 0.2)
    best = min(ratio * sign, np.clip(ratio, 0.8, 1.2) * sign)
    np.testing.assert_allclose(parts["policy_loss"], -best, rtol=1e-4)
    np.testing.assert_allclose(parts["kl"], ratio - 1 - np.log(ratio), rtol=1e-2)


def test_the_loss_adds_policy_value_and_entropy_with_their_weights(policies):
    policy = policies["softmax"]
    rows = rows_of(policy, seed=1, ratio=1.05)
    total, parts = PPO(entropy=0.03, value_weight=0.7).loss(policy, rows, EVEN)
    laws, value = jax.vmap(policy)(rows.observation)
    p = np.asarray(jax.nn.softmax(laws.logits), np.float64)
    np.testing.assert_allclose(parts["value_loss"], np.mean((value - rows.target) ** 2), rtol=1e-5)
    np.testing.assert_allclose(parts["entropy"], -np.mean(np.sum(p * np.log(p), 1)), rtol=1e-5)
    expected = parts["policy_loss"] + 0.7 * parts["value_loss"] - 0.03 * parts["entropy"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert set(parts) == set(METRICS)


def test_a_row_of_weight_zero_has_no_part_in_the_loss(policies):
    policy = policies["softmax"]
    rows = rows_of(policy)
    some = jax.tree.map(lambda x: x[:10], rows)
    a, _ = PPO().loss(policy, rows, 1.0 * (jnp.arange(NUM_ROWS) < 10))
    b, _ = PPO().loss(policy, some, jnp.ones(10))
    np.testing.assert_allclose(a, b, rtol=1e-5)


# The optimiser


def torch_rmsprop(parameters, gradients, square, learning_rate, max_norm, alpha=0.99, eps=1e-8):
    """One step of torch's RMSprop after torch's clip_grad_norm_, in float64."""
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    scale = min(1.0, max_norm / (norm + 1e-6))
    square = [alpha * v + (1 - alpha) * (scale * g) ** 2 for v, g in zip(square, gradients)]  # noqa: B905
    step = [learning_rate * scale * g / (np.sqrt(v) + eps) for v, g in zip(square, gradients)]  # noqa: B905
    return [p - s for p, s in zip(parameters, step)], square, norm  # noqa: B905


@pytest.mark.parametrize("target_scale", [1.0, 30.0])
def test_an_update_is_torchs_rmsprop_on_clipped_gradients(policies, target_scale):
    policy = policies["gaussian"]
    rows = rows_of(policy, target_scale=target_scale)
    passes, ppo = 3, PPO(minibatch=NUM_ROWS, passes=3)
    updated, _, _ = jax.jit(ppo.update)(jax.random.key(0), policy, ppo.init(policy), rows)

    advantage = np.asarray(rows.advantage, np.float64)
    normalised = (advantage - advantage.mean()) / advantage.std()
    same = rows._replace(advantage=jnp.asarray(normalised, jnp.float32))
    differentiate = jax.jit(jax.grad(lambda policy: ppo.loss(policy, same, EVEN)[0]))
    leaves, structure = jax.tree.flatten(policy)
    parameters = [np.asarray(x, np.float64) for x in leaves]
    square, norms = [np.zeros_like(x) for x in parameters], []
    for _ in range(passes):
        now = jax.tree.unflatten(structure, [jnp.asarray(x, jnp.float32) for x in parameters])
        gradients = [np.asarray(g, np.float64) for g in jax.tree.leaves(differentiate(now))]
        parameters, square, norm = torch_rmsprop(parameters, gradients, square, 5e-4, 5.0)
        norms.append(norm)
    assert (min(norms) > 5) == (target_scale > 1)  # with and without clipping
    for ours, torchs in zip(jax.tree.leaves(updated), parameters, strict=True):
        np.testing.assert_allclose(ours, torchs, rtol=1e-4, atol=2e-6)
    moved = [np.abs(a - b).max() for a, b in zip(leaves, parameters, strict=True)]
    assert min(moved) > 1e-3


# Rows


class Visits(eqx.Module):
    """A "policy" that learns how often each row was used."""

    counts: jax.Array


class Counting(PPO):
    """PPO with a loss whose plain gradient step adds a row's weight to its count."""

    @property
    def optimiser(self):
        return optax.sgd(1.0)

    def loss(self, policy, rows, weight, entropy=None, unit=1.0):
        total = -jnp.sum(weight * policy.counts[rows.observation])
        return total, dict.fromkeys(METRICS, jnp.zeros(()))


@pytest.mark.parametrize("minibatch", [1, 5, 40])
@pytest.mark.usefixtures("unchecked")
def test_every_row_is_used_exactly_once_a_pass(minibatch):
    ppo = Counting(minibatch=minibatch, passes=3)
    blank = jnp.zeros(NUM_ROWS)
    rows = Rows(jnp.arange(NUM_ROWS), blank, blank, blank, blank)
    start = Visits(blank)
    update = jax.jit(
        lambda key, count: ppo.update(key, start, ppo.init(start), rows, count)[0].counts
    )
    for count in (0, 1, 4, 7, 20, 22, 23):
        visits = update(jax.random.key(count), jnp.asarray(count))
        np.testing.assert_array_equal(visits, np.where(np.arange(NUM_ROWS) < count, 3, 0))


@pytest.fixture(scope="module")
def update(policies):
    """Two passes of minibatches of 6 over the first `count` rows, compiled once."""
    ppo, policy = PPO(minibatch=6, passes=2), policies["softmax"]
    run = jax.jit(lambda key, rows, count: ppo.update(key, policy, ppo.init(policy), rows, count))
    return lambda rows, count, seed=0: run(jax.random.key(seed), rows, jnp.asarray(count))


@pytest.mark.parametrize("junk", [1.0, -1e30])
def test_rows_beyond_the_count_have_no_influence(policies, update, junk):
    rows = rows_of(policies["softmax"])
    beyond = jnp.arange(NUM_ROWS) >= 10
    changed = jax.tree.map(
        lambda x: (
            jnp.where(beyond.reshape(-1, *[1] * (x.ndim - 1)), jnp.asarray(junk, x.dtype), x)
            if jnp.issubdtype(x.dtype, jnp.floating)
            else x
        ),
        rows,
    )
    assert_same(update(rows, 10), update(changed, 10))


def test_an_update_is_a_function_of_its_key(policies, update):
    rows = rows_of(policies["softmax"])
    assert_same(update(rows, 10), update(rows, 10))
    a, b = update(rows, 10)[0].body.layers[0].weight, update(rows, 10, 1)[0].body.layers[0].weight
    assert not np.array_equal(a, b)


def test_a_count_of_zero_changes_nothing(policies, update):
    policy, _, metrics = update(rows_of(policies["softmax"]), 0)
    assert_same(policy, policies["softmax"])
    assert all(np.isfinite(x) for x in metrics.values())


def test_fewer_rows_than_a_minibatch_are_one_minibatch_of_their_mean(policies, update):
    """Four rows in minibatches of 6, of 23 rows, as against four rows in minibatches of 4."""
    rows = rows_of(policies["softmax"])
    few = jax.tree.map(lambda x: x[:4], rows)
    ppo, policy = PPO(minibatch=4, passes=2), policies["softmax"]
    alone = jax.jit(ppo.update)(jax.random.key(7), policy, ppo.init(policy), few)
    together = update(rows, 4)
    assert_close(together[0], alone[0], rtol=1e-4, atol=1e-6)
    assert_close(together[2], alone[2], rtol=1e-3, atol=1e-6)


def test_advantages_are_normalised_over_the_rows_used():
    x = jnp.array([1.0, 2.0, 6.0, jnp.inf])
    z = standardise(x, jnp.arange(4) < 3)[:3]
    np.testing.assert_allclose(z, (np.array([1, 2, 6]) - 3) / np.std([1, 2, 6]), rtol=1e-5)


def test_equal_advantages_are_normalised_to_zero():
    np.testing.assert_array_equal(standardise(jnp.full(4, 7.0), jnp.ones(4, bool)), np.zeros(4))


@pytest.mark.parametrize("target_scale", [0.1, 30.0])
def test_a_scaled_error_is_one_over_the_variance_of_its_targets_if_that_is_above_one(
    policies, target_scale
):
    rows = rows_of(policies["softmax"], target_scale=target_scale)
    unit = max(np.var(np.asarray(rows.target, np.float64)), 1.0)
    assert (unit > 1) == (target_scale > 1)
    scaled = run_of(policies["softmax"], rows, scale_targets=True)
    by_hand = run_of(policies["softmax"], rows, value_weight=0.5 / unit)
    assert_close(scaled[0], by_hand[0], rtol=1e-3, atol=1e-4)
    plain = run_of(policies["softmax"], rows)
    moved = distance(plain[0], scaled[0])
    assert moved > 0.05 if target_scale > 1 else moved < 1e-3


@pytest.mark.parametrize(
    ("longest", "gamma"), [(None, 0.99), (10, 0.99), (625, 0.992), (1000, 0.995), (10**6, 0.995)]
)
def test_a_discount_that_is_left_open_follows_from_the_longest_episode(longest, gamma):
    assert PPO(gamma=None).resolve(longest).gamma == pytest.approx(gamma)
    assert PPO(gamma=0.9).resolve(longest).gamma == 0.9


# How far an update goes


def run_of(policy, rows, **settings):
    ppo = PPO(learning_rate=2e-2, optimizer="adam", minibatch=6, passes=8, **settings)
    return jax.jit(ppo.update)(jax.random.key(0), policy, ppo.init(policy), rows)


def distance(a, b):
    return np.sqrt(sum(np.sum((x - y) ** 2) for x, y in zip(*map(jax.tree.leaves, (a, b)))))  # noqa: B905


def steps_of(memory):
    """Adam counts its steps."""
    return int(next(x for x in jax.tree.leaves(memory) if x.dtype == jnp.int32 and x.ndim == 0))


@pytest.mark.parametrize("kind", ["gaussian", "softmax"])
def test_an_update_ends_when_too_many_ratios_have_left_the_clip(policies, kind):
    policy = policies[kind]
    rows = rows_of(policy)
    whole, memory, _ = run_of(policy, rows)
    assert steps_of(memory) == 8 * 4  # 23 rows in minibatches of 6
    moved, steps = [distance(whole, policy)], [32]
    for limit in (0.3, 1e-3):
        found, memory, last = run_of(policy, rows, max_clipped=limit)
        # It was this step whose minibatch was beyond the limit, and no other came after it.
        assert last["clipped"] > limit
        moved.append(distance(found, policy))
        steps.append(steps_of(memory))
    assert steps[0] > steps[1] >= steps[2] > 1
    assert moved[0] > moved[1] >= moved[2] > 0


def test_a_limit_that_is_never_reached_changes_nothing_bit_for_bit(policies):
    policy = policies["gaussian"]
    rows = rows_of(policy)
    whole = run_of(policy, rows, max_clipped=1.0)
    assert 0 < whole[2]["clipped"] < 0.999
    assert_same(run_of(policy, rows, max_clipped=0.999), whole)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 9, 100])
def test_once_stopped_no_more_steps_are_taken_in_this_pass_or_any_other(most):
    """And those before it are the first steps of passes that are not stopped."""

    def step(carry, rows, weight):
        count, seen = carry
        return count + 1, seen.at[count].set(jnp.where(weight > 0, rows, -1))

    def go(stop):
        start = jnp.zeros((), jnp.int32), jnp.full((12, 6), -2)
        count = jnp.asarray(NUM_ROWS)
        return shuffled_passes(jax.random.key(0), step, start, NUM_ROWS, count, 6, 3, stop)

    number, seen = go(lambda carry: carry[0] >= most)
    all_steps, whole = go(None)
    assert (int(number), int(all_steps)) == (min(most, 12), 12)
    np.testing.assert_array_equal(seen[:most], whole[:most])
    assert np.all(seen[most:] == -2)


# Settings


def test_the_defaults_are_the_papers():
    assert PPO() == PPO(
        learning_rate=5e-4,
        optimizer="rmsprop",
        clip=0.2,
        entropy=0.01,
        value_weight=0.5,
        scale_targets=False,
        minibatch=160,
        passes=5,
        max_clipped=1.0,
        max_gradient_norm=5.0,
        gamma=0.99,
        gae_lambda=0.95,
        value_target="return",
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "above 0"),
        ("optimizer", "sgd", "one of 'rmsprop', 'adam'"),
        ("clip", 0.0, "above 0"),
        ("entropy", -0.1, "0 or more"),
        ("value_weight", -1.0, "0 or more"),
        ("max_clipped", 0.0, "in (0, 1]"),
        ("max_clipped", 1.1, "in (0, 1]"),
        ("minibatch", 0, "1 or more"),
        ("passes", 0, "1 or more"),
        ("max_gradient_norm", 0.0, "above 0"),
        ("gamma", 1.0, "in [0, 1), or left out"),
        ("gamma", -0.1, "in [0, 1), or left out"),
        ("gae_lambda", 1.1, "in [0, 1]"),
        ("value_target", "td", "one of 'return', 'gae'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_setting_is_refused_with_its_name_its_value_and_what_is_allowed(name, value, allowed):
    with pytest.raises(ValueError) as error:
        PPO(**{name: value})
    assert str(error.value) == f"update.{name} is {value!r}; it must be {allowed}."
