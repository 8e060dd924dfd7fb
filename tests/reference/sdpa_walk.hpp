#pragma once

#include <string>
#include <vector>

// The words that the schedules of SDPA move, by walking through their loops as
// lib/schedules/README.md describes them and asking of each element of each block whether fast
// memory has it. No sizes are multiplied. It includes nothing of lib.
namespace ioattn_reference {

// One problem and how it is computed. Query head h sees the keys of head h / (heads / kv_heads);
// query i sees key j if first <= j - i <= last.
struct SdpaWalk {
  long batch = 1, heads = 1, kv_heads = 1, n = 1, m = 1, d = 1, dv = 1;
  bool masked = false;
  long first = 0, last = 0;
  long bias_batch = 0, bias_heads = 0;  // 0: no bias

  // What is wanted: O and LSE, or gradients, which may be added to what the outputs hold.
  bool O = true, LSE = true;
  bool dQ = false, dK = false, dV = false, dBias = false, accumulate = false;

  // Of a pass over the queries, r of which stay, and of one over the keys, c of which stay. Tiles
  // are of rho queries; w columns pass by tiles at a time; delta is made of o rows at a time.
  struct Blocks {
    long r = 1, c = 1, rho = 1, w = 1, o = 1;
    bool packed = false;  // keys and values, through memory, once per block of keys
    bool parked = false;  // f, through memory, so that one tile stays instead of two
  } rows, keys;
  bool tiles = false;       // tile_fused, not row_stream (forward) or col_stream
  bool dQ_by_keys = false;  // dQ is made on the way of the pass over the keys

  // Operands of 16 bits: a word has 2 bytes, so numbers in f32 weigh 2. What is resident is in f32
  // but for what products of pairs multiply. Gradients are rounded unless wanted in f32.
  bool half = false, pairs = false, gradients_in_f32 = false;
};

struct WalkedPhase {
  std::string name;
  long reads = 0, writes = 0, created = 0;
  long peak = 0;  // resident words
};

std::vector<WalkedPhase> walk_forward(const SdpaWalk& walk);
std::vector<WalkedPhase> walk_backward(const SdpaWalk& walk);

}  // namespace ioattn_reference
