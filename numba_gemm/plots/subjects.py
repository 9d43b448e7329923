"""What the pictures are about: shapes, devices and versions that were chosen to be shown. Nothing here is a result."""

from __future__ import annotations

from numba_gemm.hardware.devices import H200
from numba_gemm.tile import Tile

Shape = tuple[int, int, int]

#: The device that pictures of the models alone are about.
DEVICE = H200

#: The cube that the ladder is measured with.
CUBE: Shape = (4096, 4096, 4096)
#: Sides of cubes whose grids fill the device more and less well, and the version that they are shown for.
WAVE_SIZES, WAVE_VERSION = (1024, 2048, 2560, 3072, 4096), "warp_tiled"
#: Few rows: fewer tiles than multiprocessors.
FEW_ROWS: Shape = (8, 4096, 4096)
#: Parts of K for split-K there.
SPLITS = 4
#: A shape that is no whole number of tiles in any direction.
RAGGED: Shape = (300, 200, 20)
#: Tiles of C, along M and N, and steps of K of the picture of the tiling.
TILING = (3, 4, 4)

#: Stream-K small enough to be read: tiles, segments per tile, and multiprocessors with a block each.
STREAM_TILES, STREAM_SEGMENTS, STREAM_BLOCKS = 9, 6, 4

#: Turns of the main loop in the pictures of the pipeline and of the ring.
TURNS = 6

#: Whose global loads are compared, in order: by number or name.
WARP_ACCESS = ("naive", "naive_16", "naive_rows", "thread_tile_4")
#: Whose reads of the fragment of B are compared.
B_LAYOUTS = ("vectorized", "split_columns", "swizzled")
#: Whose layouts of A in shared memory are compared.
A_LAYOUTS = ("untransposed", "padded_rows", "vectorized", "padded_columns")
#: Whose reuse of what they read is compared.
REUSE = ("shared", "register", "warp_tiled")
#: Whose blocks are shown, warp by warp and lane by lane.
LANES = ("vectorized", "warp_tiled")
#: A kernel that copies and computes in turn, and one with a ring of three stages.
SERIAL, PIPELINED = "vectorized", "cp_async"

#: The tile of the pictures that need one: rung 3's, of round numbers.
TILE = Tile(bm=128, bn=128, bk=8, tm=8, tn=8)
