#pragma once

#include <array>

#include "api/half_call.hpp"
#include "normal_numbers.hpp"
#include "reference/oracle.hpp"

// Calls of the C functions of the layer problem with arrays in 16 bits.
namespace ioattn_test {

struct LayerHalfSizes {
  std::int64_t n, m, d, dv, dk = 3, batch = 1;
  bool tied = false;
};

// S: of inputs and O; G: of the gradients. Outputs hold NaN before a call.
template <class S, class G = S>
struct LayerHalfCall {
  explicit LayerHalfCall(const LayerHalfSizes& s, unsigned seed = 1, float deviation = 1)
      : sizes(s),
        a1(count(s.batch * s.n, s.d)),
        a2(count(s.batch * s.m, s.d)),
        a3(count(s.batch * s.m, s.d)),
        x(count(s.d, s.d)),
        y(count(s.d, s.dv)),
        d_o(count(s.batch * s.n, s.dv)),
        w_q(count(s.d, s.dk)),
        w_k(count(s.d, s.dk)),
        o(d_o.size(), nan<S>()),
        lse(count(s.batch * s.n, 1), nan<float>()) {
    std::mt19937 random(seed);
    for (std::vector<S>* each : {&a1, &a2, &a3, &x, &y, &d_o, &w_q, &w_k}) {
      // Scores of order 1.
      const bool inner = each == &x || each == &y;
      NormalNumbers<float> normal(
          0, inner ? deviation / std::sqrt(float(std::max<std::int64_t>(s.d, 1))) : deviation);
      for (S& value : *each) value = element<S>(normal(random));
    }
    problem.struct_size = sizeof problem;
    problem.n = s.n;
    problem.m = s.m;
    problem.d = s.d;
    problem.dv = s.dv;
    problem.batch = s.batch;
    problem.scale = 1 / std::sqrt(double(std::max<std::int64_t>(s.d, 1)));
    problem.dtype = dtype_of<S>;
    problem.a1 = a1.data();
    problem.a2 = a2.data();
    problem.a3 = s.tied ? a2.data() : a3.data();
    problem.x = x.data();
    problem.y = y.data();
    gradients.struct_size = sizeof gradients;
    gradients.in_f32 = !std::is_same_v<S, G>;
    gradients.w_q = w_q.data();
    gradients.w_k = w_k.data();
    gradients.dk = s.dk;
    const std::size_t of_keys = count(s.batch * s.m, s.d);
    const std::size_t words[] = {count(s.d, s.d), count(s.d, s.dv), count(s.batch * s.n, s.d),
                                 of_keys,         of_keys,          count(s.d, s.dk),
                                 count(s.d, s.dk)};
    void** const places[] = {&gradients.dx,  &gradients.dy,   &gradients.da1, &gradients.da2,
                             &gradients.da3, &gradients.dw_q, &gradients.dw_k};
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k].assign(words[k], nan<G>());
      *places[k] = out[k].data();
    }
  }
  LayerHalfCall(const LayerHalfCall&) = delete;
  LayerHalfCall& operator=(const LayerHalfCall&) = delete;

  ioattn_status forward(const ioattn_options* options = nullptr) {
    return ioattn_layer_forward(&problem, options, o.data(), 0, lse.data());
  }
  ioattn_status backward(const ioattn_options* options = nullptr) {
    return ioattn_layer_backward(&problem, options, d_o.data(), 0, o.data(), 0, lse.data(),
                                 &gradients);
  }
  // dX alone, which every schedule has.
  void want_dx_alone() {
    gradients.dy = gradients.da1 = gradients.da2 = gradients.da3 = nullptr;
    gradients.dw_q = gradients.dw_k = nullptr;
  }
  template <class Other>
  bool same_results(const Other& other) const {
    bool same = same_numbers(o, other.o) && same_numbers(lse, other.lse);
    for (std::size_t k = 0; k < out.size(); ++k) same = same && same_numbers(out[k], other.out[k]);
    return same;
  }
  bool untouched() const {
    const auto all_nan = [](const auto& values) {
      for (const auto value : values)
        if (!std::isnan(number(value))) return false;
      return true;
    };
    bool all = all_nan(o) && all_nan(lse);
    for (const std::vector<G>& each : out) all = all && all_nan(each);
    return all;
  }

  template <class T>
  static T nan() {
    return element<T>(std::nanf(""));
  }
  static std::size_t count(std::int64_t rows, std::int64_t cols) {
    return static_cast<std::size_t>(rows * cols);
  }

  LayerHalfSizes sizes;
  std::vector<S> a1, a2, a3, x, y, d_o, w_q, w_k, o;
  std::vector<float> lse;
  std::array<std::vector<G>, 7> out;  // dX, dY, dA1, dA2, dA3, dW_Q, dW_K
  ioattn_layer_problem problem = {};
  ioattn_layer_gradients gradients = {};
};

inline constexpr const char* gradient_names[] = {"dX", "dY", "dA1", "dA2", "dA3", "dW_Q", "dW_K"};

}  // namespace ioattn_test
