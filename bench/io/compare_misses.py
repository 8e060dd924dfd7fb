"""Cache misses of one backward pass of scaled dot-product attention, by ioattn and by PyTorch's flash attention,
in a simulated cache: Cachegrind, one thread, one head, all three gradients. Each is run with one repetition and with
two; the difference is a pass on its own. Valgrind has no AVX-512, so both run AVX2 code."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

def misses(program, arguments, geometry):
    """Lines that L1 (D1) and L2 (LLd) fetched for data, and what the program printed."""
    sizes = [f"--D1={geometry.l1},{geometry.l1_ways},64", f"--LL={geometry.l2},{geometry.l2_ways},64"]
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1",
                       IOATTN_L1=str(geometry.l1), IOATTN_L2=str(geometry.l2))
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *sizes,
             f"--cachegrind-out-file={folder}/out", *program, *arguments],
            env=environment, capture_output=True, text=True)
    found = [re.search(name + r" +misses: +([0-9,]+) ", run.stderr) for name in ("D1", "LLd")]
    if run.returncode != 0 or not all(found):
        raise RuntimeError(f"{' '.join(program)} under valgrind: {run.stderr.strip()[-500:]}")
    return [int(match.group(1).replace(",", "")) for match in found], run.stdout.strip().splitlines()


def one_pass(program, n, d, plan, geometry):
    once, printed = misses(program, [str(n), str(d), "1", *plan], geometry)
    twice, _ = misses(program, [str(n), str(d), "2", *plan], geometry)
    result = dict(zip(("L1", "L2"), (two - one for one, two in zip(once, twice))))
    if printed:
        result["plan"] = printed[0]
    return result


def contestants(options):
    for d in options.d:
        for objective in ("time", "words@L2", "words@L1"):
            yield d, f"ioattn, for {objective}", [str(options.program)], [objective]
        if options.plan:
            yield d, "ioattn, --plan", [str(options.program)], [options.plan]
        if options.python:
            yield d, "PyTorch flash", [options.python, str(FOLDER / "torch_backward.py")], []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1024, help="queries and keys")
    parser.add_argument("--d", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--plan", help="text of a plan of ioattn, beside its own choice")
    parser.add_argument("--python", help="a Python with torch 2.13; without it ioattn runs alone")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/sdpa_backward")
    parser.add_argument("--l1", type=int, default=49152, help="bytes of L1")
    parser.add_argument("--l1-ways", type=int, default=12)
    parser.add_argument("--l2", type=int, default=1048576, help="bytes of L2")
    parser.add_argument("--l2-ways", type=int, default=16)
    parser.add_argument("--json", type=pathlib.Path, help="keep the figures there")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"compare_misses: {options.program} is not built (cmake --build ... --target sdpa_backward)")
    results = []
    print(f"data misses of one backward pass, n = {options.n}, one head, f32; "
          f"L1 {options.l1} bytes, L2 {options.l2} bytes")
    print(f"{'d':>5}  {'':<26}{'L1 misses':>12}{'L2 misses':>12}")
    for d, name, program, plan in contestants(options):
        try:
            result = one_pass(program, options.n, d, plan, options)
        except (OSError, RuntimeError) as error:
            print(f"{d:>5}  {name:<26}unavailable: {error}")
            results.append({"d": d, "name": name, "unavailable": str(error)})
            continue
        print(f"{d:>5}  {name:<26}{result['L1']:>12,}{result['L2']:>12,}", flush=True)
        results.append({"d": d, "name": name, **result})
    for result in results:
        if "plan" in result:
            print(f"{result['d']:>5}  {result['name']}: {result['plan']}")
    if options.json:
        geometry = {name: getattr(options, name) for name in ("n", "l1", "l1_ways", "l2", "l2_ways")}
        options.json.write_text(json.dumps({**geometry, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
