// Marks functions that run on the host and on a CUDA device alike. Such functions are compiled with --fmad=false (as the
// host's are with -ffp-contract=off) and --expt-relaxed-constexpr.
#ifndef PHASOR_KERNELS_CORE_HOST_DEVICE_H_
#define PHASOR_KERNELS_CORE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define PHASOR_HOST_DEVICE __host__ __device__
#else
#define PHASOR_HOST_DEVICE
#endif

#endif  // PHASOR_KERNELS_CORE_HOST_DEVICE_H_
