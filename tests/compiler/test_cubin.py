"""What the compiler is given, and what it says."""

from pathlib import Path

import pytest

from numba_gemm.compiler import cubin

KERNELS_IN_LOGS = {
    "ptxas info : 0 bytes gmem": "found 0",
    "Compiling entry function 'one' for 'sm_80'\nCompiling entry function 'two' for 'sm_80'": "found 2",
}


@pytest.mark.parametrize(("log", "message"), KERNELS_IN_LOGS.items())
def test_a_log_without_one_kernel_is_an_error(log, message):
    with pytest.raises(RuntimeError, match=f"expected one kernel in the log of ptxas, {message}"):
        cubin._entry_name(log)


def test_a_log_names_the_kernel():
    assert cubin._entry_name("ptxas info    : Compiling entry function '_ZN1k' for 'sm_90a'\nUsed 8") == "_ZN1k"


@pytest.mark.parametrize("name", ["functions.cubin", "functions"])
def test_foreign_files_of_other_kinds_are_refused(name):
    with pytest.raises(ValueError, match=f"cannot link {name}: a foreign file is .cu or .ptx"):
        cubin._foreign_object(Path(name), "sm_90a")


@pytest.mark.parametrize(("capability", "suffix"), [((8, 0), ""), ((8, 9), ""), ((9, 0), "a"), ((10, 0), "a")])
def test_architectures_with_features_of_their_own(capability, suffix):
    assert cubin.suffix(capability) == suffix
