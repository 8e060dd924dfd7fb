#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wisdom/wisdom.hpp"

// Reads wisdom while it is parsed: a tree of ten thousand records would take longer than all the
// rest. Nor is there any smaller tree: one of nlohmann's allocates when it is freed, and a failure
// then ends the process.
namespace ioattn::wisdom {

using Json = nlohmann::json;  // only numbers, texts and the like

// The members of an object, printed in the order of names: JSON by name.
using Fields = std::map<std::string, std::string>;

// As ASCII text that is JSON whatever the strings hold.
std::string printed(const Json& leaf);
std::string printed(const Fields& fields);

// Collects an object that is kept as it is, also of what no version before this one wrote.
class KeptFields final : public nlohmann::json_sax<Json> {
 public:
  bool is_nested() const { return open_.size() > 1; }   // within a member
  Fields take() { return std::exchange(fields_, {}); }  // once the object has ended

  bool add(const std::string& json);
  bool null() override { return add("null"); }
  bool boolean(bool is) override { return add(printed(Json(is))); }
  bool number_integer(number_integer_t number) override { return add(printed(Json(number))); }
  bool number_unsigned(number_unsigned_t number) override { return add(printed(Json(number))); }
  bool number_float(number_float_t number, const string_t&) override {
    return add(printed(Json(number)));
  }
  bool string(string_t& text) override { return add(printed(Json(text))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  struct Container {
    bool is_list;
    std::string items;  // of a list
    Fields fields;      // of an object
    std::string key;    // the last
  };
  std::vector<Container> open_;
  Fields fields_;
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
    double* real = nullptr;       // finite, of 0 or more
    index_t most = 0, least = 0;
  };
  struct Level;
  struct List {
    std::string_view name;
    Level* of;
    bool is_needed;
  };
  // Document, environment, record, rates: an object with slots, lists of objects, and what is
  // unknown.
  struct Level {
    const char* what = nullptr;
    Level* parent = nullptr;
    bool (WisdomReader::*finish)() = nullptr;
    Reason reason = Reason::record;  // where something is wrong
    std::vector<Slot> slots;
    std::vector<List> lists;
    std::uint32_t seen = 0;         // slots, then lists
    std::size_t next = 0;           // slot after the last one, which is the likely one
    const List* in_list = nullptr;  // null: in none
    index_t count = 0;              // objects before this one in their list
    KeptFields unknown;
  };

  bool value(const Json& leaf);
  bool number(const Slot& slot, const Json& leaf);
  bool refuse(const std::string& what);
  bool refuse_member(const Slot& slot);
  bool refuse_list(const List& list);      // which is none
  bool refuse_item();                      // of the list that is being read
  Slot* find_slot(std::string_view name);  // which is seen then
  const List* list_of_key() const;         // null: the key is of none
  bool keeps() const { return level_ != nullptr && level_->unknown.is_nested(); }
  bool finish_document();
  bool finish_environment();
  bool finish_record();
  bool finish_rates();

  Level document_, environment_, record_, rates_;
  Level* level_ = nullptr;      // null: outside
  const Slot* slot_ = nullptr;  // of the last key; null: it has none, and is
  std::string key_;
  Wisdom wisdom_;
  Verdict verdict_;
  // What is being read.
  struct Reading {
    std::string format, rigor, dtype_of_rates;
    index_t schema = 0, log2_n = 0, log2_m = 0;
    Environment environment;
    Records records;
    RatesByType rates_by_type;
    ProblemClass problem;
    Record record;
    Rates rates;
  };
  Reading now_;
  std::size_t records_expected_;
};

}  // namespace ioattn::wisdom
