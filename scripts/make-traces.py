#!/usr/bin/env python3
"""Makes the traces that test/workloads/README.md describes: from the tensor shapes of known models, and of programs that
hardly ask for a size twice. It unpacks the one that was recorded.

    make-traces.py FOLDER

A trace has a row per request, "op,id,size,stream": "A,id,size,stream" allocates, "F,id,0,stream" frees. Ids are
never used twice. The requests of models are those of an eager framework that asks for every tensor separately: an
operator allocates its output and its workspace, and a tensor is freed when its last user is done. The files are the same
wherever they are made: what is drawn comes from a generator of this script's own, in whole numbers.
"""

import lzma
import os
import sys

BF16, FP32, INT64, BOOL = 2, 4, 8, 1


class Trace:
    """Rows in order. A tensor is its id; freeing one twice is a mistake in this script."""

    def __init__(self):
        self.rows = ["op,id,size,stream"]
        self.live = set()
        self.count = 0
        self.stream = 0

    def alloc(self, item_bytes, *shape):
        size = item_bytes
        for extent in shape:
            size *= extent
        tensor = self.count
        self.count += 1
        self.live.add(tensor)
        self.rows.append("A,%d,%d,%d" % (tensor, size, self.stream))
        return tensor

    def free(self, *tensors):
        for tensor in tensors:
            self.live.remove(tensor)
            self.rows.append("F,%d,0,%d" % (tensor, self.stream))

    def text(self):
        return "\n".join(self.rows) + "\n"


# ---------------------------------------------------------------------------------------------------------------------
# One training step of GPT-2 medium with mixed precision
# ---------------------------------------------------------------------------------------------------------------------

GPT2_LAYERS = 24
GPT2_WIDTH = 1024
GPT2_HEADS = 16
GPT2_SEQUENCE = 1024
GPT2_VOCABULARY = 50257
GPT2_BATCH = 1
GPT2_WORKSPACE = 8519680  # of the matrix product library, held from its first use

# Parameters of one layer; linear weights are [in, out]
GPT2_LAYER_PARAMETERS = (
    (GPT2_WIDTH,),  # ln_1 weight
    (GPT2_WIDTH,),  # ln_1 bias
    (GPT2_WIDTH, 3 * GPT2_WIDTH),  # attention: query, key and value
    (3 * GPT2_WIDTH,),
    (GPT2_WIDTH, GPT2_WIDTH),  # attention: projection
    (GPT2_WIDTH,),
    (GPT2_WIDTH,),  # ln_2 weight
    (GPT2_WIDTH,),  # ln_2 bias
    (GPT2_WIDTH, 4 * GPT2_WIDTH),  # feed-forward: up
    (4 * GPT2_WIDTH,),
    (4 * GPT2_WIDTH, GPT2_WIDTH),  # feed-forward: down
    (GPT2_WIDTH,),
)
GPT2_PARAMETERS = (
    [(GPT2_VOCABULARY, GPT2_WIDTH), (GPT2_SEQUENCE, GPT2_WIDTH)]  # token (also the output layer's) and position
    + [shape for _ in range(GPT2_LAYERS) for shape in GPT2_LAYER_PARAMETERS]
    + [(GPT2_WIDTH,), (GPT2_WIDTH,)]  # the last normalization
)


class Gpt2Training:
    """Parameters, gradients and Adam's moments are fp32. Matrix products run in bf16 on copies of the weights, which
    are made at first use and kept until the end of the forward pass, normalizations and softmax in fp32."""

    B, S, D, H, V = GPT2_BATCH, GPT2_SEQUENCE, GPT2_WIDTH, GPT2_HEADS, GPT2_VOCABULARY

    def __init__(self):
        self.t = Trace()
        self.casts = []

    def cast(self, *shape):
        self.casts.append(self.t.alloc(BF16, *shape))

    def tokens(self, item_bytes, width):
        """A tensor of [batch, sequence, width]."""
        return self.t.alloc(item_bytes, self.B, self.S, width)

    def scores(self, item_bytes):
        """A tensor of [batch, heads, sequence, sequence]."""
        return self.t.alloc(item_bytes, self.B, self.H, self.S, self.S)

    def normalization(self):
        """fp32 output, mean and reciprocal deviation per token, and the bf16 copy that the next product reads."""
        return [self.tokens(FP32, self.D), self.tokens(FP32, 1), self.tokens(FP32, 1), self.tokens(BF16, self.D)]

    def layer_forward(self):
        """Returns the activations that the backward pass needs, in the order of their making."""
        t, kept = self.t, []
        kept += self.normalization()
        self.cast(self.D, 3 * self.D)
        self.cast(3 * self.D)
        kept.append(self.tokens(BF16, 3 * self.D))  # query, key and value
        heads = [self.tokens(BF16, self.D) for _ in range(3)]  # made contiguous for the batched product
        raw = self.scores(BF16)
        scaled = self.scores(BF16)
        t.free(raw)
        mask = t.alloc(BOOL, 1, 1, self.S, self.S)
        masked = self.scores(BF16)
        t.free(scaled, mask)
        softmax = self.scores(FP32)
        t.free(masked)
        weights = self.scores(BF16)
        dropout_mask = self.scores(BOOL)
        dropped = self.scores(BF16)
        attended = self.tokens(BF16, self.D)  # [batch, heads, sequence, 64]
        kept += heads + [softmax, weights, dropout_mask, dropped]
        merged = self.tokens(BF16, self.D)
        t.free(attended)
        kept.append(merged)
        self.cast(self.D, self.D)
        self.cast(self.D)
        projected = self.tokens(BF16, self.D)
        kept.append(self.tokens(BOOL, self.D))  # dropout mask
        dropped = self.tokens(BF16, self.D)
        t.free(projected)
        kept.append(self.tokens(FP32, self.D))  # residual sum
        t.free(dropped)

        kept += self.normalization()
        self.cast(self.D, 4 * self.D)
        self.cast(4 * self.D)
        kept.append(self.tokens(BF16, 4 * self.D))
        kept += self.gelu_forward()
        self.cast(4 * self.D, self.D)
        self.cast(self.D)
        projected = self.tokens(BF16, self.D)
        kept.append(self.tokens(BOOL, self.D))
        dropped = self.tokens(BF16, self.D)
        t.free(projected)
        kept.append(self.tokens(FP32, self.D))
        t.free(dropped)
        return kept

    def gelu_forward(self):
        """0.5 * x * (1 + tanh(c * (x + 0.044715 * x^3))), an operator at a time."""
        t = self.t
        half = self.tokens(BF16, 4 * self.D)
        cube = self.tokens(FP32, 4 * self.D)
        scaled = self.tokens(FP32, 4 * self.D)
        inner = self.tokens(FP32, 4 * self.D)
        t.free(scaled)
        outer = self.tokens(FP32, 4 * self.D)
        t.free(inner)
        tanh = self.tokens(FP32, 4 * self.D)
        t.free(outer)
        shifted = self.tokens(FP32, 4 * self.D)
        product = self.tokens(FP32, 4 * self.D)
        result = self.tokens(BF16, 4 * self.D)
        t.free(product)
        return [half, cube, tanh, shifted, result]

    def linear_backward(self, grad, rows, columns):
        """Gradients of a product's bias, weight and input; the first two come in bf16 and are cast and stay."""
        t = self.t
        for shape in ((columns,), (rows, columns)):
            low = t.alloc(BF16, *shape)
            self.grads.append(t.alloc(FP32, *shape))
            t.free(low)
        result = self.tokens(BF16, rows)
        t.free(grad)
        return result

    def normalization_backward(self, grad, residual, kept):
        """`kept` are the four tensors of normalization(); returns the gradient that goes on along the residual."""
        t = self.t
        t.free(kept[3])
        full = self.tokens(FP32, self.D)
        t.free(grad)
        result = self.tokens(FP32, self.D)
        partial = [t.alloc(FP32, 32, self.D) for _ in range(2)]  # per-block sums of weight and bias
        self.grads += [t.alloc(FP32, self.D), t.alloc(FP32, self.D)]
        t.free(*partial)
        t.free(full)
        total = self.tokens(FP32, self.D)
        t.free(result, residual, kept[0], kept[1], kept[2])
        return total

    def layer_backward(self, kept, grad):
        """Frees the activations in the reverse order of their making. `grad` is fp32 and goes on."""
        t = self.t
        n1, n2 = kept[0:4], kept[15:19]
        qkv, q, k, v, softmax, weights, drop_a, dropped, merged, mask_a, residual = kept[4:15]
        up, half, cube, tanh, shifted, gelu, mask_b, output = kept[19:]
        t.free(output)
        low = self.tokens(BF16, self.D)
        masked = self.tokens(BF16, self.D)
        t.free(low, mask_b)
        back = self.linear_backward(masked, 4 * self.D, self.D)
        t.free(gelu)
        back = self.gelu_backward(back, half, cube, tanh, shifted)
        t.free(up)
        back = self.linear_backward(back, self.D, 4 * self.D)
        grad = self.normalization_backward(back, grad, n2)

        t.free(residual)
        low = self.tokens(BF16, self.D)
        masked = self.tokens(BF16, self.D)
        t.free(low, mask_a)
        back = self.linear_backward(masked, self.D, self.D)
        t.free(merged)
        back_v = self.tokens(BF16, self.D)
        back_w = self.scores(BF16)
        t.free(dropped, back)
        back_d = self.scores(BF16)
        t.free(back_w, drop_a)
        back_f = self.scores(FP32)
        t.free(back_d, weights)
        back_s = self.scores(FP32)
        t.free(back_f, softmax)
        back_b = self.scores(BF16)
        t.free(back_s)
        back_m = self.scores(BF16)
        t.free(back_b)
        back_q, back_k = self.tokens(BF16, self.D), self.tokens(BF16, self.D)
        t.free(back_m, v, k, q)
        joined = self.tokens(BF16, 3 * self.D)
        t.free(back_q, back_k, back_v, qkv)
        back = self.linear_backward(joined, self.D, 3 * self.D)
        return self.normalization_backward(back, grad, n1)

    def gelu_backward(self, grad, half, cube, tanh, shifted):
        t = self.t
        wide = self.tokens(FP32, 4 * self.D)
        by_half = self.tokens(FP32, 4 * self.D)
        t.free(shifted)
        by_tanh = self.tokens(FP32, 4 * self.D)
        t.free(wide, half)
        inner = self.tokens(FP32, 4 * self.D)
        t.free(by_tanh, tanh)
        power = self.tokens(FP32, 4 * self.D)
        by_cube = self.tokens(FP32, 4 * self.D)
        t.free(power, cube)
        total = self.tokens(FP32, 4 * self.D)
        t.free(inner, by_cube, by_half)
        result = self.tokens(BF16, 4 * self.D)
        t.free(total, grad)
        return result

    def forward(self):
        t = self.t
        self.workspace = t.alloc(1, GPT2_WORKSPACE)
        self.inputs = [t.alloc(INT64, self.B, self.S), t.alloc(INT64, self.B, self.S)]
        positions = t.alloc(INT64, self.S)
        token, position = self.tokens(FP32, self.D), t.alloc(FP32, self.S, self.D)
        total = self.tokens(FP32, self.D)
        t.free(token, position)
        self.first = [positions, self.tokens(BOOL, self.D), self.tokens(FP32, self.D)]
        t.free(total)
        self.layers = [self.layer_forward() for _ in range(GPT2_LAYERS)]
        self.last = self.normalization()
        self.cast(self.V, self.D)
        logits = t.alloc(BF16, self.B, self.S, self.V)
        wide = t.alloc(FP32, self.B, self.S, self.V)
        t.free(logits)
        shifted = t.alloc(FP32, self.B, self.S - 1, self.V)
        t.free(wide)
        self.log_softmax = t.alloc(FP32, self.B, self.S - 1, self.V)
        self.loss = [t.alloc(FP32, 1), t.alloc(FP32, 1)]
        t.free(shifted)
        t.free(*self.casts)  # the backward pass casts again

    def backward(self):
        t = self.t
        self.grads = []
        seed = t.alloc(FP32, 1)
        picked = t.alloc(FP32, self.B, self.S - 1, self.V)
        shifted = t.alloc(FP32, self.B, self.S - 1, self.V)
        t.free(picked, self.log_softmax, seed)
        wide = t.alloc(FP32, self.B, self.S, self.V)
        t.free(shifted)
        low = t.alloc(BF16, self.B, self.S, self.V)
        t.free(wide)
        weight = t.alloc(BF16, self.V, self.D)
        back = self.tokens(BF16, self.D)
        t.free(weight)
        low_grad = t.alloc(BF16, self.V, self.D)
        t.free(low)
        self.grads.append(t.alloc(FP32, self.V, self.D))
        t.free(low_grad)
        zero = self.tokens(FP32, self.D)
        grad = self.normalization_backward(back, zero, self.last)
        while self.layers:
            weights = [t.alloc(BF16, *shape) for shape in GPT2_LAYER_PARAMETERS if len(shape) == 2]
            grad = self.layer_backward(self.layers.pop(), grad)
            t.free(*weights)
        positions, mask, output = self.first
        t.free(output)
        masked = self.tokens(FP32, self.D)
        t.free(grad, mask)
        self.grads.append(t.alloc(FP32, self.S, self.D))
        sparse = t.alloc(FP32, self.V, self.D)  # gradient of the token table, added to the output layer's
        workspace = [t.alloc(INT64, self.B * self.S) for _ in range(4)]  # sorting the token indices
        t.free(*workspace)
        t.free(masked, sparse, positions, *self.inputs)

    def optimizer(self):
        """Adam, a tensor at a time; decay and both moments in place."""
        t = self.t
        for shape in GPT2_PARAMETERS:
            root = t.alloc(FP32, *shape)
            scaled = t.alloc(FP32, *shape)
            t.free(root)
            update = t.alloc(FP32, *shape)
            t.free(scaled)
            t.free(update)

    def clip(self):
        """The norm of all gradients: a number per tensor, then one of all."""
        t = self.t
        norms = []
        for shape in GPT2_PARAMETERS:
            norms.append(t.alloc(FP32, 1))
        stacked = t.alloc(FP32, len(norms))
        total = t.alloc(FP32, 1)
        factor = t.alloc(FP32, 1)
        t.free(stacked, *norms)
        t.free(total, factor)

    def make(self):
        t = self.t
        for shape in GPT2_PARAMETERS:
            t.alloc(FP32, *shape)
        for shape in GPT2_PARAMETERS:  # two moments
            t.alloc(FP32, *shape)
            t.alloc(FP32, *shape)
        self.forward()
        self.backward()
        assert len(self.grads) == len(GPT2_PARAMETERS), (len(self.grads), len(GPT2_PARAMETERS))
        self.clip()
        self.optimizer()
        t.free(*self.loss)
        # Parameters, moments, gradients and the workspace stay: a next step would find them
        assert len(t.live) == 4 * len(GPT2_PARAMETERS) + 1
        return t.text()


# ---------------------------------------------------------------------------------------------------------------------
# Decoding with a cache that grows by concatenation
# ---------------------------------------------------------------------------------------------------------------------

# The shapes of a model of 1.2 billion parameters with grouped queries: 16 layers, 2,048 wide, 32 query heads and 8
# heads of keys and values of 64 each, feed-forward 8,192 wide, 128,256 tokens; all in bf16.
LLM_LAYERS = 16
LLM_WIDTH = 2048
LLM_HEADS = 32
LLM_KV_HEADS = 8
LLM_HEAD = 64
LLM_INNER = 8192
LLM_VOCABULARY = 128256
LLM_BATCH = 4
LLM_PROMPT = 509
LLM_STEPS = 14

COMPUTE, CACHE = 0, 1  # streams


class LlmDecoding:
    """Stream 0 computes. Stream 1 appends to the cache, and samples: it frees logits that stream 0 allocated."""

    def __init__(self):
        self.t = Trace()

    def on(self, stream):
        self.t.stream = stream
        return self.t

    def attention(self, length, new):
        """`length` positions in the cache, of which `new` are computed now. Returns what the cache gets."""
        t = self.on(COMPUTE)
        tokens = (LLM_BATCH, new)
        normed = t.alloc(BF16, *tokens, LLM_WIDTH)
        scale = t.alloc(FP32, *tokens, 1)
        q = t.alloc(BF16, *tokens, LLM_HEADS * LLM_HEAD)
        k = t.alloc(BF16, *tokens, LLM_KV_HEADS * LLM_HEAD)
        v = t.alloc(BF16, *tokens, LLM_KV_HEADS * LLM_HEAD)
        t.free(scale, normed)
        rotated_q = t.alloc(BF16, *tokens, LLM_HEADS * LLM_HEAD)
        t.free(q)
        rotated_k = t.alloc(BF16, *tokens, LLM_KV_HEADS * LLM_HEAD)
        t.free(k)
        return rotated_q, rotated_k, v

    def append(self, old, length, parts):
        """A longer cache is allocated, the old one and the new parts are copied into it and freed."""
        t = self.on(CACHE)
        cache = []
        for index, part in enumerate(parts):
            cache.append(t.alloc(BF16, LLM_BATCH, LLM_KV_HEADS, length, LLM_HEAD))
            if old:
                t.free(old[index])
            t.free(part)
        return cache

    def attend(self, q, length, new):
        t = self.on(COMPUTE)
        shape = (LLM_BATCH, LLM_HEADS, new, length)
        expanded = [t.alloc(BF16, LLM_BATCH, LLM_HEADS, length, LLM_HEAD) for _ in range(2)]  # a copy per query head
        scores = t.alloc(BF16, *shape)
        t.free(expanded[0], q)
        softmax = t.alloc(FP32, *shape)
        t.free(scores)
        weights = t.alloc(BF16, *shape)
        t.free(softmax)
        attended = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        t.free(weights, expanded[1])
        projected = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        t.free(attended)
        return projected

    def feed_forward(self, hidden, projected, new):
        t = self.on(COMPUTE)
        residual = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        t.free(hidden, projected)
        normed = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        gate = t.alloc(BF16, LLM_BATCH, new, LLM_INNER)
        up = t.alloc(BF16, LLM_BATCH, new, LLM_INNER)
        t.free(normed)
        inner = t.alloc(BF16, LLM_BATCH, new, LLM_INNER)
        t.free(gate, up)
        down = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        t.free(inner)
        output = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
        t.free(down, residual)
        return output

    def sample(self, hidden, tokens):
        """Only the last position matters. The sampling runs beside the computation."""
        t = self.on(COMPUTE)
        normed = t.alloc(BF16, LLM_BATCH, 1, LLM_WIDTH)
        t.free(hidden)
        logits = t.alloc(BF16, LLM_BATCH, 1, LLM_VOCABULARY)
        t.free(normed)
        t = self.on(CACHE)
        wide = t.alloc(FP32, LLM_BATCH, LLM_VOCABULARY)
        t.free(logits)
        order = t.alloc(INT64, LLM_BATCH, LLM_VOCABULARY)
        ordered = t.alloc(FP32, LLM_BATCH, LLM_VOCABULARY)
        workspace = t.alloc(1, 3 * LLM_BATCH * LLM_VOCABULARY * INT64 + 4096)  # of the sort
        t.free(workspace, wide)
        total = t.alloc(FP32, LLM_BATCH, LLM_VOCABULARY)
        t.free(ordered)
        chosen = t.alloc(INT64, LLM_BATCH, 1)
        t.free(total, order)
        t.free(tokens)
        return chosen

    def weights(self):
        t = self.on(COMPUTE)
        t.alloc(BF16, LLM_VOCABULARY, LLM_WIDTH)  # embedding, also the output layer
        for _ in range(LLM_LAYERS):
            t.alloc(BF16, LLM_WIDTH, LLM_HEADS * LLM_HEAD)
            t.alloc(BF16, LLM_WIDTH, LLM_KV_HEADS * LLM_HEAD)
            t.alloc(BF16, LLM_WIDTH, LLM_KV_HEADS * LLM_HEAD)
            t.alloc(BF16, LLM_HEADS * LLM_HEAD, LLM_WIDTH)
            t.alloc(BF16, LLM_WIDTH, LLM_INNER)
            t.alloc(BF16, LLM_WIDTH, LLM_INNER)
            t.alloc(BF16, LLM_INNER, LLM_WIDTH)
            t.alloc(BF16, LLM_WIDTH)
            t.alloc(BF16, LLM_WIDTH)
        t.alloc(BF16, LLM_WIDTH)

    def make(self):
        self.weights()
        cache = [None] * LLM_LAYERS
        tokens = self.t.alloc(INT64, LLM_BATCH, LLM_PROMPT)
        length = 0
        for step in range(LLM_STEPS + 1):
            new = 1 if step else LLM_PROMPT  # the first step reads the prompt
            length += new
            t = self.on(COMPUTE)
            hidden = t.alloc(BF16, LLM_BATCH, new, LLM_WIDTH)
            for layer in range(LLM_LAYERS):
                q, k, v = self.attention(length, new)
                cache[layer] = self.append(cache[layer], length, (k, v))
                projected = self.attend(q, length, new)
                hidden = self.feed_forward(hidden, projected, new)
            tokens = self.sample(hidden, tokens)
        # Weights, the cache and the last tokens stay
        assert len(self.t.live) == 2 + 9 * LLM_LAYERS + 2 * LLM_LAYERS + 1
        return self.t.text()


# ---------------------------------------------------------------------------------------------------------------------
# Programs that hardly ask for a size twice
# ---------------------------------------------------------------------------------------------------------------------

MIB = 1 << 20
LARGEST = 600 * MIB


class Draws:
    """A linear congruential generator of 64 bits, with Knuth's constants for MMIX; its upper bits are used."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 32) * bound >> 32

    def between(self, least, most):
        return least + self.below(most - least + 1)


def uniform(draws):
    return draws.between(1, LARGEST)


def log_normal(draws):
    """The median is 8 MiB, a deviation a factor of five: twelve draws make a bell, in 1/65536 of a factor of two."""
    bell = sum(draws.below(65536) for _ in range(12)) - 6 * 65536
    power = 23 * 65536 + bell * 23 // 10
    return min(LARGEST, (65536 + power % 65536 << (power >> 16)) >> 16)


class Replacing:
    """Holds a number of blocks; each new one takes the place of one that is drawn, which is freed first."""

    def __init__(self, seed, count):
        self.t, self.draws, self.count, self.blocks = Trace(), Draws(seed), count, []

    def go_on(self, steps, size):
        for _ in range(steps):
            if len(self.blocks) == self.count:
                self.t.free(self.blocks.pop(self.draws.below(self.count)))
            self.blocks.append(self.t.alloc(1, size(self.draws)))
        return self

    def text(self):
        return self.t.text()


def growing():
    """Sixteen sequences as in decoding: each step copies a sequence into a block that is a little longer, and frees the
    old one. Now and then a sequence ends, and a short one takes its place."""
    t, draws = Trace(), Draws(3)
    sizes = [draws.between(4 * MIB, 64 * MIB) for _ in range(16)]
    blocks = [None] * 16
    for _ in range(300):
        for i in range(16):
            old, blocks[i] = blocks[i], t.alloc(1, sizes[i])
            if old is not None:
                t.free(old)
            sizes[i] += draws.between(MIB // 4, 3 * MIB // 4)
            if draws.below(100) == 0:
                sizes[i] = draws.between(4 * MIB, 16 * MIB)
    return t.text()


def two_phases():
    """The sizes of the second phase are larger; it frees what the first one left, block by block."""
    program = Replacing(4, 32).go_on(1500, lambda draws: draws.between(1, 64 * MIB))
    return program.go_on(1500, lambda draws: draws.between(64 * MIB, 300 * MIB)).text()


def ping_pong():
    """Small and large sizes in turn, fifty requests of each."""
    program = Replacing(6, 32)
    for _ in range(15):
        program.go_on(50, lambda draws: draws.between(100 * MIB, 300 * MIB))
        program.go_on(50, lambda draws: draws.between(10 * MIB, 100 * MIB))
    return program.text()


def recorded(name):
    with lzma.open(os.path.join(os.path.dirname(__file__), "..", "test", "workloads", name + ".xz"), "rt") as file:
        return file.read()


TRACES = {
    "gpt2-medium-train.csv": lambda: Gpt2Training().make(),
    "llm-inference-growing-cache.csv": lambda: LlmDecoding().make(),
    "sizes-uniform.csv": lambda: Replacing(1, 32).go_on(3000, uniform).text(),
    "sizes-log-normal.csv": lambda: Replacing(2, 64).go_on(3000, log_normal).text(),
    "sizes-growing.csv": growing,
    "sizes-two-phases.csv": two_phases,
    "sizes-ping-pong.csv": ping_pong,
    "sizes-pytorch.csv": lambda: recorded("sizes-pytorch.csv"),
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, make in TRACES.items():
        with open(os.path.join(sys.argv[1], name), "w", newline="\n") as file:
            file.write(make())


if __name__ == "__main__":
    main()
