// cp.async for rung 5, called from Python through numba.cuda.declare_device(..., abi="c").
//
// Numba compiles this file with NVRTC to LTO-IR and links it with the kernel, so that each function
// is inlined to the one instruction in its asm statement. Pointers arrive as generic addresses;
// cp.async wants its destination in the shared window. A function returns int because Numba's C ABI
// always expects a result. The wait depth is an immediate operand: one function a depth.

extern "C" __device__ int numba_gemm_cp_async16(float* destination, const float* source) {
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(destination));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(source) : "memory");
    return 0;
}

extern "C" __device__ int numba_gemm_cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
    return 0;
}

#define WAIT_GROUP(PENDING)                                                \
    extern "C" __device__ int numba_gemm_cp_async_wait##PENDING() {        \
        asm volatile("cp.async.wait_group " #PENDING ";" ::: "memory");    \
        return 0;                                                          \
    }

WAIT_GROUP(0)
WAIT_GROUP(1)
WAIT_GROUP(2)
WAIT_GROUP(3)
WAIT_GROUP(4)
