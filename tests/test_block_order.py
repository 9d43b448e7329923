"""The order of blocks: a permutation of the tiles for every grid, and compact."""

import numpy as np
import pytest

from numba_gemm.device.block_order import tile_of_block


def order(tiles_m, tiles_n, group):
    """(tile_m, tile_n) of every block, in the order of their numbers."""
    arguments = [np.uint32(value) for value in (tiles_m, tiles_n, group)]
    tiles = [tile_of_block(np.uint32(block), *arguments) for block in range(tiles_m * tiles_n)]
    return [(int(tile_m), int(tile_n)) for tile_m, tile_n in tiles]


def everything(tiles_m, tiles_n):
    return [(tile_m, tile_n) for tile_m in range(tiles_m) for tile_n in range(tiles_n)]


@pytest.mark.parametrize("group", [1, 2, 3, 8])
@pytest.mark.parametrize("tiles_n", [1, 2, 5, 16])
@pytest.mark.parametrize("tiles_m", [1, 2, 7, 8, 9, 17])
def test_every_tile_has_one_block(tiles_m, tiles_n, group):
    assert sorted(order(tiles_m, tiles_n, group)) == everything(tiles_m, tiles_n)


def test_the_drawing():
    assert order(3, 5, 2) == [
        *((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4)),
        *((2, 0), (2, 1), (2, 2), (2, 3), (2, 4)),
    ]


def test_groups_of_one_are_row_by_row():
    assert order(4, 3, 1) == everything(4, 3)


def test_one_group_is_column_by_column():
    assert order(4, 3, 8) == [(tile_m, tile_n) for tile_n in range(3) for tile_m in range(4)]


def test_a_wave_needs_fewer_tiles_of_a_and_b():
    """132 blocks of a C of 32 × 64 tiles: rows of A and columns of B that they read."""

    def operands(group):
        rows, columns = zip(*order(32, 64, group)[:132], strict=True)
        return len(set(rows)) + len(set(columns))

    assert operands(1) == 3 + 64
    assert operands(8) == 8 + 17


def test_large_numbers():
    """The largest grid, 2³¹ − 1 blocks: nothing overflows 32 bits."""
    tiles_m, tiles_n, group = 46341, 46340, 8
    block = tiles_m * tiles_n - 1
    last = tile_of_block(*(np.uint32(value) for value in (block, tiles_m, tiles_n, group)))
    assert tuple(map(int, last)) == (tiles_m - 1, tiles_n - 1)
