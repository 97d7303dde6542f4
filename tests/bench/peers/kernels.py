"""Phasor's kernels in this process: libphasor_peer_kernels.so through ctypes. Arrays are anything with an address."""

import ctypes

P, I32, I64, F64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_double
SIGNATURES = {
    "error": (ctypes.c_char_p, []),
    "description": (ctypes.c_char_p, []),
    "memory": (P, [I64]),
    "streaming": (None, [P, I64]),
    "copy": (None, [P, P, I64]),
    "rope": (P, [I64, F64]),
    "table": (I32, [P, I64, P, P, I32]),
    "rotate": (I32, [I32, I32, P, P, P, P, I64, I64, I64, I32]),
    "alibi": (P, [I64]),
    "t5": (P, [I64, I64, P]),
    "bias": (I32, [P, I64, P, I32]),
}
DTYPE = {"f32": 2, "f16": 3, "bf16": 4}  # phasor::DType


def address(array):
    return array.ctypes.data if hasattr(array, "ctypes") else ctypes.addressof(array)


class Kernels:
    """`threads` for every call that takes some."""

    def __init__(self, path, threads=1):
        library = ctypes.CDLL(str(path))
        self.threads = threads
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, f"phasor_peer_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, "_" + name, function)

    def _good(self, result):
        if not result:
            raise RuntimeError(self._error().decode())
        return result

    def description(self):
        return self._description().decode()

    def memory(self, size_bytes):
        """A touched buffer of huge pages, as ctypes characters; lives as long as the process."""
        return (ctypes.c_char * size_bytes).from_address(self._memory(size_bytes))

    def streaming(self, out, size_bytes):
        self._streaming(address(out), size_bytes)

    def copy(self, out, source, size_bytes):
        self._copy(address(out), address(source), size_bytes)

    def rope(self, head_dim, base):
        return self._good(self._rope(head_dim, base))

    def table(self, rope, rows, cos, sin):
        self._good(self._table(rope, rows, address(cos), address(sin), self.threads) == 0)

    def rotate(self, dtype, interleaved, x, y, cos, sin, shape):
        """shape: tokens, heads, head_dim."""
        self._good(self._rotate(DTYPE[dtype], interleaved, address(x), address(y), address(cos), address(sin), *shape,
                                self.threads) == 0)

    def alibi(self, heads):
        return self._good(self._alibi(heads))

    def t5(self, buckets, heads, table):
        """table: [buckets, heads], double."""
        return self._good(self._t5(buckets, heads, address(table)))

    def bias(self, bias, size, out):
        self._good(self._bias(bias, size, address(out), self.threads) == 0)
