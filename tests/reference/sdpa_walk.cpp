#include "reference/sdpa_walk.hpp"

#include <algorithm>
#include <stdexcept>

namespace ioattn_reference {
namespace {

// Indices begin, ..., end - 1.
struct Span {
  long begin, end;
};
constexpr Span one = {0, 1}, none = {0, 0};

// Those of [0, size), [size, 2 size), ... that meet a span, cut to it.
std::vector<Span> blocks_of(Span all, long size) {
  std::vector<Span> blocks;
  for (long i = all.begin; i < all.end; ++i) {
    if (blocks.empty() || i % size == 0) blocks.push_back({i, i});
    blocks.back().end = i + 1;
  }
  return blocks;
}
std::vector<Span> rows_of(Span all) { return blocks_of(all, 1); }
Span both(Span a, Span b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// A matrix: what an element weighs in slow and in fast memory, and which of them fast memory has.
struct Matrix {
  long rows, cols;
  int slow, fast;
  std::vector<bool> resident = std::vector<bool>(std::size_t(rows * cols));
};

class Walker {
 public:
  explicit Walker(const SdpaWalk& of) : walk(of) {}

  std::vector<WalkedPhase> phases;

  void forward() {
    phases.push_back({walk.tiles ? "tile_fused" : "row_stream"});
    for (long head = 0; head < walk.batch * walk.heads; ++head)
      walk.tiles ? forward_by_tiles() : forward_by_rows();
  }

  void backward() {
    const long heads = walk.batch * walk.heads;
    if (walk.dQ || walk.dK || walk.dBias) phases.push_back({"delta"});
    for (long head = 0; head < heads && !phases.empty(); ++head) delta();
    if (walk.dBias || (walk.dQ && !walk.dQ_by_keys)) query_pass();
    if (!walk.dK && !walk.dV && !walk.dQ_by_keys) return;
    phases.push_back({walk.tiles ? "tile_fused" : "col_stream"});
    for (long head = 0; head < walk.batch * walk.kv_heads; ++head)
      walk.tiles ? key_pass_by_tiles() : key_pass();
    if (!walk.dQ_by_keys || !rounds) return;
    phases.push_back({"round"});
    for (long head = 0; head < heads; ++head) round(dQ_sums, dQ, all_n, all_d);
  }

 private:
  // What a step made resident, until the end of the scope.
  struct [[nodiscard]] Resident {
    Walker& walker;
    Matrix& matrix;
    Span rows, cols;

    Resident(Walker& w, Matrix& m, Span r, Span c) : walker(w), matrix(m), rows(r), cols(c) {
      walker.set(matrix, rows, cols, true);
    }
    ~Resident() { walker.set(matrix, rows, cols, false); }
    Resident(const Resident&) = delete;
    Resident& operator=(const Resident&) = delete;
  };

  template <class Act>
  static void for_each(Span rows, Span cols, const Act& act) {
    for (long i = rows.begin; i < rows.end; ++i)
      for (long j = cols.begin; j < cols.end; ++j) act(i, j);
  }
  void set(Matrix& matrix, Span rows, Span cols, bool resident) {
    for_each(rows, cols, [&](long i, long j) {
      matrix.resident[std::size_t(i * matrix.cols + j)] = resident;
      resident_words += resident ? matrix.fast : -matrix.fast;
    });
    phases.back().peak = std::max(phases.back().peak, resident_words);
  }
  // Read and created while absent, written while resident.
  void count(const Matrix& matrix, Span rows, Span cols, bool resident, int words, long* sum) {
    for_each(rows, cols, [&](long i, long j) {
      if (matrix.resident[std::size_t(i * matrix.cols + j)] != resident)
        throw std::logic_error("no step of the model");
      *sum += words;
    });
  }
  Resident read(Matrix& matrix, Span rows, Span cols) {
    count(matrix, rows, cols, false, matrix.slow, &phases.back().reads);
    return {*this, matrix, rows, cols};
  }
  Resident create(Matrix& matrix, Span rows, Span cols) {
    count(matrix, rows, cols, false, matrix.fast, &phases.back().created);
    return {*this, matrix, rows, cols};
  }
  Resident read_or_create(bool reads, Matrix& matrix, Span rows, Span cols) {
    return reads ? read(matrix, rows, cols) : create(matrix, rows, cols);
  }
  void write(const Matrix& matrix, Span rows, Span cols) { write_as(matrix, matrix, rows, cols); }
  void write_as(const Matrix& to, const Matrix& matrix, Span rows, Span cols) {  // rounded
    count(matrix, rows, cols, true, to.slow, &phases.back().writes);
  }
  // A term of sums that lie in slow memory, or the first.
  void add(bool begun, Matrix& sums, Span rows, Span cols) {
    const Resident block = read_or_create(begun, sums, rows, cols);
    write(sums, rows, cols);
  }
  void write_zeros(Matrix& sums, Span rows, Span cols) {
    for_each(rows, cols, [&](long i, long j) { add(false, sums, {i, i + 1}, {j, j + 1}); });
  }
  // Sums in f32 become a result in 16 bits.
  void round(Matrix& sums, Matrix& result, Span rows, Span cols) {
    for (Span row : rows_of(rows)) {
      const Resident made = read(sums, row, cols);
      const Resident before = read(result, row, walk.accumulate ? cols : none);
      write_as(result, sums, row, cols);
    }
  }

  bool sees(long i, long j) const {
    return !walk.masked || (walk.first <= j - i && j - i <= walk.last);
  }
  // From the first to the last key that one of the queries sees.
  Span seen_by(Span queries) const {
    Span seen = {walk.m, 0};
    for_each(queries, all_m, [&](long i, long j) {
      if (sees(i, j)) seen = {std::min(seen.begin, j), std::max(seen.end, j + 1)};
    });
    return seen;
  }
  // From the first to the last query that sees one of the keys.
  Span seeing(Span keys) const {
    Span queries = {walk.n, 0};
    for_each(all_n, keys, [&](long i, long j) {
      if (sees(i, j)) queries = {std::min(queries.begin, i), std::max(queries.end, i + 1)};
    });
    return queries;
  }
  void pass_bias(Span queries, Span keys) {
    const Resident tile = read(bias, queries, walk.bias_batch > 0 ? keys : none);
  }

  // r queries and their O stay, blocks of c keys pass by; tiles are of rho queries.
  void forward_by_rows() {
    for (Span rows : blocks_of(all_n, walk.rows.r)) {
      const Resident queries = read(Q, rows, all_d);
      const Resident o = create(O, rows, all_dv), max = create(row_max, rows, one);
      const Resident sum = create(LSE, rows, one);  // in whose place LSE is made
      for (Span keys : blocks_of(seen_by(rows), walk.rows.c)) {
        const Resident key = read(K, keys, all_d), value = read(V, keys, all_dv);
        for (Span strip : blocks_of(rows, walk.rows.rho)) {
          const Span seen = both(seen_by(strip), keys);
          if (seen.begin >= seen.end) continue;
          pass_bias(strip, seen);
          const Resident scores = create(f, strip, seen), factors = create(rescale, strip, one);
          const Resident rounded = create(pairs, strip, walk.pairs ? seen : none);
        }
      }
      write(LSE, rows, walk.LSE ? one : none);
      write(O, rows, all_dv);
    }
  }

  // A tile of scores stays, rho queries by c keys; all else passes by, w columns at a time: O once
  // per tile, in f32 until the last.
  void forward_by_tiles() {
    for (Span rows : blocks_of(all_n, walk.rows.rho)) {
      const Resident max = create(row_max, rows, one), sum = create(LSE, rows, one);
      const Span seen = seen_by(rows);
      if (walk.masked) write_zeros(seen.begin < seen.end ? O_sums : O, rows, all_dv);
      for (Span keys : blocks_of(seen, walk.rows.c)) {
        pass_bias(rows, keys);
        const Resident scores = create(f, rows, keys);
        for (Span k : blocks_of(all_d, walk.rows.w)) {
          const Resident key = read(K, keys, k), queries = read(Q, rows, k);
        }
        const Resident factors = create(rescale, rows, one);
        const Resident rounded = create(pairs, rows, walk.pairs ? keys : none);
        for (Span k : blocks_of(all_dv, walk.rows.w)) {
          const Resident value = read(V, keys, k);
          const Resident o = read_or_create(walk.masked || keys.begin > 0, O_sums, rows, k);
          write_as(keys.end == seen.end ? O : O_sums, O_sums, rows, k);
        }
      }
      write(LSE, rows, walk.LSE ? one : none);
    }
  }

  // Row sums of O o dO, by blocks of o rows and w columns.
  void delta() {
    for (Span rows : blocks_of(all_n, walk.rows.o)) {
      const Resident sums = create(Delta, rows, one);
      for (Span k : blocks_of(all_dv, walk.rows.w)) {
        const Resident left = read(O, rows, k), right = read(dO, rows, k);
      }
      write(Delta, rows, one);
    }
  }

  // dQ and dBias of all heads: r queries and their dQ stay, blocks of c keys pass by; words of
  // dBias, the sum over the heads that share a bias, one at a time.
  void query_pass() {
    phases.push_back({"row_stream"});
    std::vector<bool> begun(std::size_t(walk.bias_batch * walk.bias_heads));
    for (long head = 0; head < walk.batch * walk.heads; ++head) {
      bool adds = walk.accumulate && !rounds;
      if (walk.dBias) {
        const long b = walk.bias_batch > 1 ? head / walk.heads : 0;
        const long h = walk.bias_heads > 1 ? head % walk.heads : 0;
        auto of_bias = begun[std::size_t(b * walk.bias_heads + h)];
        adds = adds || of_bias;
        of_bias = true;
      }
      for (Span rows : blocks_of(all_n, walk.rows.r)) query_block(rows, adds);
    }
    for (std::size_t i = 0; rounds && i < begun.size() && walk.dBias; ++i)
      round(dBias_sums, dBias, all_n, all_m);
  }
  void query_block(Span rows, bool adds) {
    const Span made = walk.dQ ? all_d : none;
    const Resident sums = create(dQ, rows, made);
    {
      const Resident queries = read(Q, rows, all_d), d_o = read(dO, rows, all_dv);
      const Resident lse = read(LSE, rows, one), shift = read(Delta, rows, one);
      if (walk.masked && !adds) write_zeros(dBias_sums, rows, walk.dBias ? all_m : none);
      for (Span keys : blocks_of(seen_by(rows), walk.rows.c)) {
        const Resident key = read(K, keys, all_d), value = read(V, keys, all_dv);
        const Resident second = create(K_rows, keys, walk.pairs ? made : none);
        for (Span strip : blocks_of(rows, walk.rows.rho)) {
          const Span seen = both(seen_by(strip), keys);
          if (seen.begin >= seen.end) continue;
          pass_bias(strip, seen);
          const Resident weights = create(f, strip, seen);  // p takes its place
          const Resident products = create(q, strip, walk.pairs ? seen : none);
          const Resident rounded = create(pairs, strip, walk.pairs && walk.dQ ? seen : none);
          for_each(strip, walk.dBias ? seen : none, [&](long i, long j) {
            add(adds || walk.masked, dBias_sums, {i, i + 1}, {j, j + 1});
          });
        }
      }
    }
    for (Span row : rows_of(rows)) {
      const Resident added = read(dQ_before, row, walk.accumulate ? made : none);
      write(dQ, row, made);
    }
  }

  // c keys, their values and gradients stay; blocks of rho queries pass by, of every query head of
  // the group, and their dQ.
  void key_pass() {
    for (Matrix* each : {&Q, &K, &V, &dO, &K_rows}) each->fast = f32;  // not of pairs
    if (zeros_in_dQ()) write_zeros_of_dQ();
    for (Span keys : blocks_of(all_m, walk.keys.c)) {
      const Resident key = read(K, keys, all_d), value = read(V, keys, of_p(all_dv));
      const Resident second = create(K_rows, keys, of_dQ);
      const Resident d_key = read_or_create(walk.accumulate, dK, keys, of_dK);
      const Resident d_value = read_or_create(walk.accumulate, dV, keys, of_dV);
      for (long head = 0; head < walk.heads / walk.kv_heads; ++head)
        for (Span rows : blocks_of(seeing(keys), walk.keys.rho)) {
          const Resident queries = read(Q, rows, all_d), d_o = read(dO, rows, all_dv);
          const Resident lse = read(LSE, rows, one), shift = read(Delta, rows, of_p(one));
          pass_bias(rows, keys);
          const Resident weights = create(f, rows, keys);  // p takes its place
          add(adds_to_dQ(keys), dQ_sums, rows, of_dQ);
        }
      write(dK, keys, of_dK);
      write(dV, keys, of_dV);
    }
  }

  // A tile of f and one of q stay, rho queries by c keys; all else passes by, w columns at a time,
  // gradients once per tile.
  void key_pass_by_tiles() {
    const bool adds = walk.accumulate && !rounds;
    const bool parks = walk.keys.parked && (walk.dK || walk.dQ_by_keys);
    if (zeros_in_dQ()) write_zeros_of_dQ();
    for (Span keys : blocks_of(all_m, walk.keys.c)) {
      if (walk.masked && !adds) write_zeros(dK_sums, keys, of_dK);
      if (walk.masked && !adds) write_zeros(dV_sums, keys, of_dV);
      const Span queries = seeing(keys);
      if (walk.keys.packed && queries.begin < queries.end) pack(keys);
      bool begun = walk.masked || adds;
      for (long head = 0; head < walk.heads / walk.kv_heads; ++head)
        for (Span rows : blocks_of(queries, walk.keys.rho)) {
          pass_bias(rows, keys);
          parks ? parked_tile(rows, keys, begun) : pair_of_tiles(rows, keys, begun);
          begun = true;
        }
      if (rounds) round(dK_sums, dK, keys, of_dK);
      if (rounds) round(dV_sums, dV, keys, of_dV);
    }
  }
  void pair_of_tiles(Span rows, Span keys, bool begun) {
    const Resident weights = create(f, rows, keys);  // p takes its place
    columns_of_scores(rows, keys);
    const Resident rounded = create(pairs, rows, walk.pairs ? keys : none);
    {
      const Resident products = create(q, rows, of_p(keys));
      for (Span k : blocks_of(all_dv, walk.keys.w)) {
        const Resident d_o = read(dO, rows, k);
        { const Resident value = read(V, keys, of_p(k)); }
        const Resident second = create(dO_panels, rows, walk.dV ? of_p(k) : none);
        if (walk.dV) add(begun, dV_sums, keys, k);
      }
      const Resident shift = read(Delta, rows, of_p(one));
    }
    add_terms_of_p(rows, keys, begun);
  }
  // f lies in slow memory while q is made, whose place p takes.
  void parked_tile(Span rows, Span keys, bool begun) {
    {
      const Resident weights = create(f, rows, keys);
      columns_of_scores(rows, keys);
      for (Span k : blocks_of(of_dV, walk.keys.w)) {
        const Resident d_o = read(dO, rows, k);
        add(begun, dV_sums, keys, k);
      }
      write(f, rows, keys);
    }
    const Resident products = create(q, rows, keys);
    for (Span k : blocks_of(all_dv, walk.keys.w)) {
      const Resident d_o = read(dO, rows, k), value = read(V, keys, k);
    }
    {
      const Resident shift = read(Delta, rows, one);
      for (Span row : rows_of(rows)) const Resident weights = read(f, row, keys);
    }
    add_terms_of_p(rows, keys, begun);
  }
  void columns_of_scores(Span rows, Span keys) {
    const Resident lse = read(LSE, rows, one);
    for (Span k : blocks_of(all_d, walk.keys.w)) {
      const Resident q_k = read(Q, rows, k), k_k = read(K, keys, k);
    }
  }
  void add_terms_of_p(Span rows, Span keys, bool begun) {
    for (Span k : blocks_of(of_dK, walk.keys.w)) {
      const Resident q_k = read(Q, rows, k);
      add(begun, dK_sums, keys, k);
    }
    for (Span k : blocks_of(of_dQ, walk.keys.w)) {
      const Resident k_k = read(K, keys, k);
      add(adds_to_dQ(keys), dQ_sums, rows, k);
    }
  }
  // The layouts that tiles read: keys as lanes and as rows, values as lanes.
  void pack(Span keys) {
    for (Span k : blocks_of(all_d, walk.keys.w)) {
      const Resident columns = read(K, keys, k);
      add(false, K_rows, keys, walk.dQ_by_keys ? k : none);
      add(false, K_panels, keys, k);
    }
    for (Span k : blocks_of(of_p(all_dv), walk.keys.w)) {
      const Resident columns = read(V, keys, k);
      add(false, V_panels, keys, k);
    }
  }

  // Under a mask the first block of keys that a block of queries sees need not see it all, so there
  // are zeros to add to.
  bool adds_to_dQ(Span keys) const {
    return (walk.accumulate && !rounds) || walk.masked || keys.begin > 0;
  }
  bool zeros_in_dQ() const { return walk.masked && !(walk.accumulate && !rounds); }
  void write_zeros_of_dQ() {
    for (long head = 0; head < walk.heads / walk.kv_heads; ++head)
      write_zeros(dQ_sums, all_n, of_dQ);
  }
  // What takes part in p = f o (dO V^T - delta), which dV alone does not need.
  Span of_p(Span span) const { return walk.dK || walk.dQ_by_keys ? span : none; }

  const SdpaWalk& walk;
  const bool rounds = walk.half && !walk.gradients_in_f32;
  const int f32 = walk.half ? 2 : 1;
  const int operand = walk.pairs ? 1 : f32;  // while resident
  const Span all_n = {0, walk.n}, all_m = {0, walk.m}, all_d = {0, walk.d};
  const Span all_dv = {0, walk.O ? walk.dv : 0};
  const Span of_dQ = walk.dQ_by_keys ? all_d : none, of_dK = walk.dK ? all_d : none,
             of_dV = walk.dV ? all_dv : none;
  long resident_words = 0;

  // Of one head at a time. Rounded gradients have 16 bits in slow memory.
  const int gradient = rounds ? 1 : f32;
  Matrix Q{walk.n, walk.d, 1, operand}, K{walk.m, walk.d, 1, operand},
      V{walk.m, walk.dv, 1, operand};
  Matrix dO{walk.n, walk.dv, 1, operand}, O{walk.n, walk.dv, 1, f32}, bias{walk.n, walk.m, 1, f32};
  Matrix LSE{walk.n, 1, f32, f32}, Delta = LSE, row_max = LSE, rescale = LSE;
  Matrix dQ{walk.n, walk.d, gradient, f32}, dK{walk.m, walk.d, gradient, f32};
  Matrix dV{walk.m, walk.dv, gradient, f32}, dBias{walk.n, walk.m, gradient, f32}, dQ_before = dQ;
  Matrix O_sums{walk.n, walk.dv, f32, f32}, dBias_sums{walk.n, walk.m, f32, f32};
  Matrix dQ_sums{walk.n, walk.d, f32, f32}, dK_sums{walk.m, walk.d, f32, f32};
  Matrix dV_sums{walk.m, walk.dv, f32, f32};
  Matrix f{walk.n, walk.m, f32, f32}, q = f, pairs{walk.n, walk.m, 1, operand};
  Matrix K_rows = K, K_panels = K, V_panels = V, dO_panels = dO;  // second layouts
};

}  // namespace

std::vector<WalkedPhase> walk_forward(const SdpaWalk& walk) {
  Walker walker(walk);
  walker.forward();
  return walker.phases;
}

std::vector<WalkedPhase> walk_backward(const SdpaWalk& walk) {
  Walker walker(walk);
  walker.backward();
  return walker.phases;
}

}  // namespace ioattn_reference
