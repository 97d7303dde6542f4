// Marks functions that run on the host and on a CUDA device alike. Such functions are compiled with --fmad=false (as the
// host's are with -ffp-contract=off) and --expt-relaxed-constexpr.
#ifndef PHASOR_KERNELS_CORE_HOST_DEVICE_H_
#define PHASOR_KERNELS_CORE_HOST_DEVICE_H_

// PHASOR_HOST_DEVICE_INLINE: the same, and never a call on the device, where one would cost a stack frame. PHASOR_NO_UNROLL
// stands before a loop with a long body.
#if defined(__CUDACC__)
#define PHASOR_HOST_DEVICE __host__ __device__
#define PHASOR_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#define PHASOR_NO_UNROLL _Pragma("unroll 1")
#else
#define PHASOR_HOST_DEVICE
#define PHASOR_HOST_DEVICE_INLINE inline
#define PHASOR_NO_UNROLL
#endif

#endif  // PHASOR_KERNELS_CORE_HOST_DEVICE_H_
