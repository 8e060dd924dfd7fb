#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace ioattn::instruments {

// Numbers lines from 0 in the order in which they are first asked for.
class LineNumbers {
 public:
  std::uint32_t of(std::uint64_t line) {
    const std::uint64_t page = line / page_lines;
    Page*& recent = recent_[page % recent_.size()];
    if (recent == nullptr || recent->number != page) recent = find(page);
    std::uint32_t& id = recent->ids[line % page_lines];
    if (id == none) id = count_++;
    return id;
  }
  std::uint32_t count() const { return count_; }

 private:
  static constexpr std::uint64_t page_lines = 256;
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct Page {
    std::uint64_t number;
    std::array<std::uint32_t, page_lines> ids;
  };

  Page* find(std::uint64_t number) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) {
      page = std::make_unique<Page>();
      page->number = number;
      page->ids.fill(none);
    }
    return page.get();
  }

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::array<Page*, 1024> recent_{};
  std::uint32_t count_ = 0;
};

}  // namespace ioattn::instruments
