#pragma once

#include <random>

#include "base/half.hpp"
#include "bench/aligned_vector.hpp"

namespace ioattn::bench {

// Independent normal values around 0, the same in every run.
template <class T>
class NormalValues {
 public:
  AlignedVector<T> operator()(index_t count, double deviation) {
    std::normal_distribution<double> normal(0, deviation);
    AlignedVector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = to_storage<T>(static_cast<Compute<T>>(normal(engine_)));
    return values;
  }

 private:
  std::mt19937 engine_{1};
};

}  // namespace ioattn::bench
