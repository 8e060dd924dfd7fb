#include "schedules/layer/gradient_phases.hpp"

#include <optional>

#include "schedules/keys/col_stream.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/stored_products.hpp"
#include "schedules/rows/u_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/sharing/key_pass.hpp"
#include "schedules/task.hpp"
#include "schedules/tiles/tile_fused.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// A matrix of the caller's, or scratch memory where it is not wanted for itself.
template <class T>
class Result {
 public:
  Result() = default;
  Result(const MatrixView<T>& wanted, bool needed, index_t rows, index_t cols,
         WorkspaceLayout* layout)
      : view_(wanted), scratch_(needed && wanted.data == nullptr) {
    if (!scratch_) return;
    view_ = {nullptr, rows, cols, cols};
    slot_ = layout->add<T>(rows * cols);
  }
  MatrixView<T> in(void* workspace) const {
    MatrixView<T> view = view_;
    if (scratch_) view.data = slot_.in(workspace);
    return view;
  }

 private:
  MatrixView<T> view_;
  bool scratch_ = false;
  Slot<T> slot_;
};

template <class T>
Factor<T> result_of(Operand operand, const MatrixView<T>& view) {
  return {operand, view.data, view.stride};
}
template <class T>
Factor<const T> factor_of(Operand operand, const MatrixView<T>& view) {
  return as_const(result_of(operand, view));
}

// P: of S, G and h in memory: of pairs S, else in compute.
template <class S, class P>
class GradientPhases {
 public:
  using T = Compute<S>;

  explicit GradientPhases(const GradientTask<S>& task)
      : task_(task),
        steps_(steps_of(task.out.set(), task.shape.tie, task.blocks.rows.form)),
        seeing_(seeing_queries(task.shape)),
        seen_(seen_keys(task.shape)),
        trace_(Trace::of_layer(task.observer, is_half_storage<S>)),
        threads_(task.workers()) {
    const auto [n, m, d, e, tie, mask] = task.shape;
    const LayerGradients<T, S>& out = task.out;
    const bool values =
        steps_.key_gradients == KeyGradients::values || steps_.key_gradients == KeyGradients::both;
    const bool h_form = task.blocks.rows.form == Form::h;
    da1_ =
        Result<T>(steps_.one_sum && tie == Tie::all ? out.da : out.da1, steps_.da1, n, d, &layout_);
    da2_ = Result<T>(steps_.one_sum ? out.da : out.da2,
                     steps_.keys && steps_.key_gradients != KeyGradients::values, m, d, &layout_);
    da3_ = Result<T>(steps_.one_sum ? out.da : out.da3,
                     steps_.da3 || (steps_.keys && values && !h_form), m, d, &layout_);
    w_ = Result<T>({}, steps_.keys && values && h_form, m, e, &layout_);
  }

  Status run() {
    const auto [n, m, d, e, tie, mask] = task_.shape;
    const LayerBlocks& blocks = task_.blocks;
    const ProductPass<T> dx =
        product(steps_.dx && !steps_.alone, d, seeing_.size(), d, blocks.rows.x);
    const ProductPass<T> da3 = product(steps_.da3, m, e, d, blocks.da3);
    const ProductPass<T> dy = product(steps_.dy, d, seen_.size(), e, blocks.dy);
    const ProductPass<T> da1 = product(steps_.da1, n, d, d, blocks.da1);
    const Status status = steps_.alone ? run_alone() : run_passes(dx, da3, dy, da1);
    if (!status.is_ok()) return status;

    if (steps_.parts) add_parts();
    return Status::ok();
  }

 private:
  BackwardTask<S> backward_task() const {
    BackwardTask<S> rows;
    static_cast<Execution<T>&>(rows) = task_;
    rows.shape = task_.shape;
    rows.in = task_.in;
    rows.d_o = task_.d_o;
    rows.o = task_.o;
    rows.lse = task_.lse;
    rows.blocks = task_.blocks.rows;
    return rows;
  }

  ProductPass<T> product(bool runs, index_t n1, index_t k, index_t n2,
                         const ProductBlocks& blocks) {
    if (!runs) return {};
    return ProductPass<T>(n1, k, n2, blocks, task_.kernels->tile.cols, threads_, &layout_,
                          factors_of<S>);
  }
  template <class A, class B>
  void multiply(const char* phase, const ProductPass<T>& pass, const Factor<const A>& a,
                const Factor<const B>& b, const Factor<T>& c, bool accumulate = false) const {
    trace_.phase(phase);
    pass.run(*task_.kernels, trace_, a, b, c, memory_.data(), accumulate);
  }

  // Products of pairs are tile_fused's, which has no pass over the queries.
  static constexpr bool of_pairs = is_half_storage<P>;

  // dX by a backward schedule of any kind, which allocates for itself.
  Status run_alone() {
    const Status allocated = layout_.allocate(task_.memory, &memory_);
    const bool asked = task_.memory != nullptr && task_.memory->only_tells();
    if ((!allocated.is_ok() && !asked) || !steps_.dx) return allocated;
    BackwardTask<S> rows = backward_task();
    rows.dx = task_.out.dx;
    return run_backward(task_.blocks.schedule, rows);
  }

  Status run_passes(const ProductPass<T>& dx, const ProductPass<T>& da3, const ProductPass<T>& dy,
                    const ProductPass<T>& da1) {
    const BackwardTask<S> rows = backward_task();
    StoredNeeds needs;
    needs.delta = steps_.delta;
    needs.values = steps_.values;
    needs.u = steps_.rows;
    needs.dx = false;  // a product of its own
    const StoredProducts<S, P> thin(rows, threads_, &layout_, needs);
    std::optional<UPass<S>> pass;
    if (has_row_pass(steps_, task_.blocks)) {
      pass.emplace(task_.blocks.schedule, rows, threads_, &layout_);
    }
    const KeyPasses keys = key_passes();
    const Status allocated = layout_.allocate(task_.memory, &memory_);
    if (!allocated.is_ok()) return allocated;
    void* memory = memory_.data();

    thin.run(trace_, memory);
    if constexpr (!of_pairs) {
      if (pass) pass->run(trace_, thin, memory);
    }
    if (task_.blocks.keys.one_pass) run_keys(keys, thin);
    if (steps_.dx) {
      multiply("dX", dx, transposed(part_from(factor(Operand::A1, task_.in.a1), seeing_.begin, 0)),
               part_from(factor_of(Operand::U, thin.u(memory)), seeing_.begin, 0),
               result_of(Operand::dX, task_.out.dx));
    }
    if (!task_.blocks.keys.one_pass) run_keys(keys, thin);

    const MatrixView<T> w = w_.in(memory), da3_result = da3_.in(memory);
    if (steps_.da3) {
      multiply("dA3", da3, factor_of(Operand::W, w), transposed(factor(Operand::Y, task_.in.y)),
               result_of(steps_.one_sum ? Operand::dA : Operand::dA3, da3_result), steps_.one_sum);
    }
    if (steps_.dy) {
      multiply("dY", dy, transposed(part_from(factor(Operand::A3, task_.in.a3), seen_.begin, 0)),
               part_from(factor_of(Operand::W, w), seen_.begin, 0),
               result_of(Operand::dY, task_.out.dy));
    }
    if (steps_.da1) {
      const bool onto_sum = steps_.one_sum && task_.shape.tie == Tie::all;
      with_x(task_.in, [&](const auto& x) {
        multiply("dA1", da1, factor_of(Operand::U, thin.u(memory)), transposed(x),
                 result_of(onto_sum ? Operand::dA : Operand::dA1, da1_.in(memory)), onto_sum);
      });
    }
    return Status::ok();
  }

  // What makes dA2, the gradient of the values, and U on the way.
  struct KeyPasses {
    std::optional<ColStream<S, P>> columns;
    std::optional<TileFused<P, PairsOf<P>>> tiles;
  };
  KeyPasses key_passes() {
    KeyPasses keys;
    if (!has_key_pass(steps_, task_.blocks)) return keys;
    const KeyPassKind kind = key_pass(steps_, task_.blocks).in_parts(of_pairs);
    const index_t nr = task_.kernels->tile.cols;
    if constexpr (std::is_same_v<S, P>) {
      if (task_.blocks.by_keys == Schedule::tile_fused) {
        keys.tiles.emplace(task_.shape, task_.blocks.keys, kind, nr, threads_, &layout_);
        return keys;
      }
    }
    keys.columns.emplace(task_.shape, task_.blocks.keys, kind, nr, threads_, &layout_);
    return keys;
  }
  void run_keys(const KeyPasses& keys, const StoredProducts<S, P>& thin) const {
    void* memory = memory_.data();
    const KeyPassOperands<S, P> operands = key_operands(thin);
    if (keys.columns) keys.columns->run(*task_.kernels, trace_, operands, memory);
    if constexpr (std::is_same_v<S, P>) {
      if (!keys.tiles) return;
      const Trace trace = Trace::of_layer_pairs(task_.observer, of_pairs);
      trace.phase("tile_fused");
      run_key_pass(*keys.tiles, threads_, *task_.kernels, trace, operands, memory,
                   of_pairs ? task_.kernels->pairs_of_bf16 : nullptr);
    }
  }
  KeyPassOperands<S, P> key_operands(const StoredProducts<S, P>& thin) const {
    void* memory = memory_.data();
    KeyPassOperands<S, P> operands;
    operands.keys = task_.in.a2;
    if (task_.blocks.rows.form == Form::h) {
      if (steps_.values) operands.values = thin.h(memory);
      operands.d_o = task_.d_o;
      operands.d_values = w_.in(memory);
    } else {
      operands.a3 = task_.in.a3;
      operands.g = thin.g(memory);
      operands.d_values = da3_.in(memory);
    }
    operands.queries = thin.s(memory);
    operands.rest_of_queries = thin.rest_of_s();
    operands.scale = T(task_.in.scale);
    operands.lse = task_.lse;
    operands.delta = steps_.delta ? thin.delta(memory) : nullptr;
    operands.d_keys = da2_.in(memory);
    operands.d_keys_name = steps_.one_sum ? Operand::dA : Operand::dA2;
    if (task_.blocks.keys.one_pass) operands.d_queries = thin.u(memory);
    return operands;
  }

  // dA = dA2 + dA3 (+ dA1), of which some are results themselves.
  void add_parts() const {
    void* memory = memory_.data();
    const index_t m = task_.shape.m, d = task_.shape.d;
    struct Part {
      Operand operand;
      MatrixView<T> matrix;
    };
    const Part parts[] = {{Operand::dA2, da2_.in(memory)},
                          {Operand::dA3, da3_.in(memory)},
                          {Operand::dA1, da1_.in(memory)}};
    const int count = task_.shape.tie == Tie::all ? 3 : 2;
    trace_.phase("dA");
    for (index_t i = 0; i < m; ++i) {
      for (Range cols(d, task_.blocks.sum); cols; cols.next()) {
        const Block sum = {Operand::dA, i, cols.begin, 1, cols.size()};
        T* target = task_.out.da.at(i, cols.begin);
        trace_.create(sum);
        for (int k = 0; k < count; ++k) {
          const Block block = {parts[k].operand, i, cols.begin, 1, cols.size()};
          const T* part = parts[k].matrix.at(i, cols.begin);
          trace_.read(block);
          tell_read(*task_.kernels, part, cols.size());
          tell_written(*task_.kernels, target, cols.size());
          for (index_t j = 0; j < cols.size(); ++j)
            target[j] = k == 0 ? part[j] : target[j] + part[j];
          trace_.remove(block);
        }
        trace_.write_and_remove(sum);
      }
    }
  }

  const GradientTask<S>& task_;
  GradientSteps steps_;
  Interval seeing_, seen_;  // queries that see a key, keys that are seen
  Trace trace_;
  int threads_;
  WorkspaceLayout layout_;
  WorkspaceMemory memory_;
  Result<T> da1_, da2_, da3_, w_;
};

}  // namespace

template <class S>
Status gradients_of_entry(const GradientTask<S>& task) {
  if constexpr (are_pairs<PairsOf<S>>) {
    if (task.blocks.by_keys == Schedule::tile_fused) return GradientPhases<S, S>(task).run();
  }
  return GradientPhases<S, Compute<S>>(task).run();
}

template Status gradients_of_entry(const GradientTask<float>&);
template Status gradients_of_entry(const GradientTask<double>&);
template Status gradients_of_entry(const GradientTask<bf16>&);
template Status gradients_of_entry(const GradientTask<f16>&);

}  // namespace ioattn::schedules
