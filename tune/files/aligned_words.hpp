#pragma once

#include <cstdint>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/arbitrary_reals.hpp"
#include "base/half.hpp"
#include "base/types.hpp"
#include "tune/command_error.hpp"

namespace ioattn::tune {

// So many elements that begin on a cache line of their own.
template <class T>
class AlignedWords {
 public:
  AlignedWords() = default;
  explicit AlignedWords(index_t count)
      : buffer_(static_cast<std::size_t>(count) * sizeof(T)), count_(count) {
    if (count > 0 && buffer_.data() == nullptr) throw RunError("no memory for the operands");
  }
  AlignedWords(index_t count, const T* values) : AlignedWords(count) {
    if (count > 0) std::memcpy(data(), values, static_cast<std::size_t>(count) * sizeof(T));
  }
  T* data() const { return static_cast<T*>(buffer_.data()); }
  index_t count() const { return count_; }

  // FNV-1a of their bits.
  std::uint64_t hash() const {
    const auto* bytes = static_cast<const unsigned char*>(buffer_.data());
    std::uint64_t hash = 14695981039346656037u;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_) * sizeof(T); ++i) {
      hash = (hash ^ bytes[i]) * 1099511628211u;
    }
    return hash;
  }

 private:
  AlignedBuffer buffer_;
  index_t count_ = 0;
};

// Values between -1 and 1 that follow no pattern, the same in every run.
template <class T>
class ArbitraryValues {
 public:
  void fill(T* values, index_t count, double scale = 1) {
    for (index_t i = 0; i < count; ++i)
      values[i] = to_storage<T>(static_cast<Compute<T>>(scale * reals_.next()));
  }
  AlignedWords<T> words(index_t count, double scale = 1) {
    AlignedWords<T> result(count);
    fill(result.data(), count, scale);
    return result;
  }

 private:
  ArbitraryReals reals_;
};

}  // namespace ioattn::tune
