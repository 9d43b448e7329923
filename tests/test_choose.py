"""What `version="auto"` takes: by the model, on devices that need not be here."""

import pytest

from numba_gemm import VERSIONS
from numba_gemm.choose import choose_version, outputs_of_the_busiest

H200, SMS = (9, 0), 132


@pytest.mark.parametrize(
    ("m", "n", "batch", "number"),
    [
        (4096, 4096, 1, 7),  # 512 blocks of rung 7 for 132 SMs: 4 each; 1024 of rung 6: 8 of half the size
        (2048, 2048, 1, 7),  # 128 blocks: one for nearly every SM
        (1024, 1024, 1, 6),  # 32 blocks would leave 100 SMs idle, 64 of rung 6 fewer
        (64, 64, 1, 6),
        (64, 64, 10000, 6),  # the same outputs, of which a small tile computes fewer in vain
        (1, 1, 1, 6),
    ],
)
def test_the_busiest_multiprocessor_decides(m, n, batch, number):
    assert choose_version(H200, SMS, m, n, batch).number == number


def test_the_model_by_hand():
    six, seven = (next(version for version in VERSIONS if version.number == number) for number in (6, 7))
    assert outputs_of_the_busiest(six, 132, 1000, 1000, 1) == 128 * 128  # 64 blocks
    assert outputs_of_the_busiest(seven, 132, 1000, 1000, 1) == 128 * 256  # 32 blocks
    assert outputs_of_the_busiest(six, 10, 1000, 1000, 3) == 20 * 128 * 128  # 192 blocks on 10 SMs


def test_older_devices_get_what_they_can_run():
    assert choose_version((7, 5), 40, 4096, 4096).number == 4
    assert choose_version((5, 0), 10, 1, 1).number == 4


def test_no_version_for_a_device():
    with pytest.raises(RuntimeError, match=r"compute capability 5\.0 or above; the device has 3\.5"):
        choose_version((3, 5), 10, 1, 1)
