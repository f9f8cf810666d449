"""Training steps on JAX: of modules of PyTorch that give a loss, held against PyTorch's steps."""
import jax
import jax.numpy as jnp

import jax_graph
import models
from serve import Absent

# How far a step may be from PyTorch's: its loss, and what it changes, each relative to PyTorch's.
# ResNet-50's gradients in 32 bits are 2.4e-2 off those in 64 with PyTorch, and 2.7e-2 with JAX.
FARTHEST_LOSS, FARTHEST_CHANGE = 1e-3, 5e-2


def zeros(parameters):
    return jax.tree.map(jnp.zeros_like, parameters)


class Sgd:
    """That of models.step_of."""

    start = staticmethod(zeros)

    @staticmethod
    def update(parameters, gradients, moments):
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradients)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, parameters, moments), moments


class ClippedAdamW:
    """That of char_gpt.step_of, with the norm of all gradients at most 1."""

    @staticmethod
    def start(parameters):
        return 0.0, zeros(parameters), zeros(parameters)

    @staticmethod
    def update(parameters, gradients, kept):
        steps, first, second = kept
        norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(gradients)))
        clip = jnp.minimum(1, 1 / (norm + 1e-6))
        gradients = jax.tree.map(lambda g: g * clip, gradients)
        steps = steps + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)

        def updated(p, m, v):
            change = m / (1 - 0.9 ** steps) / (jnp.sqrt(v / (1 - 0.99 ** steps)) + 1e-8)
            return p - 1e-3 * (change + 0.1 * p)

        return jax.tree.map(updated, parameters, first, second), (steps, first, second)


def length(arrays):
    return float(jnp.sqrt(sum((x * x).sum() for x in arrays)))


def step_of(module, inputs, optimizer, torch_step):
    """A step that returns its loss as a number, and a check that raises Absent where it is another
    one than torch_step, which trains the same module. The check begins anew."""
    jax.clear_caches()  # of the case before
    models.make_distinct(module)
    graph = jax_graph.Graph(module, inputs)
    given = [jax_graph.arrays(x) for x in inputs]

    def whole(state, key, given, chance):
        parameters, others, kept = state
        key, drawn = jax.random.split(key)
        (loss, others), gradients = jax.value_and_grad(graph, has_aux=True)(
            parameters, others, given, drawn, chance)
        parameters, kept = optimizer.update(parameters, gradients, kept)
        return loss, (parameters, others, kept), key

    jitted = jax.jit(whole, donate_argnums=(0, 1))

    def start():
        parameters, others = graph.state(module)
        return (parameters, others, optimizer.start(parameters)), jax.random.key(1)

    state, key = start()

    def step():
        nonlocal state, key
        loss, state, key = jitted(state, key, given, 1.0)
        return float(loss)

    def check():
        nonlocal state, key
        models.drop_nothing(module)
        before = graph.state(module)
        state = None  # large models are there often enough
        state, key = start()
        loss, state, key = jitted(state, key, given, 0.0)
        expected = torch_step().item()
        theirs = graph.state(module)
        if not abs(float(loss) - expected) <= FARTHEST_LOSS * abs(expected):
            raise Absent(f"its loss is {float(loss):.6g}, PyTorch's {expected:.6g}")
        for what, after, should, was in zip(("parameters", "statistics"), state, theirs, before):
            names = [name for name, x in should.items() if x.dtype == jnp.float32]
            wanted = length(should[name] - was[name] for name in names)
            far = length(after[name] - should[name] for name in names)
            if not far <= FARTHEST_CHANGE * wanted:
                raise Absent(f"what it changes in {what} is {far / wanted:.2g} off PyTorch's")

    return step, check
