"""dQ, dK and dV of one head by PyTorch's flash attention, so many times, on one thread, for a simulator to watch:
torch_backward.py N D REPETITIONS"""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

n, d, repetitions = (int(argument) for argument in sys.argv[1:])
torch.set_num_threads(1)
torch.manual_seed(1)
q, k, v = (torch.randn(1, 1, n, d, requires_grad=True) for _ in range(3))
d_o = torch.randn(1, 1, n, d)
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    o = scaled_dot_product_attention(q, k, v)
    for _ in range(repetitions):
        torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)
