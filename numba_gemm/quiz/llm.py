"""A decoder of the Llama family: its matrix products, and the FLOPs of one token by part and context length.

    weights   = 2 · (L·(d·(d + 2·d_kv) + d² + 3·d·f) + d·V)     FLOP a token; 2·(L·(4d² + 3·d·f) + d·V) if d_kv = d
    attention = 4 · context · d · L                             QKᵀ and PV: 2·context·d each, in every layer

L layers, hidden size d, feed-forward size f, vocabulary V. Sizes: Touvron et al., "LLaMA" (2023), and the model card
of Llama 3. Decoding computes one token at a time, so M is the number of sequences in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba_gemm.analysis.models.roofline import flops
from numba_gemm.hardware.quantity import Result, require

# FLOP an element of what is not a matrix product, counting each exp, division and root as one.
_NORM, _ROTARY, _SILU_GATE, _RESIDUAL, _SOFTMAX = 4, 3, 5, 1, 5


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder: layers, and lengths in elements."""

    name: str
    layers: int
    hidden: int
    feed_forward: int
    vocabulary: int
    heads: int
    kv_heads: int

    def __post_init__(self) -> None:
        sizes = {name: size for name, size in vars(self).items() if name != "name"}
        require(1, **sizes)
        if self.hidden % self.heads or self.heads % self.kv_heads:
            raise ValueError(
                f"{self.name}: hidden = {self.hidden} must be a multiple of heads = {self.heads}, "
                f"and that of kv_heads = {self.kv_heads}"
            )

    @property
    def head(self) -> int:
        """Elements of one attention head."""
        return self.hidden // self.heads

    @property
    def kv_hidden(self) -> int:
        """Elements of the keys, and of the values, of one token in one layer."""
        return self.kv_heads * self.head


LLAMA_7B = Decoder("LLaMA-7B", 32, 4096, 11008, 32000, heads=32, kv_heads=32)
LLAMA_3_8B = Decoder("Llama-3-8B", 32, 4096, 14336, 128256, heads=32, kv_heads=8)


@dataclass(frozen=True)
class Product(Result):
    """A matrix product C[m,n] = A[m,k]·B[k,n] of a decoder, and how often a step of decoding does it."""

    name: str
    m: int
    n: int
    k: int
    count: int
    #: Whether B is a weight; otherwise it is the cache of keys or values.
    weight: bool

    @property
    def flops(self) -> int:
        """FLOP of all `count` of them."""
        return self.count * flops(self.m, self.n, self.k)


@dataclass(frozen=True)
class TokenFlops(Result):
    """FLOP of one token at one length of context, by part; shares 0 … 1 of all matrix products."""

    context: int
    weights: int
    attention: int
    #: Norms, rotary embedding, SiLU, softmax and residuals: estimated by a few FLOP an element.
    elementwise: int
    weights_share: float
    attention_share: float
    #: Of everything, its own FLOP included.
    elementwise_share: float


def matrix_products(decoder: Decoder, context: int, batch: int = 1) -> tuple[Product, ...]:
    """The products of one decoding step of `batch` sequences, each with `context` tokens in its cache."""
    require(0, context=context)
    require(1, batch=batch)
    layers, hidden, wide = decoder.layers, decoder.hidden, decoder.feed_forward
    heads = layers * decoder.heads * batch
    return (
        Product("QKV", batch, hidden + 2 * decoder.kv_hidden, hidden, layers, weight=True),
        Product("QKᵀ", 1, context, decoder.head, heads, weight=False),
        Product("PV", 1, decoder.head, context, heads, weight=False),
        Product("O", batch, hidden, hidden, layers, weight=True),
        Product("gate", batch, wide, hidden, layers, weight=True),
        Product("up", batch, wide, hidden, layers, weight=True),
        Product("down", batch, hidden, wide, layers, weight=True),
        Product("LM head", batch, decoder.vocabulary, hidden, 1, weight=True),
    )


def elementwise_flops(decoder: Decoder, context: int) -> int:
    """FLOP of one token outside of matrix products, an estimate."""
    require(0, context=context)
    hidden = decoder.hidden
    layer = (
        2 * (_NORM + _RESIDUAL) * hidden
        + _ROTARY * (hidden + decoder.kv_hidden)
        + _SILU_GATE * decoder.feed_forward
        + _SOFTMAX * decoder.heads * context
    )
    return decoder.layers * layer + _NORM * hidden


def token_flops(decoder: Decoder, context: int) -> TokenFlops:
    """FLOP to decode one token with `context` tokens before it."""
    products = matrix_products(decoder, context)
    weights = sum(product.flops for product in products if product.weight)
    attention = sum(product.flops for product in products if not product.weight)
    elementwise = elementwise_flops(decoder, context)
    total = weights + attention
    return TokenFlops(
        context=context,
        weights=weights,
        attention=attention,
        elementwise=elementwise,
        weights_share=weights / total,
        attention_share=attention / total,
        elementwise_share=elementwise / (total + elementwise),
    )
