"""What the questions have in common: one shape, the tiles of the ladder, units."""

from __future__ import annotations

from numba_gemm.tile import Tile

SIZE = 4096
CUBE = (SIZE, SIZE, SIZE)
MIB, GIB = 2**20, 2**30

#: One output per thread, from tiles in shared memory: rung 2.
SHARED = Tile(bm=32, bn=32, bk=32)
#: 8 × 8 outputs per thread: rungs 3 and 4.
REGISTER = Tile(bm=128, bn=128, bk=8, tm=8, tn=8)
#: 8 × 8 outputs per thread with a ring of three stages: rung 5.
RING = Tile(bm=128, bn=128, bk=8, tm=8, tn=8, stages=3)
