// SDPA in bf16 by products of pairs of terms, under masks: deaf to what a mask hides, true to what
// it does not, and the same bits for any blocks of rows.

#include <limits>

#include "schedules/pairs_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

constexpr bf16 strange[] = {{0x7fc0}, {0x7f80}, {0xff80}, {0xffff}, {0x7f81}};  // NaN, +-Inf, NaN

bf16 any_strange(RandomProblem* random) { return strange[random->uniform(0, 4)]; }

std::size_t place(index_t row, index_t col, index_t cols) {
  return std::size_t(row * (cols + 3) + col);
}

void make_single(SdpaShape* shape) {
  shape->batch = shape->heads = shape->kv_heads = 1;
  if (shape->has_bias()) shape->bias_batch = shape->bias_heads = 1;
}

bool sees(const SdpaShape& shape, index_t i, index_t j) {
  const Interval seen = shape.mask.of_row(i, shape.m);
  return j >= seen.begin && j < seen.end;
}

// Keys that some queries do not see, with numbers that spoil whatever they touch: nothing of those
// queries changes. The other way around, queries that do not see some keys.
TEST(MaskedPairs, HiddenNumbersTouchNothing) {
  RandomProblem random(92);
  int hidden = 0, hidden_by_rows = 0, of_bias = 0;
  for (int number = 0; number < 300 && !HasFailure(); number += step()) {
    Trial trial = random_trial(&random, number);
    if (!trial.shape.mask.hides()) continue;
    const index_t n = trial.shape.n, m = trial.shape.m;
    SdpaShape& shape = trial.shape;
    make_single(&shape);
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(trial.table->tile.isa));
    SdpaSet all = {true, true, true};
    const SdpaBlocks& blocks = trial.blocks;
    all.dBias = shape.has_bias() && !blocks.keys.one_pass;
    HalfCase<bf16> clean(shape), spoiled(shape);
    clean.randomise(unsigned(number));
    spoiled.set_inputs(clean);
    const auto some = [&](index_t size) {
      const index_t first = random.uniform(0, size - 1);
      return Interval{first, std::min(size, first + random.logarithmic(1, 8))};
    };
    const Interval keys = some(m), queries = some(n);
    const auto is_in = [](const Interval& interval, index_t x) {
      return x >= interval.begin && x < interval.end;
    };
    const auto spoil = [&](GapTensor<bf16>* tensor, const Interval& rows, index_t cols) {
      for (index_t i = rows.begin; i < rows.end; ++i)
        for (index_t k = 0; k < cols; ++k)
          tensor->values()[place(i, k, cols)] = any_strange(&random);
    };
    spoil(&spoiled.k, keys, shape.d);
    spoil(&spoiled.v, keys, shape.dv);
    spoil(&spoiled.q, queries, shape.d);
    spoil(&spoiled.d_o, queries, shape.dv);
    for (HalfCase<bf16>* each : {&clean, &spoiled}) {
      ASSERT_OK(each->forward(blocks.rows, {trial.table}));
      ASSERT_OK(each->backward(all, of_backward(blocks), {trial.table}));
    }
    const auto expect_same = [&](const GapTensor<bf16>& a, const GapTensor<bf16>& b, index_t row,
                                 index_t cols) {
      for (index_t k = 0; k < cols; ++k) {
        const std::size_t at = place(row, k, cols);
        ASSERT_EQ(a.values()[at].bits, b.values()[at].bits) << row << " " << k;
      }
    };
    std::vector<bool> is_lost(std::size_t(n), false);
    for (index_t i = 0; i < n; ++i) {
      bool lost = is_in(queries, i);
      for (index_t j = keys.begin; j < keys.end; ++j) lost = lost || sees(shape, i, j);
      is_lost[std::size_t(i)] = lost;
      if (lost) continue;
      ++hidden;
      expect_same(clean.o, spoiled.o, i, shape.dv);
      expect_same(clean.dq, spoiled.dq, i, shape.d);
      hidden_by_rows += !blocks.keys.one_pass;
      if (all.dBias) {
        ++of_bias;
        expect_same(clean.d_bias, spoiled.d_bias, i, shape.m);
      }
      const std::size_t at = place(0, i, n);
      ASSERT_TRUE(clean.lse.values()[at] == spoiled.lse.values()[at]) << i;
    }
    for (index_t j = 0; j < m; ++j) {
      bool lost = is_in(keys, j);
      for (index_t i = 0; i < n; ++i) lost = lost || (is_lost[std::size_t(i)] && sees(shape, i, j));
      if (lost) continue;
      ++hidden;
      expect_same(clean.dk, spoiled.dk, j, shape.d);
      expect_same(clean.dv, spoiled.dv, j, shape.dv);
    }
  }
  EXPECT_GT(hidden, 700 / step());
  EXPECT_GT(hidden_by_rows, 150 / step());
  EXPECT_GT(of_bias, 50 / step());
}

// SDPA in doubles, one head, by definition.
struct Oracle {
  const HalfCase<bf16>& in;
  std::vector<double> o, dq, dk, dv;  // with gaps

  explicit Oracle(const HalfCase<bf16>& problem)
      : in(problem), o(gaps(in.o)), dq(gaps(in.dq)), dk(gaps(in.dk)), dv(gaps(in.dv)) {}

  static std::vector<double> gaps(const GapTensor<bf16>& like) {
    return std::vector<double>(like.values().size(), std::numeric_limits<double>::quiet_NaN());
  }
  static double dot(const GapTensor<bf16>& a, index_t i, const GapTensor<bf16>& b, index_t j,
                    index_t cols) {
    double sum = 0;
    for (index_t k = 0; k < cols; ++k) sum += number(a, i, k, cols) * number(b, j, k, cols);
    return sum;
  }
  static double number(const GapTensor<bf16>& a, index_t i, index_t k, index_t cols) {
    return double(to_float(a.values()[place(i, k, cols)]));
  }
  double score(index_t i, index_t j) const {
    return double(0.37F) * dot(in.q, i, in.k, j, in.shape.d);
  }
  // to[row] += weight * from[term]
  static void add(double weight, const GapTensor<bf16>& from, index_t term, index_t cols,
                  index_t row, std::vector<double>* to) {
    for (index_t k = 0; k < cols; ++k)
      (*to)[place(row, k, cols)] += weight * number(from, term, k, cols);
  }
  static void clear(index_t rows, index_t cols, std::vector<double>* to) {
    for (index_t i = 0; i < rows; ++i)
      for (index_t k = 0; k < cols; ++k) (*to)[place(i, k, cols)] = 0;
  }

  void forward() {
    const SdpaShape& s = in.shape;
    clear(s.n, s.dv, &o);
    for (index_t i = 0; i < s.n; ++i) {
      const Interval seen = s.mask.of_row(i, s.m);
      double largest = -HUGE_VAL, sum = 0;
      for (index_t j = seen.begin; j < seen.end; ++j) largest = std::fmax(largest, score(i, j));
      const double shift = largest > -HUGE_VAL ? largest : 0;
      for (index_t j = seen.begin; j < seen.end; ++j) {
        const double weight = std::exp(score(i, j) - shift);
        sum += weight;
        add(weight, in.v, j, s.dv, i, &o);
      }
      for (index_t k = 0; k < s.dv; ++k) o[place(i, k, s.dv)] *= sum == 0 ? 0 : 1 / sum;
    }
  }
  // From LSE of the problem, and from its O or, as of queries that see few keys, without.
  enum class Delta { of_o, of_weights };
  void backward(Delta from) {
    const SdpaShape& s = in.shape;
    clear(s.n, s.d, &dq);
    clear(s.m, s.d, &dk);
    clear(s.m, s.dv, &dv);
    for (index_t i = 0; i < s.n; ++i) {
      const Interval seen = s.mask.of_row(i, s.m);
      const double lse = double(in.lse.values()[place(0, i, s.n)]);
      const auto weight = [&](index_t j) {
        return lse == -HUGE_VAL ? 0 : std::exp(score(i, j) - lse);
      };
      double delta = 0;
      if (from == Delta::of_o) {
        delta = dot(in.d_o, i, in.o, i, s.dv);
      } else {
        for (index_t j = seen.begin; j < seen.end; ++j)
          delta += weight(j) * dot(in.d_o, i, in.v, j, s.dv);
      }
      for (index_t j = seen.begin; j < seen.end; ++j) {
        const double f = weight(j);
        const double p = double(0.37F) * f * (dot(in.d_o, i, in.v, j, s.dv) - delta);
        add(f, in.d_o, i, s.dv, j, &dv);
        add(p, in.q, i, s.d, j, &dk);
        add(p, in.k, j, s.d, i, &dq);
      }
    }
  }
};

// The same NaN and infinities; whatever is finite is near, or may be as far as another number.
template <class A>
void expect_like(const char* name, const std::vector<A>& out, const std::vector<double>& expected,
                 const std::vector<double>& other, int* infinities) {
  double largest = 0.05;
  for (const double y : expected)
    if (std::isfinite(y)) largest = std::max(largest, std::fabs(y));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(to_compute(out[i])), y = expected[i];
    *infinities += std::isinf(y);
    if (std::isfinite(y)) {
      const double between = std::isfinite(other[i]) ? std::fabs(y - other[i]) : 0;
      ASSERT_LE(std::fabs(x - y), 5.0 / 256 * largest + between) << name << " " << i;
    } else {
      ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y)
          << name << " " << i << ": " << x << " for " << y;
    }
  }
}

// Here and there a number that is none.
TEST(MaskedPairs, VisibleNumbersArrive) {
  static const auto tables = tables_of_pairs();
  RandomProblem random(93);
  int of_o = 0, of_dq = 0, of_dk = 0, of_dv = 0;  // infinities
  for (int number = 0; number < 250 && !HasFailure(); number += step()) {
    SdpaShape shape;
    shape.batch = shape.heads = shape.kv_heads = 1;
    const index_t most = number % 8 == 7 ? 100 : 40;
    shape.n = random.uniform(1, most), shape.m = random.uniform(1, most);
    shape.d = random.uniform(1, 12), shape.dv = random.uniform(1, 40);
    shape.mask = random.mask(shape.n, shape.m);
    SdpaBlocks blocks = any_blocks(&random);
    blocks.by_keys = Schedule::tile_fused;
    blocks.keys.packed = true;  // cleared of hidden numbers for a tile, and not for the next
    Blocks by_tiles = blocks.rows;
    by_tiles.r = 0;
    const auto* table = tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(table->tile.isa));
    HalfCase<bf16> half(shape);
    half.randomise(unsigned(number));
    const auto spoil = [&](GapTensor<bf16>* tensor, index_t rows, index_t cols) {
      for (index_t count = random.uniform(1, 3); count > 0; --count)
        tensor->values()[place(random.uniform(0, rows - 1), random.uniform(0, cols - 1), cols)] =
            any_strange(&random);
    };
    switch (number % 5) {
      case 0: spoil(&half.v, shape.m, shape.dv); break;
      case 1: spoil(&half.d_o, shape.n, shape.dv); break;
      case 2: spoil(&half.k, shape.m, shape.d); break;
      case 3: spoil(&half.q, shape.n, shape.d); break;
      default: spoil(&half.v, shape.m, shape.dv), spoil(&half.d_o, shape.n, shape.dv);
    }
    Oracle oracle(half);
    ASSERT_OK(half.forward(by_tiles, {table}));
    oracle.forward();
    expect_like("O", half.o.values(), oracle.o, oracle.o, &of_o);
    HalfCase<bf16, float> gradients(shape);
    gradients.set_inputs(half);
    gradients.set_forward(half);
    ASSERT_OK(gradients.backward({true, true, true}, of_backward(blocks), {table}));
    Oracle other = oracle;
    oracle.backward(Oracle::Delta::of_o);
    other.backward(Oracle::Delta::of_weights);
    expect_like("dQ", gradients.dq.values(), oracle.dq, other.dq, &of_dq);
    expect_like("dK", gradients.dk.values(), oracle.dk, other.dk, &of_dk);
    expect_like("dV", gradients.dv.values(), oracle.dv, other.dv, &of_dv);
  }
  // Those of dQ meet NaN.
  for (const int infinities : {of_o, of_dk, of_dv}) EXPECT_GT(infinities, 100 / step());
}

// Rows are grouped by their indices: whatever the blocks, O, LSE and dQ are the same bits. (The
// first key that a block of queries sees is where its tiles begin, so no mask may hide keys before
// it.)
TEST(MaskedPairs, BlocksOfRowsChangeNoBits) {
  const index_t n = 77, m = 101;
  for (const auto* table : tables_of_pairs()) {
    for (const Mask& mask : {causal_top_left(), causal_bottom_right(n, m), window(0, 30, 5),
                             window(m - n, 7, -1), window(-9, 40, 20)}) {
      SdpaShape shape = {1, 1, 1, n, m, 20, 24};
      shape.mask = mask;
      SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(table->tile.isa));
      HalfCase<bf16> half(shape);
      HalfCase<bf16, float> gradients(shape);
      half.randomise(5);
      SdpaBlocks blocks;
      blocks.by_keys = Schedule::tile_fused;
      blocks.rows.form = blocks.keys.form = Form::h;
      blocks.rows.products = Products::stored;
      blocks.rows.c = blocks.keys.c = 43;
      blocks.rows.w = blocks.keys.w = 20;
      blocks.rows.o = 20;
      std::vector<bf16> o;
      std::vector<float> lse, dq, dq_by_rows;
      for (const index_t rho : {n, index_t(32), index_t(40), index_t(7), index_t(1)}) {
        blocks.rows.rho = blocks.keys.rho = rho;
        blocks.rows.r = 0;
        if (o.empty() || mask.first == -Mask::unbounded) {
          ASSERT_OK(half.forward(blocks.rows, {table}));
          if (o.empty()) o = half.o.values(), lse = half.lse.values();
          EXPECT_TRUE(same_bytes(half.o.values(), o)) << rho;
          EXPECT_TRUE(same_bytes(half.lse.values(), lse)) << rho;
          gradients.set_inputs(half);
          gradients.set_forward(half);
        }
        for (const bool one_pass : {true, false}) {
          blocks.keys.one_pass = one_pass;
          blocks.keys.packed = rho % 32 == 0;
          std::vector<float>& expected = one_pass ? dq : dq_by_rows;
          ASSERT_OK(gradients.backward({true, true, true}, of_backward(blocks), {table}));
          if (expected.empty()) expected = gradients.dq.values();
          EXPECT_TRUE(same_bytes(gradients.dq.values(), expected)) << rho << " " << one_pass;
        }
      }
    }
  }
}

// Tiles of many queries are made by strips where a mask cuts them, those of few in one piece: the
// same but for the last bits of what is rounded.
TEST(MaskedPairs, StripsMakeWhatTilesMake) {
  const index_t n = 270, m = 301;
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) && same_bytes<float>({a[i]}, {b[i]})) continue;  // between rows
      difference += double(a[i] - b[i]) * double(a[i] - b[i]);
      norm += double(a[i]) * double(a[i]);
    }
    return std::sqrt(difference / norm);
  };
  for (const auto* table : tables_of_pairs()) {
    for (const Mask& mask :
         {causal_top_left(), causal_bottom_right(n, m), causal_bottom_right(m, n), window(0, 30, 5),
          window(m - n, 150, -1), window(-9, 190, 70), window(17, -1, -3)}) {
      SdpaShape shape = {1, 1, 1, n, m, 20, 24};
      shape.mask = mask;
      SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(table->tile.isa));
      HalfCase<bf16> half(shape);
      half.randomise(6);
      SdpaBlocks blocks;
      blocks.by_keys = Schedule::tile_fused;
      blocks.rows.form = blocks.keys.form = Form::h;
      blocks.rows.products = Products::stored;
      blocks.rows.w = blocks.keys.w = 24;
      blocks.rows.c = 64;
      blocks.rows.rho = blocks.rows.o = 20;
      blocks.keys.one_pass = true;
      ASSERT_OK(half.forward(blocks.rows, {table}));
      HalfCase<bf16, float> tiles(shape), strips(shape);
      const auto run = [&](index_t c, index_t rho, HalfCase<bf16, float>* of) {
        of->set_inputs(half);
        of->set_forward(half);
        blocks.keys.c = c;
        blocks.keys.rho = rho;
        ASSERT_OK(of->backward({true, true, true}, of_backward(blocks), {table}));
      };
      run(43, 32, &tiles);
      for (const index_t c : {128, 301}) {
        for (const index_t rho : {128, 256}) {
          run(c, rho, &strips);
          const auto check = [&](const char* name, const auto& expected, const auto& made) {
            const double error = distance(expected, made);
            EXPECT_TRUE(error < 4e-3) << name << " " << c << " " << rho << ": " << error;
          };
          check("dQ", tiles.dq.values(), strips.dq.values());
          check("dK", tiles.dk.values(), strips.dk.values());
          check("dV", tiles.dv.values(), strips.dv.values());
        }
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
