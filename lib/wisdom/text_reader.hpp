#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "wisdom/wisdom.hpp"

// Reads wisdom while it is parsed: a tree of ten thousand records would take longer than all the
// rest.
namespace ioattn::wisdom {

using Json = nlohmann::json;

// As ASCII text that is JSON whatever the strings hold.
std::string printed(const Json& json);

// A member of an object, which then no longer has it; null if there is none.
Json take(Json* object, const std::string& name);

// Whether a member that is a name may be so.
bool is_name(const std::string& text);

// A value that is kept as it is, also of what no version before this one wrote.
class KeptValue {
 public:
  bool is_open() const { return !open_.empty(); }
  const Json& object() const { return object_; }  // of all that was kept; null: nothing
  void clear() {
    if (!object_.is_null()) object_ = nullptr;
  }

  void key(const std::string& name) { key_ = name; }
  void begin(Json container) { open_.push_back(add(std::move(container))); }
  void end() { open_.pop_back(); }
  Json* add(Json value);
  Json take(const std::string& name) { return wisdom::take(&object_, name); }

 private:
  Json object_;
  std::vector<Json*> open_;
  std::string key_;
};

class WisdomReader final : public nlohmann::json_sax<Json> {
 public:
  explicit WisdomReader(std::size_t text_size);

  // What was read, once all was parsed and the verdict is fine.
  Wisdom take() { return std::move(wisdom_); }
  const Verdict& verdict() const { return verdict_; }

  bool null() override { return value(nullptr); }
  bool boolean(bool is) override { return value(is); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override;
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception&) override;

 private:
  // A member that has to be there.
  struct Slot {
    std::string_view name;
    std::string* text = nullptr;  // of at most `most` characters, or
    index_t* integer = nullptr;   // from `least` to `most`, or
    double* seconds = nullptr;
    index_t most = 0, least = 0;
  };
  // Document, environment, record: an object with slots, perhaps one list of the next level's
  // objects, and what is unknown.
  struct Level {
    const char* what = nullptr;
    std::string_view list;           // "": none
    Reason reason = Reason::record;  // where something is wrong
    std::vector<Slot> slots;
    std::uint32_t seen = 0;  // slots, then the list
    std::size_t next = 0;    // slot after the last one, which is the likely one
    bool in_list = false;
    index_t count = 0;  // objects before this one in their list
    KeptValue unknown;
  };

  bool value(const Json& json);
  bool refuse(const std::string& what);
  bool refuse_member(const Slot& slot);
  Slot* find_slot(std::string_view name);  // which is seen then
  bool is_list_of_key() const;
  Level& level() { return levels_[static_cast<std::size_t>(depth_)]; }
  bool finish_environment();
  void finish_record();

  std::array<Level, 3> levels_;
  int depth_ = -1;
  const Slot* slot_ = nullptr;  // of the last key; null: it has none, and is
  std::string key_;
  Wisdom wisdom_;
  Verdict verdict_;
  // What is being read.
  std::string format_, rigor_;
  index_t schema_ = 0, log2_n_ = 0, log2_m_ = 0;
  Environment environment_;
  Records records_;
  std::size_t records_expected_;
  ProblemClass problem_;
  Record record_;
};

}  // namespace ioattn::wisdom
