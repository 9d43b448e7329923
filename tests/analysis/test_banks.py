"""Wavefronts of shared memory: the rule for one request, and the figures of the source documents on the real kernels.

§ and flags are those of the source documents. `arch=None` takes the widest accesses that the source allows, which
test_tracing.py shows to be those of the machine code.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_gemm import Tile
from numba_gemm.analysis.code import banks as banks_module
from numba_gemm.analysis.code.accesses import one_block, version_accesses
from numba_gemm.analysis.code.banks import banks, count_banks
from numba_gemm.analysis.models.shared_memory import peak_fraction, request_wavefronts, vector_words, wavefronts
from numba_gemm.hardware.devices import A100, H100
from numba_gemm.kernels.interface import Variant
from numba_gemm.ladder import find

LANES = range(32)


def load(start, width):
    return request_wavefronts([start(lane) for lane in LANES], width, load=True)


def store(start, width):
    return request_wavefronts([start(lane) for lane in LANES], width, load=False)


# The rule --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 4])
def test_neighbouring_lanes_fill_every_wavefront(width):
    """32 lanes of 4, 8 or 16 bytes are 128, 256 or 512 bytes: 1, 2 or 4 wavefronts."""
    assert load(lambda lane: width * lane, width) == store(lambda lane: width * lane, width) == width


@pytest.mark.parametrize(("width", "count"), [(1, 1), (2, 1), (4, 2)])
def test_one_address_for_all(width, count):
    """A broadcast; a 16-byte load still takes two. A store has its full number."""
    assert load(lambda _: 0, width) == count
    assert store(lambda _: 0, width) == width


@pytest.mark.parametrize(("bit", "count"), [(0, 2), (1, 2), (2, 4), (3, 4), (4, 4)])
def test_pairs_by_the_bit_that_they_differ_in(bit, count):
    """16-byte loads, each address by two lanes: only pairs in bits 0 and 1 are served together."""
    low = (1 << bit) - 1
    assert load(lambda lane: 4 * (lane & low | lane >> (bit + 1) << bit), 4) == count


def test_pairs_have_to_agree_in_all_of_the_warp():
    assert load(lambda lane: 4 * (lane >> 1 if lane < 16 else lane), 4) == 4


def test_lanes_that_take_no_part_agree_with_any():
    starts = [4 * (lane >> 1) if lane % 2 == 0 else None for lane in LANES]
    assert request_wavefronts(starts, 4, load=True) == 2
    assert request_wavefronts([None] * 32, 4, load=True) == 0


def test_conflicts_within_the_lanes_that_are_served_at_once():
    """Two addresses in one bank cost only if they are in the same quarter."""
    assert store(lambda lane: 32 * lane if lane < 2 else 4, 4) == 2 + 3
    assert store(lambda lane: 32 * (lane - 7) if lane in (7, 8) else 4, 4) == 4
    assert store(lambda lane: 32 * lane, 4) == 32


def test_the_lane_map_of_rung_7():
    """Rows of A by bits 1 and 2, columns of B by bit 0 and the high bits: two wavefronts each; by rows, four."""
    of_four, of_eight = (lambda lane: lane // 2 % 4), (lambda lane: lane % 2 + lane // 8 * 2)
    assert load(lambda lane: 4 * of_four(lane), 4) == load(lambda lane: 4 * of_eight(lane), 4) == 2
    assert load(lambda lane: 4 * (lane // 8), 4) == 2
    assert load(lambda lane: 4 * (lane % 8), 4) == 4


@given(st.lists(st.integers(0, 2047), min_size=32, max_size=32), st.sampled_from([1, 2, 4]), st.booleans())
def test_bounds(units, width, is_load):
    """At least what all lanes at once would take, at most one wavefront a lane; loads never take more than stores."""
    starts = [width * unit for unit in units]
    count = request_wavefronts(starts, width, load=is_load)
    assert wavefronts(vector_words(starts, width)) <= count <= 32
    assert count <= request_wavefronts(starts, width, load=False)


def test_other_requests():
    with pytest.raises(ValueError, match="31 places; a warp has 32"):
        request_wavefronts([0] * 31, 1, load=True)
    with pytest.raises(ValueError, match="width is 3"):
        request_wavefronts([0] * 32, 3, load=True)


# The rungs -------------------------------------------------------------------------------------------


def per_request(name, array, kind="read"):
    """Wavefronts of one request to an array, by the width of the access."""
    found = {}
    for access in banks(name, arch=None).accesses:
        if (access.array, access.kind) == (array, kind):
            found[access.bytes] = access.wavefronts_per_tile / access.requests_per_tile
    return found


def warp_k(name):
    """Wavefronts of shared loads for one step of k of one warp."""
    found = banks(name, arch=None)
    return found.load_wavefronts_per_tile / found.tile.bk / (found.tile.threads // 32)


def test_rung_2_by_hand():
    """A block of 8×8: a warp has 4 rows and 8 columns.

    As: four addresses, by 16 bytes, 8 lanes each: 2 wavefronts for 4 k. Bs: 8 neighbours, 4 bytes: 1 a k.
    """
    found = banks(2, tile=find(2).small_tile, arch=None)
    assert found.load_wavefronts_per_tile == 2 * (8 // 4 * 2 + 8)
    assert found.store_wavefronts_per_tile == 2 * (1 + 1)
    assert found.ffma_per_tile == 8 * 8 * 8 // 32


def test_rung_2():
    """§2.3 has 2 wavefronts an FFMA: a scalar A and a scalar B. Flag 2: with A in fours fewer.

    Flag 2 says 1.25, with one wavefront for a 16-byte broadcast; it takes two.
    """
    assert per_request(2, "As") == {16: 2}
    assert per_request(2, "Bs") == {4: 1}
    assert banks(2, arch=None).load_wavefronts_per_ffma == 1 + 2 / 4
    assert round(100 * peak_fraction(1.5, A100)) == 33


@pytest.mark.parametrize("name", ["register", "vectorized", "cp_async", "boundary"])
def test_8x8_fragments(name):
    """Flag 6: quarters of a warp: B takes 8 wavefronts a request, as do 4 of 4. A is the same for 16 lanes: 2.

    16 + 4 wavefronts for 64 FFMA, where 128 lanes do these in 16 cycles: shared memory bounds rungs 3 to 6 at 80 %.
    """
    assert per_request(name, "As") == {16: 2}
    assert per_request(name, "Bs") == {16: 8}
    assert warp_k(name) == 2 * 2 + 2 * 8
    assert peak_fraction(banks(name, arch=None).load_wavefronts_per_ffma, H100) == pytest.approx(0.8)
    assert peak_fraction(banks(name, arch=None).load_wavefronts_per_ffma, A100) == 1


@pytest.mark.parametrize("name", ["split_columns", "swizzled"])
def test_neighbouring_chunks_of_b(name):
    """Rows 17 and 18, flags 6 and 12: 4+4 columns, or a swizzle of 16-byte chunks, halve the wavefronts of B."""
    assert per_request(name, "Bs") == {16: 4}
    assert warp_k(name) == 2 * 2 + 2 * 4


def test_stores_of_a_transposed():
    """§2.3 and row 16: As[c][r] with rows of 128 floats is 2-way; rows of 132 are not. B goes by 16 bytes."""
    assert per_request("vectorized", "As", "write") == {4: 2}
    assert per_request("padded_columns", "As", "write") == {4: 1}
    assert per_request("vectorized", "Bs", "write") == {16: 4}


@pytest.mark.parametrize(("name", "ways"), [("register", 2), ("untransposed", 2), ("padded_rows", 1)])
def test_columns_of_a_float_by_float(name, ways):
    """§2.3 and rows 14, 15: As[m][8] read by single floats is 2-way, with rows of 9 floats there is no conflict."""
    version = find(name)
    done = one_block(version, version.default_tile, Variant(), 1).trace()
    reads = [access for access in done.accesses if access.array == "As" and access.kind == "read"]
    assert len(reads) == 8 * 8
    assert {request_wavefronts(access.starts[:32].tolist(), 1, load=True) for access in reads} == {ways}


def test_padding_of_rows_does_not_help_merged_reads():
    """Rows of 9 floats: a thread's 8 rows are 18 accesses of 16 bytes, not 16, and each still takes two wavefronts."""
    a = next(x for x in banks("padded_rows", arch=None).accesses if x.array == "As" and x.kind == "read")
    assert (a.bytes, a.requests_per_tile, a.wavefronts_per_tile) == (16, 8 * 18, 8 * 18 * 2)
    assert (
        banks("padded_rows", arch=None).load_wavefronts_per_tile > banks("register", arch=None).load_wavefronts_per_tile
    )


def test_rung_7():
    """Two wavefronts for each of its 6 reads a k; measured on an H200 at 4096³: 201 M, where cuBLAS has 336 M."""
    assert per_request(7, "As") == per_request(7, "Bs") == {16: 2}
    assert warp_k(7) == 12
    assert banks(7, arch=None).load_wavefronts_per_ffma == 12 / 128
    assert round(banks(7, arch=None).wavefronts("read", 4096, 4096, 4096) / 1e6) == 201
    assert peak_fraction(12 / 128, H100) == 1


@pytest.mark.parametrize("number", [6, 7])
def test_copies_that_transpose_have_no_conflicts(number):
    """A warp writes 8 k × 4 lines; rows that are 4 floats longer put them into 32 different banks."""
    found = banks(number, arch=None)
    assert found.copy_wavefronts_per_tile == found.copy_ideal_per_tile > 0
    assert found.store_wavefronts_per_tile == 0


def test_ideal():
    """Wavefronts full of different words: B's 128 floats of a row are 4, where the 16-byte reads take 8."""
    b = next(access for access in banks(4, arch=None).accesses if access.array == "Bs" and access.kind == "read")
    assert b.ideal_per_tile / b.requests_per_tile == 2
    a = next(access for access in banks(4, arch=None).accesses if access.array == "As" and access.kind == "read")
    assert a.ideal_per_tile / a.requests_per_tile == 1


def test_naive_has_no_shared_memory():
    found = banks(1, arch=None)
    assert (found.accesses, found.load_wavefronts_per_ffma) == ((), 0)


def test_other_tiles_and_variants():
    """Rung 7 with B transposed: the copies of B run along k, too, and the fragments are where they were."""
    tile = Tile(128, 128, 8, 8, 8, 2, 64, 32)
    plain, turned = (banks(7, tile=tile, arch=None, variant=Variant(b_along_k=b)) for b in (False, True))
    assert plain.load_wavefronts_per_tile == turned.load_wavefronts_per_tile
    widths = [{x.bytes for x in found.accesses if (x.array, x.kind) == ("Bs", "copy")} for found in (plain, turned)]
    assert widths == [{16}, {4}]


def test_another_rule():
    found = version_accesses(7, arch=None)
    assert count_banks(found, lambda *_: 1).load_wavefronts_per_tile == 16 * 8 * 6
    assert count_banks(found).load_wavefronts_per_tile == count_banks(found, banks_module.rule).load_wavefronts_per_tile


def test_plain_data_and_errors():
    assert json.loads(json.dumps(banks(3, arch=None).to_dict()))["version"] == 3
    with pytest.raises(ValueError, match="not whole tiles"):
        banks(3, arch=None).wavefronts("read", 100, 128, 8)
    with pytest.raises(ValueError, match="unknown version"):
        banks("nothing", arch=None)
    with pytest.raises(ValueError, match="bk = tm = tn"):
        banks(1, tile=Tile(8, 32, 8), arch=None)
