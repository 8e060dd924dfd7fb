"""Scaled dot-product attention by ioattn and by PyTorch's flash attention on this CPU: milliseconds of both,
measured in turns on the same inputs with as many threads, and errors against float64 on these inputs."""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import time
from typing import NamedTuple

# Threads of one library that spin after a call would take CPUs from the other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from ioattn_sdpa import Library, Sdpa  # noqa: E402

SAMPLE_SECONDS = 0.02  # shorter calls are timed several at once


class Shape(NamedTuple):
    batch: int
    heads: int
    n: int
    d: int
    causal: bool = False
    kv_heads: int = 0  # 0: heads
    m: int = 0  # 0: n

    def __str__(self):
        text = f"b{self.batch} h{self.heads}" + (f"/{self.kv_heads}" if self.kv_heads else "") + f" n{self.n}"
        return text + (f" m{self.m}" if self.m else "") + f" d{self.d}" + (" causal" if self.causal else "")

    def keys(self):
        """Sizes of K and V."""
        return self.batch, self.kv_heads or self.heads, self.m or self.n, self.d

    def forward_flops(self):
        return 4 * self.batch * self.heads * self.n * (self.m or self.n) * self.d


ACCURACY_SHAPE = Shape(1, 4, 1024, 64)
QUICK = [
    Shape(4, 16, 256, 64), ACCURACY_SHAPE, ACCURACY_SHAPE._replace(causal=True), Shape(1, 8, 1024, 128),
    Shape(1, 1, 4096, 64), Shape(1, 1, 4096, 128), Shape(1, 1, 2048, 256), Shape(1, 1, 2048, 512)]
# B x H = 1, 4, 16, 64
GRID = [Shape(*leading, n, d) for leading, n, d in itertools.product(
    [(1, 1), (1, 4), (2, 8), (4, 16)], [64, 256, 1024, 4096, 8192], [64, 128, 256, 512, 1024])]
# Few queries, as in decoding; heads that share keys.
DECODE = [Shape(batch, heads, n, d, kv_heads=kv_heads, m=m) for batch, heads, kv_heads, n, m, d in [
    (1, 32, 8, 1, 4096, 128), (1, 32, 8, 4, 4096, 128), (1, 32, 4, 1, 8192, 128), (8, 32, 8, 1, 1024, 128),
    (1, 32, 1, 1, 4096, 128), (1, 32, 8, 128, 4096, 128), (1, 8, 8, 1, 4096, 128), (8, 12, 12, 1, 512, 64)]]
# Heads as wide as those of models that have no power of two: Stable Diffusion 1.5, SigLIP, ViT-g, Phi-2, Phi-3, ViT-bigG.
WIDTHS = [Shape(*sizes) for sizes in [
    (2, 8, 1024, 40), (1, 16, 729, 72), (2, 16, 257, 88), (1, 8, 1024, 80), (1, 8, 2048, 96, True), (2, 16, 257, 104),
    (2, 8, 1024, 160), (1, 8, 1000, 100)]]
SHAPES = {"quick": QUICK, "all": GRID, "decode": DECODE, "widths": WIDTHS}

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Inputs:
    def __init__(self, shape, dtype, seed=1):
        torch.manual_seed(seed)
        of_queries = shape[:4]
        self.q, self.k, self.v, self.d_o = (
            torch.randn(size).to(dtype) for size in (of_queries, shape.keys(), shape.keys(), of_queries))
        self.causal = shape.causal


class TorchFlash:
    def __init__(self, inputs):
        self.inputs = inputs
        self.leaves = [x.clone().requires_grad_() for x in (inputs.q, inputs.k, inputs.v)]
        self.o = self.attention(*self.leaves)

    def attention(self, q, k, v):
        grouped = q.shape[1] != k.shape[1]
        return scaled_dot_product_attention(q, k, v, is_causal=self.inputs.causal, enable_gqa=grouped)

    def forward(self):
        with torch.no_grad():
            return self.attention(self.inputs.q, self.inputs.k, self.inputs.v)

    def backward(self):
        return torch.autograd.grad(self.o, self.leaves, self.inputs.d_o, retain_graph=True)


class Ioattn:
    def __init__(self, library, inputs):
        self.sdpa = Sdpa(library, torch.get_num_threads(), inputs.q, inputs.k, inputs.v, inputs.causal)
        self.d_o = inputs.d_o
        self.results = self.sdpa.forward()

    def forward(self):
        return self.sdpa.forward()[0]

    def backward(self):
        return self.sdpa.backward(self.d_o, *self.results)


def seconds_per_call(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def medians(runs):
    """Seconds per call of each of `runs`, which take turns."""
    for run in runs:
        run()
    longest = max(seconds_per_call(run, 1) for run in runs)
    repeats = 1 if longest > 5 else 3 if longest > 1 else 5 if longest > 0.1 else 11
    calls = max(1, round(SAMPLE_SECONDS / longest))
    samples = [[] for _ in runs]
    for repeat in range(repeats):
        order = list(zip(runs, samples))
        for run, into in order if repeat % 2 == 0 else reversed(order):
            into.append(seconds_per_call(run, calls))
    return [statistics.median(of_run) for of_run in samples]


def measure(shape, dtype, library):
    inputs = Inputs(shape, dtype)
    peer, ours = TorchFlash(inputs), Ioattn(library, inputs)
    row = shape._asdict()
    for name in ("forward", "backward"):
        of_peer, of_ours = medians([getattr(peer, name), getattr(ours, name)])
        row[name] = {"torch_ms": 1e3 * of_peer, "ioattn_ms": 1e3 * of_ours, "ratio": of_peer / of_ours}
    return row


def float64_results(inputs):
    q, k, v = (x.double().requires_grad_() for x in (inputs.q, inputs.k, inputs.v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1]**0.5
    if inputs.causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    o = torch.softmax(scores, -1) @ v
    return [o.detach(), *torch.autograd.grad(o, (q, k, v), inputs.d_o.double())]


def largest_error(x, ref):
    return ((x.double() - ref).abs().max() / ref.abs().max()).item()


def l2_error(x, ref):
    return ((x.double() - ref).norm() / ref.norm()).item()


def errors(inputs, library, error):
    """Of both, for O, dQ, dK and dV."""
    references = float64_results(inputs)
    found = {}
    for who, runs in (("torch", TorchFlash(inputs)), ("ioattn", Ioattn(library, inputs))):
        results = [runs.forward(), *runs.backward()]
        found[who] = {name: error(x, ref) for name, x, ref in zip(("O", "dQ", "dK", "dV"), results, references)}
    return found


def root_of_squares(of_errors):
    return sum(of_errors[name]**2 for name in ("dQ", "dK", "dV"))**0.5


def compare_errors(count, n, d, dtype, library):
    """Relative L2 errors over `count` problems: those of ioattn by those of torch."""
    ratios = {name: [] for name in ("O", "dQ", "dK", "dV", "all gradients")}
    for seed in range(count):
        of_both = errors(Inputs(Shape(1, 1, n, d, seed % 2 == 1), dtype, seed), library, l2_error)
        for of_one in of_both.values():
            of_one["all gradients"] = root_of_squares(of_one)
        for name, of_name in ratios.items():
            of_name.append(of_both["ioattn"][name] / of_both["torch"][name])
    print(f"relative L2 errors, ioattn / torch, over {count} problems n{n} d{d}, every other one causal")
    for name, of_name in ratios.items():
        print(f"  {name:13} median {statistics.median(of_name):.2f}  largest {max(of_name):.2f}", flush=True)
    return {"problems": count, "n": n, "d": d,
            **{name: {"median": statistics.median(r), "largest": max(r), "ratios": [round(x, 4) for x in r]}
               for name, r in ratios.items()}}


def default_library():
    root = pathlib.Path(__file__).resolve().parents[2]
    found = sorted(root.glob("build/release/lib*/**/libioattn.so*"))
    return found[0] if found else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default=default_library(), help="libioattn.so; that of build/release")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both; all CPUs")
    parser.add_argument("--shapes", choices=list(SHAPES), default="quick")
    parser.add_argument("--most-flops", type=float, default=2.0**37, metavar="COUNT",
                        help="leave out shapes of more flops forward, which take minutes each (inf: none)")
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32")
    parser.add_argument("--errors", type=int, default=0, metavar="COUNT",
                        help="compare relative L2 errors of so many problems, and no times")
    parser.add_argument("--n", type=int, default=1024, help="of these problems")
    parser.add_argument("--d", type=int, default=64, help="of these problems")
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    if args.library is None:
        parser.error("no libioattn.so in build/release: build the target ioattn, or name one by --library")
    return args


def compare(grid, most_flops, dtype, library):
    """Prints a table and returns what JSON shall hold."""
    shapes = [shape for shape in grid if shape.forward_flops() <= most_flops]
    if len(shapes) < len(grid):
        print(f"{len(grid) - len(shapes)} shapes of {len(grid)} left out: more than {most_flops:.2g} flops forward")
    print(f"{'':24}{'forward, ms':^28}  {'backward, ms':^28}".rstrip())
    print((f"{'shape':24}" + 2 * f"{'torch':>10}{'ioattn':>10}{'ratio':>8}  ").rstrip())
    rows = []
    for shape in shapes:
        row = measure(shape, dtype, library)
        rows.append(row)
        columns = ("{torch_ms:10.3f}{ioattn_ms:10.3f}{ratio:8.2f}".format(**row[name])
                   for name in ("forward", "backward"))
        print(f"{str(shape):24}" + "  ".join(columns), flush=True)
    for name in ("forward", "backward"):
        mean = statistics.geometric_mean(row[name]["ratio"] for row in rows)
        print(f"geometric mean of the ratios, {name}: {mean:.2f}")

    accuracy = errors(Inputs(ACCURACY_SHAPE, dtype), library, largest_error)
    print(f"\nmax |x - ref| / max |ref| against float64, {ACCURACY_SHAPE}")
    for who, of_who in accuracy.items():
        print(f"{who:10}" + "".join(f"  {name} {error:.1e}" for name, error in of_who.items()))
    return {"shapes": rows, "errors": {"shape": ACCURACY_SHAPE._asdict(), **accuracy}}


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    dtype, library = DTYPES[args.dtype], Library(str(args.library))
    print(f"torch {torch.__version__}, {args.dtype}, threads: {args.threads}", end="")
    print("" if args.errors > 0 else "; ms are medians, ratio is torch / ioattn")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error where it does not apply
        if args.errors > 0:
            report = {"l2_errors": compare_errors(args.errors, args.n, args.d, dtype, library)}
        else:
            report = compare(SHAPES[args.shapes], args.most_flops, dtype, library)
    if args.json:
        report = {"torch": torch.__version__, "dtype": args.dtype, "threads": args.threads, **report}
        pathlib.Path(args.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
