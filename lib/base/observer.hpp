#pragma once

#include "base/types.hpp"

namespace ioattn {

// The matrices of the layer problem (paper, section 3) and of the schedules' own intermediates.
enum class Operand : std::uint8_t {
  A1,
  A2,
  A3,
  X,
  Y,
  dO,
  W_Q,
  W_K,  // inputs
  O,
  LSE,
  dX,
  dY,
  dA1,
  dA2,
  dA3,
  dA,  // sum over the operands that share memory
  dW_Q,
  dW_K,    // outputs
  W,       // f^T dO
  S,       // A1 X
  K,       // A2 X^T
  G,       // dO Y^T
  h,       // A3 Y
  scores,  // S A2^T, then f = exp(scores - LSE)
  q,       // dO h^T = G A3^T
  f,       // softmax
  p,       // f o (q - delta)
  U,       // p A2
  T,       // A1^T p
  Z,       // f A3
  delta,   // rowsum(O o dO)
  row_max,
  row_sum,
  rescale,    // online softmax, one word per row
  A1_panels,  // second layout of rows of A1, queries as lanes
  scaled_X,
  part,       // what one entry of a batch adds to dX or dY
  dQ,         // scale * U
  A2_rows,    // second layout of a block of A2, keys as rows
  bias,       // of the scores
  dBias,      // p, summed over the heads that share a bias
  dO_panels,  // second layout of a block of dO, columns as lanes
  p_pairs,    // f, then p, rounded to pairs of terms
  A2_panels,  // second layout of a block of A2, keys as lanes
  h_panels,   // second layout of a block of h, keys as lanes
};
constexpr int operand_count = static_cast<int>(Operand::h_panels) + 1;
const char* name_of(Operand operand);

// A block of an operand: `rows` x `cols` words from (row, col). Its key is (operand, row, col):
// a schedule names a block the same way from its read or create to its remove.
struct Block {
  Operand operand;
  index_t row, col;
  index_t rows, cols;
  // Words of an element in slow memory and while it is resident. Of a problem in 16 bits, whose
  // words have 2 bytes, f32 weighs 2, and what is resident is f32 unless products are of pairs.
  index_t stored_words = 1, resident_words = 1;

  index_t words() const { return rows * cols * resident_words; }
  index_t moved_words() const { return rows * cols * stored_words; }
};

// What a schedule reports while it runs: one call per block, none per element. Words are logical
// words of the problem's dtype: no padding, no alignment. A conversion takes place where a block is
// read or written. Counting runs are sequential.
class Observer {
 public:
  virtual ~Observer() = default;

  // The events that follow belong to the named phase ("1a", "row_stream", ...; static storage).
  virtual void phase(const char* name) = 0;
  virtual void read(const Block& block) = 0;    // becomes resident; copied or used in place
  virtual void create(const Block& block) = 0;  // resident without a read
  virtual void write(const Block& block) = 0;   // resident before and after
  virtual void remove(const Block& block) = 0;  // no longer resident; nothing moves
};

}  // namespace ioattn
