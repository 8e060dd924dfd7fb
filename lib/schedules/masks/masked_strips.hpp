#pragma once

#include "base/mask.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {

// Softmax weights and their gradients in pairs (kernels::PairGradients) of a tile that a mask cuts,
// some rows of queries at a time: of whole panels of keys that all of them see by the one kernel,
// of the others that one of them sees step by step. Nothing is made of what no row of a strip sees;
// what a row does not see becomes 0 as far as products take it (masked_product).
class MaskedStrips {
 public:
  using Product = kernels::Product<float, kernels::bf16x2>;

  // Rows of a strip, for a tile of so many: 0 if the tile is too low for any.
  static index_t rows_of_strip(index_t tile_rows);
  // Scores and q of the steps, in rows of the tile's stride.
  struct Scratch {
    float* rows;   // 2 * rows_of_strip()
    float* delta;  // of a strip
  };

  // `scores` and `q` are products of all rows and keys, and `all` is what becomes of these, of the
  // m keys there are.
  MaskedStrips(const kernels::KernelTable<float>& kernels, const Mask& mask, index_t m,
               const Range& rows, const Range& keys, const Product& scores, const Product& q,
               const kernels::PairGradients& all, const Scratch& scratch)
      : kernels_(kernels),
        mask_(mask),
        m_(m),
        rows_(rows),
        keys_(keys),
        all_{scores, q, all},
        scratch_(scratch) {}

  void make(index_t strip_rows) const;

 private:
  struct Part {
    Product scores, q;
    kernels::PairGradients made;
  };

  // Some keys, from a panel's first on, counted from the tile's first.
  Part part_of(const Range& strip, const Interval& some) const;
  Range keys_of(const Interval& some) const;
  bool has_few_keys(const Range& strip) const;
  void make_strip(const Range& strip) const;
  void make_at_once(const Range& strip, const Interval& some) const;
  void make_by_steps(const Range& strip, const Interval& some) const;
  void hide_beside(const Range& strip, const Interval& made) const;

  const kernels::KernelTable<float>& kernels_;
  const Mask& mask_;
  index_t m_;
  const Range &rows_, &keys_;
  Part all_;
  Scratch scratch_;
};

}  // namespace ioattn::schedules
