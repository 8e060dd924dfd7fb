#include "reference/golden.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ioattn_reference {
namespace {

using nlohmann::json;

long double parse_decimal(const std::string& text) {
  std::size_t used = 0;
  const long double value = std::stold(text, &used);
  if (used != text.size()) throw std::invalid_argument("not a number: " + text);
  return value;
}

// "3", "-1/2" or "0.30469"
long double parse_number(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return parse_decimal(text);
  return parse_decimal(text.substr(0, slash)) / parse_decimal(text.substr(slash + 1));
}

// A list of rows, a list of numbers (a column) or the text "ln(2)*I", whose size is that of X.
Matrix<long double> parse_matrix(const json& field, std::size_t d) {
  if (field.is_string()) {
    if (field != "ln(2)*I")
      throw std::invalid_argument("unknown matrix " + field.get<std::string>());
    Matrix<long double> a(d, d);
    for (std::size_t i = 0; i < d; ++i) a(i, i) = std::log(2.0L);
    return a;
  }
  const bool is_column = !field.at(0).is_array();
  Matrix<long double> a(field.size(), is_column ? 1 : field.at(0).size());
  for (std::size_t i = 0; i < a.rows; ++i) {
    if (!is_column && field.at(i).size() != a.cols) throw std::invalid_argument("ragged rows");
    for (std::size_t j = 0; j < a.cols; ++j)
      a(i, j) = parse_number((is_column ? field.at(i) : field.at(i).at(j)).get<std::string>());
  }
  return a;
}

}  // namespace

std::vector<GoldenCase> load_golden(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<GoldenCase> cases;
  std::string place = path;
  try {
    const json document = json::parse(file);
    for (const auto& [name, fields] : document.items()) {
      GoldenCase golden;
      golden.name = name;
      const json& inputs = fields.at("inputs");
      const std::size_t d = inputs.at("A1").at(0).size();
      const auto input = [&](const char* key) {
        place = golden.name + "." + key;
        return parse_matrix(inputs.at(key), d);
      };
      golden.inputs = {input("A1"), input("A2"), input("A3"), input("X"), input("Y"), input("dO")};
      for (const auto& [key, field] : fields.at("outputs").items()) {
        place = golden.name + "." + key;
        if (!field.is_null()) golden.outputs.emplace(key, parse_matrix(field, d));
      }
      cases.push_back(std::move(golden));
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(place + ": " + error.what());
  }
  return cases;
}

}  // namespace ioattn_reference
