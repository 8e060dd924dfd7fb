"""ioattn's scaled dot-product attention of dense tensors [B, H, n, d] through the C interface."""

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

import torch

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
MASK_NONE, MASK_CAUSAL_TOP_LEFT = 0, 1


# Fields as in ioattn.h; a stride of 0 is that of C order.
class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_int64) for name in ("batch", "heads", "kv_heads", "n", "m", "d", "dv")),
        ("dtype", c_int),
        *((name, c_void_p) for name in ("q", "k", "v")),
        *((name, c_int64 * 3) for name in ("q_stride", "k_stride", "v_stride")),
        ("scale", c_double),
        ("mask", c_int),
        *((name, c_int64) for name in ("window_left", "window_right", "q_offset", "k_offset")),
        *((name, c_void_p) for name in ("q_starts", "k_starts", "bias")),
        *((name, c_int64) for name in ("bias_batch", "bias_heads")),
        ("bias_stride", c_int64 * 3),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("threads", c_int32),
        ("cache_level", c_int32),
        ("fast_memory_words", c_int64),
        ("memory_limit", c_int64),
        ("schedule", c_char_p),
        ("rigor", c_int),
        ("time_limit_seconds", c_double),
        ("reproducible", c_int32),
        ("objective", c_int64),
    ]


class Gradients(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_void_p) for name in ("dq", "dk", "dv")),
        *((name, c_int64 * 3) for name in ("dq_stride", "dk_stride", "dv_stride")),
        ("accumulate", c_int32),
        ("dbias", c_void_p),
        ("dbias_stride", c_int64 * 3),
        ("in_f32", c_int32),
    ]


class Library:
    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.error = library.ioattn_last_error
        self.error.restype = c_char_p
        self.forward = library.ioattn_sdpa_forward
        self.forward.argtypes = [POINTER(Problem), POINTER(Options)] + [c_void_p] * 4
        self.backward = library.ioattn_sdpa_backward
        self.backward.argtypes = [POINTER(Problem), POINTER(Options)] + [c_void_p] * 6 + [POINTER(Gradients)]

    def check(self, status):
        if status != 0:
            raise RuntimeError("ioattn: " + self.error().decode())


class Sdpa:
    """Attention of given operands; every call allocates its results."""

    def __init__(self, library, threads, q, k, v, causal):
        assert all(x.dtype == q.dtype and x.is_contiguous() for x in (q, k, v))
        self.library = library
        self.operands = (q, k, v)
        self.options = Options(struct_size=ctypes.sizeof(Options), threads=threads)
        batch, heads, n, d = q.shape
        self.problem = Problem(
            struct_size=ctypes.sizeof(Problem), batch=batch, heads=heads, kv_heads=k.shape[1],
            n=n, m=k.shape[2], d=d, dv=v.shape[3], dtype=DTYPES[q.dtype],
            q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(),
            mask=MASK_CAUSAL_TOP_LEFT if causal else MASK_NONE)

    def forward(self):
        """O and LSE."""
        q, _, v = self.operands
        of_sums = torch.float64 if q.dtype == torch.float64 else torch.float32
        o = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype)
        lse = torch.empty(q.shape[:3], dtype=of_sums)
        self.library.check(self.library.forward(
            self.problem, self.options, o.data_ptr(), None, lse.data_ptr(), None))
        return o, lse

    def backward(self, d_o, o, lse):
        """dQ, dK and dV."""
        assert d_o.is_contiguous()
        dq, dk, dv = (torch.empty_like(x) for x in self.operands)
        gradients = Gradients(
            struct_size=ctypes.sizeof(Gradients), dq=dq.data_ptr(), dk=dk.data_ptr(), dv=dv.data_ptr())
        self.library.check(self.library.backward(
            self.problem, self.options, d_o.data_ptr(), None, o.data_ptr(), None, lse.data_ptr(), None,
            gradients))
        return dq, dk, dv
