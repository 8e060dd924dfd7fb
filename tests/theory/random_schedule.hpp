#pragma once

#include <functional>
#include <random>
#include <vector>

#include "base/problem.hpp"
#include "base/sdpa.hpp"
#include "theory/farthest_use.hpp"

// Random algorithms of class F, run word by word: every multiply-add once, one accumulator per
// entry, whatever order of blocks, slices and products; fast memory is managed by farthest next
// use.
namespace ioattn_test {

class RandomSchedule {
 public:
  explicit RandomSchedule(std::uint64_t seed) : generator_(seed) {}

  // dX of the layer problem in a random form; the mask hides pairs.
  Moved layer(const ioattn::LayerShape& shape, index_t M);
  // One that keeps as many rows, or columns, as fit: close to the least where these are many.
  Moved streamed_layer(const ioattn::LayerShape& shape, index_t M);
  // O of one head, or gradients of it; tied, V is the memory of K. one_sum: dK + dV is one output.
  Moved sdpa_forward(const ioattn::LayerShape& head, index_t M);
  Moved sdpa_backward(const ioattn::LayerShape& head, const ioattn::SdpaSet& set, index_t M,
                      bool one_sum = false);

  index_t below(index_t limit) { return index_t(generator_() % std::uint64_t(limit)); }
  index_t between(index_t low, index_t high) { return low + below(high - low + 1); }

 private:
  struct Matrix {
    int first = 0;
    index_t cols = 0;
    int at(index_t i, index_t j) const { return first + int(i * cols + j); }
  };
  // c_(i or j),k or pair += a b over k of one width, a and b indexed by the pair's row or column.
  enum class Kind { score, row_sum, column_sum };
  struct Family {
    Kind kind;
    Matrix of_rows, of_columns;  // row_sum: the sum and its factor; column_sum: the factor, the sum
    Matrix pairs;
    index_t width;
    int pass = 0;
    index_t first = 0;  // slice [first, width)
  };

  Matrix matrix(index_t rows, index_t cols, bool in_memory, bool output);
  void begin();
  Moved run_layer(const ioattn::LayerShape& shape, index_t M);
  void product(const Matrix& c, const Matrix& a, const Matrix& b, index_t rows, index_t inner,
               index_t cols, bool b_transposed);
  using OfRows = std::function<void(index_t first, index_t last)>;
  void add_slices(Family family, int first_pass, int last_pass);
  void run_passes(const ioattn::LayerShape& shape, index_t M, int passes, int p_pass,
                  const Matrix& scores, const Matrix& q, const OfRows& before = {},
                  const OfRows& after = {});
  index_t most_kept(bool rows, index_t M) const;
  void emit(const Family& family, index_t i0, index_t i1, index_t j0, index_t j1,
            const ioattn::LayerShape& shape, int order);

  std::mt19937_64 generator_;
  bool streams_ = false;   // one pass over single rows or columns, past as many as may fit
  bool by_pairs_ = false;  // all that is done with a pair, then the next pair
  bool keeps_most_ = false;
  std::vector<MultiplyAdd> trace_;
  std::vector<Family> families_;
  std::vector<char> in_memory_, output_;
};

}  // namespace ioattn_test
