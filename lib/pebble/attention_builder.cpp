#include <algorithm>

#include "pebble/sums.hpp"

namespace ioattn::pebble {

class AttentionCdag::Builder {
 public:
  explicit Builder(AttentionCdag* cdag)
      : cdag_(*cdag), recipe_(cdag->recipe_), shape_(recipe_.shape) {}

  void build() {
    const auto [n, m, d, e, tie, mask] = shape_;
    const bool keys = recipe_.pass == Pass::backward_keys;
    input(Value::A2, m, d);
    if (tie == Tie::all && !keys) same(Value::A1, Value::A2);
    if (tie != Tie::none) same(Value::A3, Value::A2);
    scores();
    weights();
    if (recipe_.pass == Pass::forward) {
      result();
      return;
    }
    if (!keys || recipe_.d_keys || recipe_.d_sum || recipe_.d_queries) {
      values();
      p();
    } else {
      input(h_form() ? Value::dO : Value::G, n, h_form() ? e : d);
    }
    if (keys) {
      key_gradients();
    } else {
      d_x();
    }
  }

 private:
  node_t root(Value value, index_t i, index_t j) const { return cdag_.at(value, i, j).root; }
  bool is(Statistics s) const { return recipe_.statistics == s; }
  bool h_form() const { return recipe_.form == Form::h; }

  Matrix& shaped(Value value, index_t rows, index_t cols) {
    Matrix& matrix = cdag_.matrices_[static_cast<std::size_t>(value)];
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.entries.resize(static_cast<std::size_t>(rows * cols));
    return matrix;
  }
  template <class Fill>
  void fill(Value value, index_t rows, index_t cols, const Fill& fill_entry) {
    Matrix& matrix = shaped(value, rows, cols);
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j)
        fill_entry(i, j, &matrix.entries[static_cast<std::size_t>(i * cols + j)]);
  }

  // Inputs that are there already stay.
  void input(Value value, index_t rows, index_t cols) {
    if (cdag_.has(value)) return;
    fill(value, rows, cols, [&](index_t i, index_t j, Entry* entry) {
      entry->root = cdag_.graph_.add(node_of(value, Role::input, i, j), {});
    });
  }
  void same(Value value, Value as) {
    cdag_.matrices_[static_cast<std::size_t>(value)] = cdag_.matrix(as);
  }

  void add_product(Value value, index_t i, index_t j, node_t a, node_t b, Entry* entry) {
    const index_t term = static_cast<index_t>(entry->terms.size());
    entry->terms.push_back(
        cdag_.graph_.add(node_of(value, Role::product, i, j, term), std::vector{a, b}));
  }
  void finish_sum(Value value, index_t i, index_t j, Entry* entry) {
    add_sum(node_of(value, Role::sum, i, j), recipe_.tree, &cdag_.graph_, entry);
  }

  // value(i, j) = sum over t < depth of a(i, t) b(t, j), either read transposed if it is said.
  enum class Read : std::uint8_t { plain, transposed };
  void product(Value value, index_t rows, index_t depth, index_t cols, Value a, Read read_a,
               Value b, Read read_b) {
    fill(value, rows, cols, [&](index_t i, index_t j, Entry* entry) {
      for (index_t t = 0; t < depth; ++t) {
        add_product(value, i, j, read_a == Read::plain ? root(a, i, t) : root(a, t, i),
                    read_b == Read::plain ? root(b, t, j) : root(b, j, t), entry);
      }
      finish_sum(value, i, j, entry);
    });
  }
  template <class Parents>
  void function(Value value, index_t rows, index_t cols, const Parents& parents) {
    fill(value, rows, cols, [&](index_t i, index_t j, Entry* entry) {
      entry->root = cdag_.graph_.add(node_of(value, Role::function, i, j), parents(i, j));
    });
  }
  // value(i) = sum over the columns of another matrix
  void row_sums(Value value, index_t rows, index_t cols, Value of) {
    fill(value, rows, 1, [&](index_t i, index_t, Entry* entry) {
      for (index_t j = 0; j < cols; ++j) entry->terms.push_back(root(of, i, j));
      finish_sum(value, i, 0, entry);
    });
  }
  void output(Value value) {
    for (const Entry& entry : cdag_.matrix(value).entries) cdag_.graph_.add_output(entry.root);
  }

  void scores() {
    const auto [n, m, d, e, tie, mask] = shape_;
    if (recipe_.scores == ScoreBracket::given) {
      input(Value::S, n, d);
    } else {
      input(Value::A1, n, d);
      input(Value::X, d, d);
    }
    if (recipe_.scores == ScoreBracket::k) {
      product(Value::K, m, d, d, Value::A2, Read::plain, Value::X, Read::transposed);
      product(Value::scores, n, d, m, Value::A1, Read::plain, Value::K, Read::transposed);
      return;
    }
    if (recipe_.scores == ScoreBracket::s)
      product(Value::S, n, d, d, Value::A1, Read::plain, Value::X, Read::plain);
    product(Value::scores, n, d, m, Value::S, Read::plain, Value::A2, Read::transposed);
  }

  void weights() {
    const index_t n = shape_.n, m = shape_.m;
    const auto shifted = [&] {
      function(Value::f, n, m, [&](index_t i, index_t j) {
        return std::vector{root(Value::scores, i, j), root(Value::LSE, i, 0)};
      });
    };
    if (is(Statistics::from_output) || is(Statistics::given)) {
      input(Value::LSE, n, 1);
      shifted();
      return;
    }
    function(Value::weight, n, m,
             [&](index_t i, index_t j) { return std::vector{root(Value::scores, i, j)}; });
    row_sums(Value::row_sum, n, m, Value::weight);
    if (recipe_.pass == Pass::forward) {
      function(Value::LSE, n, 1,
               [&](index_t i, index_t) { return std::vector{root(Value::row_sum, i, 0)}; });
      output(Value::LSE);
    }
    if (is(Statistics::log_sum)) shifted();
    if (is(Statistics::computed)) {
      function(Value::f, n, m, [&](index_t i, index_t j) {
        return std::vector{root(Value::weight, i, j), root(Value::row_sum, i, 0)};
      });
    }
  }

  // Forward: O of the weights.
  void result() {
    const auto [n, m, d, e, tie, mask] = shape_;
    const bool deferred = is(Statistics::deferred);
    const Value weight = deferred ? Value::weight : Value::f;
    const Value target = h_form() ? Value::O : Value::Z;
    const Value sum = !deferred ? target : h_form() ? Value::O_sum : Value::Z_sum;
    const index_t width = h_form() ? e : d;
    if (h_form()) {
      h();
    } else {
      input(Value::A3, m, d);
      input(Value::Y, d, e);
    }
    product(sum, n, m, width, weight, Read::plain, h_form() ? Value::h : Value::A3, Read::plain);
    if (deferred) {
      function(target, n, width, [&](index_t i, index_t k) {
        return std::vector{root(sum, i, k), root(Value::row_sum, i, 0)};
      });
    }
    if (!h_form()) product(Value::O, n, d, e, Value::Z, Read::plain, Value::Y, Read::plain);
    output(Value::O);
  }

  void h() {
    const auto [n, m, d, e, tie, mask] = shape_;
    if (recipe_.given_values) {
      input(Value::h, m, e);
      return;
    }
    input(Value::A3, m, d);
    input(Value::Y, d, e);
    product(Value::h, m, d, e, Value::A3, Read::plain, Value::Y, Read::plain);
  }

  void values() {
    const auto [n, m, d, e, tie, mask] = shape_;
    if (h_form()) {
      input(Value::dO, n, e);
      h();
      product(Value::q, n, e, m, Value::dO, Read::plain, Value::h, Read::transposed);
      return;
    }
    input(Value::A3, m, d);
    if (recipe_.given_values) {
      input(Value::G, n, d);
    } else {
      input(Value::dO, n, e);
      input(Value::Y, d, e);
      product(Value::G, n, e, d, Value::dO, Read::plain, Value::Y, Read::transposed);
    }
    product(Value::q, n, d, m, Value::G, Read::plain, Value::A3, Read::transposed);
  }

  void p() {
    const auto [n, m, d, e, tie, mask] = shape_;
    const auto times = [&](Value value, Value factor, bool of_row) {
      function(value, shape_.n, shape_.m, [&](index_t i, index_t j) {
        return std::vector{root(Value::f, i, j), root(factor, i, of_row ? 0 : j)};
      });
    };
    if (is(Statistics::computed)) {
      times(Value::f_q, Value::q, false);
      row_sums(Value::delta, n, m, Value::f_q);
      times(Value::f_delta, Value::delta, true);
      function(Value::p, n, m, [&](index_t i, index_t j) {
        return std::vector{root(Value::f_q, i, j), root(Value::f_delta, i, j)};
      });
      return;
    }
    if (is(Statistics::given)) {
      input(Value::delta, n, 1);
    } else {
      input(Value::O, n, e);
      fill(Value::delta, n, 1, [&](index_t i, index_t j, Entry* entry) {
        for (index_t k = 0; k < shape_.dv; ++k)
          add_product(Value::delta, i, j, root(Value::O, i, k), root(Value::dO, i, k), entry);
        finish_sum(Value::delta, i, j, entry);
      });
    }
    function(Value::difference, n, m, [&](index_t i, index_t j) {
      return std::vector{root(Value::q, i, j), root(Value::delta, i, 0)};
    });
    times(Value::p, Value::difference, false);
  }

  void d_x() {
    const auto [n, m, d, e, tie, mask] = shape_;
    if (recipe_.gradient == GradientBracket::u) {
      product(Value::U, n, m, d, Value::p, Read::plain, Value::A2, Read::plain);
      product(Value::dX, d, n, d, Value::A1, Read::transposed, Value::U, Read::plain);
    } else {
      const index_t rows = recipe_.t_rows == 0 ? n : std::min(recipe_.t_rows, n);
      const index_t blocks = ceil_div(n, rows);
      fill(Value::T, blocks * d, m, [&](index_t row, index_t j, Entry* entry) {
        const index_t first = row / shape_.d * rows;
        for (index_t i = first; i < std::min(first + rows, shape_.n); ++i)
          add_product(Value::T, row, j, root(Value::A1, i, row % shape_.d), root(Value::p, i, j),
                      entry);
        finish_sum(Value::T, row, j, entry);
      });
      fill(Value::dX, d, d, [&](index_t k, index_t l, Entry* entry) {
        for (index_t block = 0; block < blocks; ++block)
          for (index_t j = 0; j < shape_.m; ++j)
            add_product(Value::dX, k, l, root(Value::T, block * shape_.d + k, j),
                        root(Value::A2, j, l), entry);
        finish_sum(Value::dX, k, l, entry);
      });
    }
    output(Value::dX);
  }

  void key_gradients() {
    const auto [n, m, d, e, tie, mask] = shape_;
    const auto transposed_product = [&](Value value, index_t width, Value weight, Value rows) {
      product(value, shape_.m, shape_.n, width, weight, Read::transposed, rows, Read::plain);
      output(value);
    };
    if (recipe_.d_sum) {
      fill(Value::dA, m, d, [&](index_t j, index_t k, Entry* entry) {
        for (index_t i = 0; i < shape_.n; ++i) {
          add_product(Value::dA, j, k, root(Value::f, i, j), root(Value::G, i, k), entry);
          add_product(Value::dA, j, k, root(Value::p, i, j), root(Value::S, i, k), entry);
        }
        finish_sum(Value::dA, j, k, entry);
      });
      output(Value::dA);
    }
    if (recipe_.d_keys) transposed_product(Value::dA2, d, Value::p, Value::S);
    if (recipe_.d_values && h_form()) transposed_product(Value::W, e, Value::f, Value::dO);
    if (recipe_.d_values && !h_form()) transposed_product(Value::dA3, d, Value::f, Value::G);
    if (!recipe_.d_queries) return;
    product(Value::U, n, m, d, Value::p, Read::plain, Value::A2, Read::plain);
    output(Value::U);
  }

  AttentionCdag& cdag_;
  const Recipe& recipe_;
  const LayerShape& shape_;
};

void AttentionCdag::build() { Builder(this).build(); }

}  // namespace ioattn::pebble
