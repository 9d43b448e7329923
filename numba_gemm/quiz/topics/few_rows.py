"""One row, and few: where weights are used once, and bytes are all that counts."""

from __future__ import annotations

from collections.abc import Iterator

from numba_gemm.analysis.models import gemv
from numba_gemm.hardware.devices import A100
from numba_gemm.quiz.llm import LLAMA_7B, token_flops
from numba_gemm.quiz.question import Choice, Numeric, Question, figure
from numba_gemm.quiz.topics.given import MIB, SIZE

TOPIC = "few rows"
_BF16, _INT4 = 2, 0.5


def questions() -> Iterator[Question]:
    """From one row to the batch at which arithmetic takes over."""
    intensity = gemv.weight_intensity(1, _BF16)
    seconds = gemv.weight_seconds(SIZE, SIZE, A100.memory_bandwidth, _BF16)
    batch = gemv.ridge_batch_of_weights(A100.bf16_ridge, _BF16)
    with_operands = gemv.ridge_batch(A100.bf16_ridge, SIZE, SIZE, _BF16, _BF16)
    yield Numeric(
        title="intensity of one row",
        text="One row times a matrix of BF16 weights: what is the intensity, counting the weights only?",
        answer=intensity,
        unit="FLOP/B",
        hint="How often is a weight used, and how many bytes has it?",
        explanation=f"2 FLOP for 2 bytes: {figure(intensity)} FLOP/B, {A100.bf16_ridge / intensity:.0f} times below "
        f"the ridge of an A100's tensor cores. In FP32 it is {figure(gemv.weight_intensity(1))}.",
    )
    yield Numeric(
        title="time of one row",
        text=f"How long does an A100, {A100.memory_bandwidth / 1e12:.1f} TB/s, take at least for a row of {SIZE} times "
        f"{SIZE} × {SIZE} BF16 weights?",
        answer=seconds * 1e6,
        unit="µs",
        hint="Every weight is read once.",
        explanation=f"{SIZE * SIZE * _BF16 / MIB:.0f} MiB take {figure(seconds * 1e6)} µs.",
    )
    quarter = gemv.weight_seconds(SIZE, SIZE, A100.memory_bandwidth, _INT4)
    yield Choice(
        title="what helps one row",
        text="What makes the product of one row and a large matrix faster, beyond reading at full bandwidth?",
        options=(
            "Larger tiles in shared memory",
            "Tensor cores",
            "Weights of fewer bits",
            "More outputs per thread",
        ),
        right=2,
        hint="Which of them changes the number of bytes that have to be read?",
        explanation="A weight is used once, so nothing can be reused. Fewer bytes are all that helps: INT4 weights "
        f"take {figure(quarter * 1e6)} µs instead of {figure(seconds * 1e6)}. Or more rows at a time.",
    )
    yield Numeric(
        title="from one row to many",
        text=f"An A100's tensor cores have a BF16 ridge of {figure(A100.bf16_ridge)} FLOP/B. From how many rows on is "
        "arithmetic the bound, counting the bytes of BF16 weights only?",
        answer=batch,
        unit="rows",
        hint="Every row uses each weight once more.",
        explanation=f"{figure(batch)}: the intensity is one FLOP/B per row. Counting the other operand and the result "
        f"too, for {SIZE} × {SIZE} weights, it is {figure(with_operands)}.",
    )
    shares = token_flops(LLAMA_7B, 2048)
    yield Numeric(
        title="attention's share",
        text=f"{LLAMA_7B.name} decodes one token with 2048 before it: {LLAMA_7B.layers} layers, d = {LLAMA_7B.hidden}, "
        f"feed-forward {LLAMA_7B.feed_forward}, vocabulary {LLAMA_7B.vocabulary}. What share of the FLOP of its matrix "
        "products is attention, QKᵀ and PV?",
        answer=shares.attention_share * 100,
        unit="%",
        tolerance=0.03,
        hint="Attention: 4·context·d a layer. Weights: 2·(4·d² + 3·d·f) a layer, and 2·d·V once.",
        explanation=f"{shares.attention / 1e9:.2f} GFLOP of {(shares.attention + shares.weights) / 1e9:.2f}: "
        f"{figure(shares.attention_share * 100)} %.",
    )
