"""Gradient steps with JAX: `jax_steps.py STEPS`. Its allocator is chosen by the environment."""

import sys

import common

STEPS = int(sys.argv[1])
try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    common.skip("jax_steps", "JAX is not installed (%s)" % error)
common.await_turn()
try:
    jax.devices("gpu")
except RuntimeError as error:
    common.skip("jax_steps", "JAX finds no GPU (%s)" % str(error).splitlines()[0])


def loss(weights, x, y):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean((x - y) ** 2)


@jax.jit
def step(weights, x, y):
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return value, [w - 0.1 * slope for w, slope in zip(weights, slopes)]


keys = jax.random.split(jax.random.PRNGKey(1), 6)
weights = [jax.random.normal(key, (256, 256)) / 16 for key in keys[:4]]
x = jax.random.normal(keys[4], (512, 256))
y = jnp.tanh(jax.random.normal(keys[5], (512, 256)))
clock = common.Clock()
losses = []
for number in range(STEPS):
    if number == 3:
        clock.begin()
    value, weights = step(weights, x, y)
    losses.append(float(value))
clock.begin()
clock.report()
common.fact("steps", STEPS)
common.fact("result: first loss", losses[0])
common.fact("result: last loss", losses[-1])
common.fact("version", jax.__version__)
common.finish("jax_steps")
