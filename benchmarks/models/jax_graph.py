"""Networks of PyTorch on JAX: what torch.export records of a module becomes a function of JAX's
arrays, an op of jax.numpy or jax.lax for each op of ATen that the models have.

It is what a user of JAX would write: images have their channels last, weights of convolutions the
layout that jax.lax wants beside that (for one image, ResNet-50 takes two thirds of the time), and
attention is two products around a softmax.
"""
import math
import os

# XLA's threads; it reads this once, when it makes its client.
os.environ.setdefault("NPROC", os.environ.get("WEFT_NUM_THREADS", "2"))

import jax
import jax.numpy as jnp
import torch
from jax import lax

aten = torch.ops.aten


def pair(sizes):
    return tuple(sizes) * 2 if len(sizes) == 1 else tuple(sizes)


class Image:
    """An array of samples of images with channels last, which PyTorch's graph takes for one with
    channels first: XLA's convolutions want them so, and transposed around each otherwise."""

    TO_LAST, FROM_LAST, AXES = [0, 2, 3, 1], [0, 3, 1, 2], [0, 3, 1, 2]

    def __init__(self, last):
        self.last = last

    @staticmethod
    def of(value):
        """Of an array beside an image; lower ranks get dimensions of 1 in front."""
        if isinstance(value, Image) or not hasattr(value, "ndim") or value.ndim == 0:
            return value
        return Image(value.reshape((1,) * (4 - value.ndim) + value.shape).transpose(Image.TO_LAST))

    def plain(self):
        return self.last.transpose(self.FROM_LAST)


def plain(value):
    return value.plain() if isinstance(value, Image) else value


def conv2d(x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    y = lax.conv_general_dilated(x, weight, pair(stride), [(p, p) for p in pair(padding)],
                                 rhs_dilation=pair(dilation), feature_group_count=groups,
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y if bias is None else y + bias


def conv_transpose2d(x, weight, bias=None, stride=(1,), padding=(0,), output_padding=(0,),
                     groups=1, dilation=(1,)):
    """For what the U-Net has: windows that do not overlap, without padding."""
    if (pair(stride) != weight.shape[2:] or any(pair(padding) + pair(output_padding))
            or groups != 1 or pair(dilation) != (1, 1)):
        raise NotImplementedError("a transposed convolution with overlap or padding")
    n, rows, columns, _ = x.shape
    y = jnp.einsum("nhwi,iopq->nhpwqo", x, weight)
    y = y.reshape(n, rows * weight.shape[2], columns * weight.shape[3], weight.shape[1])
    return y if bias is None else y + bias


def windows(x, initial, combine, kernel, stride, padding, ceil_mode):
    kernel = pair(kernel)
    stride, padding = pair(stride or kernel), pair(padding)
    edges = []
    for size, k, s, p in zip(x.shape[1:3], kernel, stride, padding):
        short = -(size + 2 * p - k) % s if ceil_mode else 0
        edges.append((p, p + short))
    return lax.reduce_window(x, initial, combine, (1, *kernel, 1), (1, *stride, 1),
                             [(0, 0), *edges, (0, 0)])


def max_pool2d(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    if pair(dilation) != (1, 1):
        raise NotImplementedError("a pooling with dilation")
    return windows(x, -jnp.inf, lax.max, kernel, stride, padding, ceil_mode)


def avg_pool2d(x, kernel, stride=(), padding=(0,), ceil_mode=False):
    if ceil_mode or any(padding):
        raise NotImplementedError("an average of windows with edges")
    return windows(x, 0.0, lax.add, kernel, stride, padding, False) / math.prod(pair(kernel))


def adaptive_avg_pool2d(x, size):
    kernel = [have // want for have, want in zip(x.shape[1:3], size)]
    if any(have % want for have, want in zip(x.shape[1:3], size)):
        raise NotImplementedError("an adaptive pooling with windows of several sizes")
    return x if kernel == [1, 1] else avg_pool2d(x, kernel)


def batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon, _):
    """With the statistics that the module has from then on."""
    new_mean, new_variance = mean, variance
    if training:
        mean = x.mean((0, 1, 2))
        variance = (x * x).mean((0, 1, 2)) - mean * mean
        count = x.size // x.shape[3]
        new_mean = (1 - momentum) * new_mean + momentum * mean
        new_variance = (1 - momentum) * new_variance + momentum * variance * count / (count - 1)
    scale = weight * lax.rsqrt(variance + epsilon)
    return x * scale + (bias - mean * scale), new_mean, new_variance


def layer_norm(x, shape, weight=None, bias=None, epsilon=1e-5, _=True):
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    y = centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + epsilon)
    return y * weight + bias


def attention(q, k, v, mask=None, dropout=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout or enable_gqa:
        raise NotImplementedError("an attention with dropout or grouped queries")
    scores = jnp.einsum("...qd,...kd->...qk", q, k) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        mask = jnp.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    return jax.nn.softmax(scores, -1) @ v


def cross_entropy(x, target, weight=None, reduction=1, *_):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], 1).mean()


def linear(x, weight, bias=None):
    # `x @ weight.T` transposes the weight in each run, where x is a row.
    y = jnp.einsum("...i,oi->...o", x, weight)
    return y if bias is None else y + bias


def drop(x, rate, training, key, chance):
    if not training or rate == 0:
        return x
    rate *= chance
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def split(x, sizes, axis=0):
    return jnp.split(x, list(range(sizes, x.shape[axis], sizes)), axis)


def arrays(value):
    """PyTorch's tensors and types as JAX has them; integers have 32 bits."""
    if isinstance(value, torch.Tensor):
        return jnp.array(value.detach().numpy(), copy=True)
    if isinstance(value, torch.dtype):
        return {torch.int64: jnp.int32, torch.float32: jnp.float32, torch.bool: bool}[value]
    return value


def made(function):
    """Of what makes a tensor: shape, type and no more."""
    return lambda *given, dtype=None, **_: function(*given, dtype=arrays(dtype or torch.float32))


# Of plain arrays.
OPS = {
    aten.addmm: lambda bias, a, b: a @ b + bias,
    aten.alias: lambda x: x,
    aten._assert_tensor_metadata: lambda *_, **__: None,
    aten.arange: lambda *given, **_: jnp.arange(*given),
    aten.contiguous: lambda x: x,
    aten.cross_entropy_loss: cross_entropy,
    aten.embedding: lambda weight, ids, *_: weight[ids],
    aten.empty: made(jnp.empty),
    aten.expand: lambda x, shape: jnp.broadcast_to(
        x, [have if want == -1 else want
            for have, want in zip((1,) * (len(shape) - x.ndim) + x.shape, shape)]),
    aten.flatten: lambda x, start=0, end=-1: x.reshape(x.shape[:start] + (-1,) + x.shape[end:][1:]),
    aten.gather: lambda x, axis, index: jnp.take_along_axis(x, index, axis),
    aten.ge: jnp.greater_equal,
    aten.layer_norm: layer_norm,
    aten.le: jnp.less_equal,
    aten.linear: linear,
    aten.mean: lambda x, axes=None, keep=False: x.mean(axes and tuple(axes), keepdims=keep),
    aten.pad: lambda x, edges, *_: jnp.pad(
        x, [(0, 0)] * (x.ndim - len(edges) // 2) + list(zip(edges[::2], edges[1::2]))[::-1]),
    aten.pow: jnp.power,
    aten.reshape: jnp.reshape,
    aten.scaled_dot_product_attention: attention,
    aten.select: lambda x, axis, index: lax.index_in_dim(x, index, axis, keepdims=False),
    aten.slice: lambda x, axis=0, start=None, end=None, step=1: x[
        (slice(None),) * (axis % x.ndim) + (slice(start, end, step),)],
    aten.split: split,
    aten.squeeze: jnp.squeeze,
    aten.to: lambda x, dtype=None, **_: x if dtype is None else x.astype(arrays(dtype)),
    aten.transpose: jnp.swapaxes,
    aten.unbind: lambda x, axis=0: list(jnp.moveaxis(x, axis, 0)),
    aten.unflatten: lambda x, axis, sizes: x.reshape(
        x.shape[:axis % x.ndim] + tuple(sizes) + x.shape[axis % x.ndim + 1:]),
    aten.unsqueeze: jnp.expand_dims,
    aten.view: jnp.reshape,
    aten.zeros: made(jnp.zeros),
}


def of_image(function):
    """Of a function of an image, and of what is none."""
    return lambda image, *given: Image(function(Image.of(image).last, *given))


def pointwise(function):
    def call(*given, **keywords):
        if not any(isinstance(each, Image) for each in given):
            return function(*given, **keywords)
        given = [Image.of(each) for each in given]
        return Image(function(*[getattr(each, "last", each) for each in given], **keywords))
    return call


def concatenate(parts, axis=0):
    if not any(isinstance(each, Image) for each in parts):
        return jnp.concatenate(parts, axis)
    return Image(jnp.concatenate([Image.of(each).last for each in parts], Image.AXES[axis]))


def chunk(x, count, axis=0):
    if not isinstance(x, Image):
        return jnp.split(x, count, axis)
    return [Image(part) for part in jnp.split(x.last, count, Image.AXES[axis])]


def permute(x, axes):
    if isinstance(x, Image):
        return x.last if list(axes) == Image.TO_LAST else x.plain().transpose(axes)
    return Image(x) if list(axes) == Image.FROM_LAST else x.transpose(axes)


# Of images too.
OPS_OF_IMAGES = {
    aten.adaptive_avg_pool2d: of_image(adaptive_avg_pool2d),
    aten.add: pointwise(jnp.add),
    aten.avg_pool2d: of_image(avg_pool2d),
    aten.cat: concatenate,
    aten.chunk: chunk,
    aten.conv2d: of_image(conv2d),
    aten.conv_transpose2d: of_image(conv_transpose2d),
    aten.div: pointwise(jnp.divide),
    aten.exp: pointwise(jnp.exp),
    aten.gelu: pointwise(lambda x, approximate="none": jax.nn.gelu(x, approximate == "tanh")),
    aten.hardsigmoid: pointwise(jax.nn.hard_sigmoid),
    aten.hardswish: pointwise(jax.nn.hard_swish),
    aten.hardtanh: pointwise(lambda x, low=-1, high=1: jnp.clip(x, low, high)),
    aten.max_pool2d: of_image(max_pool2d),
    aten.mul: pointwise(jnp.multiply),
    aten.permute: permute,
    aten.relu: pointwise(jax.nn.relu),
    aten.sigmoid: pointwise(jax.nn.sigmoid),
    aten.silu: pointwise(jax.nn.silu),
    aten.tanh: pointwise(jnp.tanh),
}


class Graph:
    """A module as it is called with these inputs, in its mode: training or not."""

    def __init__(self, module, inputs):
        program = torch.export.export(module, tuple(inputs), strict=False)
        self.nodes = list(program.graph.nodes)
        signature = program.graph_signature
        # A parameter that has several names goes by the first one.
        first, only = {}, {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            only[name] = first.setdefault(id(parameter), name)
        # What each placeholder stands for: a parameter, a buffer, a constant; else an input.
        self.names = {input: only[name] for input, name in signature.inputs_to_parameters.items()}
        self.parameters = set(self.names.values())
        self.names |= {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
        self.filters = {self.names[node.args[1].name] for node in self.nodes
                        if node.target == aten.conv2d.default}
        self.constants = program.constants

    def state(self, module):
        """Parameters, and what else a module like this one holds, as arrays by name: copies."""
        held = {**module.state_dict(), **dict(module.named_buffers()), **self.constants}
        others = {name: arrays(held[name]) for name in set(self.names.values())}
        for name in self.filters:
            others[name] = others[name].transpose(2, 3, 1, 0)
        return {name: others.pop(name) for name in self.parameters}, others

    def __call__(self, parameters, others, inputs, random=None, chance=1):
        """The first result, and `others` as they are from then on. random: a key, for a module in
        training; chance: 0 where nothing is to be dropped by it."""
        given, inputs = {**parameters, **others}, iter(inputs)
        # A node's value is that of the node whose value an op in place changes.
        whose, values = {}, {}
        for node in self.nodes:
            whose[node] = node
            if node.op == "placeholder":
                name = self.names.get(node.name)
                values[node] = next(inputs) if name is None else given[name]
                continue
            arguments, keywords = torch.fx.map_arg((node.args, dict(node.kwargs)),
                                                   lambda each: values[whose[each]])
            if node.op == "output":
                after = {self.names[each.name]: values[each] for each in self.nodes
                         if self.names.get(each.name) in others}
                return plain(arguments[0][-1]), after
            if not isinstance(node.target, torch._ops.OpOverload):
                values[node] = node.target(*arguments)  # Python's own: an item of several results
                continue
            op = node.target.overloadpacket
            if op.__name__.endswith("_"):
                op = getattr(aten, op.__name__[:-1])
                whose[node] = whose[node.args[0]]
            if op in (aten.dropout, aten.bernoulli):
                random, key = (None, None) if random is None else jax.random.split(random)
            if op == aten.dropout:
                result = pointwise(drop)(*arguments, key, chance)
            elif op == aten.bernoulli:
                # Divided by the rate later, whose noise is the rate where nothing is dropped.
                noise, rate = arguments
                kept = jax.random.bernoulli(key, 1 - (1 - rate) * chance, noise.shape)
                result = kept * (1 - (1 - rate) * (1 - chance))
            elif op == aten.batch_norm:
                result, *statistics = batch_norm(Image.of(arguments[0]).last, *arguments[1:])
                result = Image(result)
                for statistic, new in zip(node.args[3:5], statistics):
                    values[whose[statistic]] = new
            elif op in OPS_OF_IMAGES:
                result = OPS_OF_IMAGES[op](*arguments, **keywords)
            elif op in OPS:
                result = OPS[op](*map(plain, arguments), **keywords)
            else:
                raise NotImplementedError(f"{node.target} is not written for JAX")
            values[whose[node]] = result
