"""A decoder's FLOPs by part, and its matrix products: the figures of §2.8 of the source documents."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_gemm.quiz.llm import (
    LLAMA_3_8B,
    LLAMA_7B,
    Decoder,
    elementwise_flops,
    matrix_products,
    token_flops,
)


def test_flops_of_the_weights():
    """§2.8: 2·(32(4d²+3·d·11008)+d·32000), d = 4096 → 13.21 GFLOP a token."""
    d = 4096
    weights = token_flops(LLAMA_7B, 0).weights
    assert weights == 2 * (32 * (4 * d**2 + 3 * d * 11008) + d * 32000)
    assert round(weights / 1e9, 2) == 13.21


@pytest.mark.parametrize(("context", "attention", "weights"), [(512, 2.0, 98.0), (2048, 7.5, 92.5), (4096, 14.0, 86.0)])
def test_shares(context, attention, weights):
    """§2.8, one row of the table; attention is 4·ctx·d·32."""
    found = token_flops(LLAMA_7B, context)
    assert found.attention == 4 * context * 4096 * 32
    assert round(100 * found.attention_share, 1) == attention
    assert round(100 * found.weights_share, 1) == weights


def test_attention_at_2048():
    """§2.8: 1.07 G."""
    assert round(token_flops(LLAMA_7B, 2048).attention / 1e9, 2) == 1.07


@pytest.mark.parametrize("context", [512, 2048, 4096])
def test_elementwise_is_little(context):
    """§2.8: norm, SiLU and softmax below .2 %; matrix products above 99 %."""
    share = token_flops(LLAMA_7B, context).elementwise_share
    assert share < 0.002
    assert 1 - share > 0.99


def test_elementwise_at_2048():
    """§2.8: about .1 %."""
    assert round(100 * token_flops(LLAMA_7B, 2048).elementwise_share, 1) == 0.1


def test_shapes():
    """§2.8: QKV, QKᵀ, PV, O, gate, up, down, LM head."""
    products = {product.name: product for product in matrix_products(LLAMA_7B, 2048)}
    assert list(products) == ["QKV", "QKᵀ", "PV", "O", "gate", "up", "down", "LM head"]
    shapes = {name: (product.m, product.n, product.k, product.count) for name, product in products.items()}
    assert shapes == {
        "QKV": (1, 3 * 4096, 4096, 32),
        "QKᵀ": (1, 2048, 128, 32 * 32),
        "PV": (1, 128, 2048, 32 * 32),
        "O": (1, 4096, 4096, 32),
        "gate": (1, 11008, 4096, 32),
        "up": (1, 11008, 4096, 32),
        "down": (1, 4096, 11008, 32),
        "LM head": (1, 32000, 4096, 1),
    }


def test_grouped_heads():
    """§2.7: 14336 of Llama-3-8B; eight heads of keys and values serve 32 of queries."""
    products = {product.name: product for product in matrix_products(LLAMA_3_8B, 100)}
    assert products["QKV"].n == 4096 + 2 * 1024
    assert products["gate"].n == 14336
    assert products["QKᵀ"].count == 32 * 32


@given(st.integers(0, 10_000), st.integers(1, 300), st.sampled_from([LLAMA_7B, LLAMA_3_8B]))
def test_products_add_up(context, batch, decoder):
    found = token_flops(decoder, context)
    total = sum(product.flops for product in matrix_products(decoder, context, batch))
    assert total == batch * (found.weights + found.attention)
    assert found.weights_share + found.attention_share == pytest.approx(1)


def test_errors():
    with pytest.raises(ValueError, match="context is -1"):
        token_flops(LLAMA_7B, -1)
    with pytest.raises(ValueError, match="context is -1"):
        elementwise_flops(LLAMA_7B, -1)
    with pytest.raises(ValueError, match="batch is 0"):
        matrix_products(LLAMA_7B, 1, batch=0)
    with pytest.raises(ValueError, match="layers is 0"):
        Decoder("none", 0, 64, 64, 64, 1, 1)
    with pytest.raises(ValueError, match="hidden = 100 must be a multiple of heads = 3"):
        Decoder("odd", 1, 100, 64, 64, 3, 1)
    with pytest.raises(ValueError, match="kv_heads = 3"):
        Decoder("odd", 1, 64, 64, 64, 4, 3)


def test_as_plain_numbers():
    assert json.loads(json.dumps(token_flops(LLAMA_7B, 512).to_dict()))["context"] == 512
    assert matrix_products(LLAMA_7B, 5)[0].to_dict()["weight"] is True
