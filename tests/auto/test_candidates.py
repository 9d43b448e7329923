"""What is worth timing: complete, usable on the device, reproducible, and never without the defaults."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.tuning import KEY, RUNG_6, RUNG_7, SMALLER, like

from numba_gemm import VERSIONS, Tile
from numba_gemm.auto.candidates import candidates, variant_of, why_not
from numba_gemm.auto.entry import Choice
from numba_gemm.ladder import CAPABILITIES, find
from numba_gemm.tile import opt_in_shared_bytes

LARGE = like(KEY, m=4096, n=4096, k=4096)
H200, ADA = (9, 0), (8, 9)


def tiles_of(name, key=LARGE, compute_capability=H200):
    return [choice.tile for choice in candidates(key, compute_capability) if choice.version.name == name]


def test_rung_7_is_tried_with_block_tiles_from_large_to_small():
    tiles = tiles_of("warp_tiled")
    assert {(tile.bm, tile.bn) for tile in tiles} == {
        *((256, 128), (128, 256), (128, 128)),
        *((64, 128), (128, 64), (64, 64), (32, 64), (32, 32)),
    }
    assert {(tile.tm, tile.tn) for tile in tiles if (tile.bm, tile.bn) == (128, 128)} == {(16, 8), (8, 8)}


def test_defaults_come_first_and_nothing_twice():
    found = candidates(LARGE, H200)
    tuned = list(dict.fromkeys(choice.version for choice in found))
    assert len(tuned) > 1
    assert found[: len(tuned)] == [Choice(version, version.default_tile) for version in tuned]
    assert len(set(found)) == len(found)
    assert {RUNG_6, RUNG_7} <= set(found)


@pytest.mark.parametrize("compute_capability", [(8, 0), (8, 6), ADA, H200, (10, 0), (12, 0)], ids=str)
@pytest.mark.parametrize("a_along_k", [False, True])
@pytest.mark.parametrize("b_along_k", [False, True])
def test_every_candidate_can_be_used_on_the_device(compute_capability, a_along_k, b_along_k):
    key = like(LARGE, a_along_k=a_along_k, b_along_k=b_along_k)
    found = candidates(key, compute_capability)
    assert len(found) > 10
    for version, tile in ((choice.version, choice.tile) for choice in found):
        version.check(tile)
        assert version.min_cc <= compute_capability
        assert version.capabilities == set(CAPABILITIES)
        assert version.shared_bytes(tile, variant_of(key)) <= opt_in_shared_bytes(compute_capability)


def test_the_padding_of_transposing_copies_counts():
    """Rows are 4 floats longer for each operand that is copied along k: 96 KB become 100, of which Ada has 99."""
    choice = Choice(find(6), Tile(64, 128, 32, 8, 8, stages=4))
    assert choice.tile.shared_bytes == 96 * 1024
    assert why_not(choice, like(LARGE, a_along_k=False, b_along_k=False), ADA) is None
    assert "102400 bytes" in why_not(choice, like(LARGE, a_along_k=True, b_along_k=True), ADA)


def test_older_devices_have_none():
    assert candidates(LARGE, (7, 5)) == []


@pytest.mark.parametrize(("m", "n"), [(1, 4096), (64, 4096), (4096, 100), (130, 130)])
def test_tiles_of_which_half_would_lie_outside_are_left_out(m, n):
    key = like(LARGE, m=m, n=n)
    found = candidates(key, H200)
    for tile in (choice.tile for choice in found if choice.tile != choice.version.default_tile):
        assert tile.bm < 2 * max(m, 32)
        assert tile.bn < 2 * max(n, 32)
    assert any(choice.tile.bm == 32 for choice in found)
    assert {RUNG_6, RUNG_7} <= set(found)


def test_only_versions_that_are_asked_for():
    assert {choice.version.number for choice in candidates(LARGE, H200, [find(7)])} == {7}
    assert candidates(LARGE, H200, [find(5)]) == []


def test_what_is_registered_and_tuned_has_every_capability():
    tuned = {choice.version.name for choice in candidates(LARGE, H200)}
    assert {"boundary", "warp_tiled"} <= tuned
    assert "split_k_atomic" not in tuned
    assert tuned <= {version.name for version in VERSIONS if version.traits.takes_variants}


def test_versions_to_come():
    """Named, with every capability; never one whose result changes from run to run."""
    stream_k = replace(find(7), name="stream_k", number=8)
    assert Choice(stream_k, SMALLER.tile) in candidates(LARGE, H200, [stream_k])
    atomic = replace(find(7), name="split_k_atomic", number=None)
    assert candidates(LARGE, H200, [atomic]) == []
    assert "not one that is tuned" in why_not(Choice(atomic, SMALLER.tile), LARGE, H200)
    traits = replace(find(7).traits, capabilities=frozenset({"edges"}))
    module = SimpleNamespace(**{**vars(find(7).module), "TRAITS": traits})
    limited = replace(find(7), name="split_k", number=None, module=module)
    assert candidates(LARGE, H200, [limited]) == []


def test_a_version_for_few_rows_is_tried_where_rows_or_columns_are_few():
    few = find("skinny")
    rows = few.default_tile.bm
    tried = {
        (1, 4096): [rows, 1, 8],  # one row, and a tile for just that
        (4096, 8): [rows, 8],
        (rows, 4096): [rows],
        (2 * rows, 4096): [rows],  # reads the large operand twice
        (2 * rows + 1, 4096): [],
        (4096, 4096): [],
    }
    for (m, n), tiles in tried.items():
        found = candidates(like(LARGE, m=m, n=n), H200, [few])
        assert [choice.tile.bm for choice in found] == tiles


def test_why_a_choice_cannot_be_used():
    assert why_not(SMALLER, KEY, H200) is None
    assert "compute capability 8.0" in why_not(SMALLER, KEY, (7, 5))
    assert "warp tile" in why_not(Choice(find(7), find(6).default_tile), KEY, H200)
    huge = Choice(find(6), Tile(128, 128, 32, 8, 8, stages=8))
    assert "bytes of shared memory; a block can have 232448" in why_not(huge, KEY, H200)
