#include "tune/traffic/traffic_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "machine/machine.hpp"
#include "tune/reports/machine_report.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

double real(index_t words) { return static_cast<double>(words); }

void add_ratio(const Traffic& t, double words, std::vector<std::string>* row) {
  row->push_back(grouped(words));
  row->push_back(ratio_text(words / t.plan.bound.words));
  row->push_back(grouped(words - t.plan.compulsory));
}

void add_rows(const Traffic& t, Table* table) {
  const auto theory_row = [&](const std::string& name, double words) {
    std::vector<std::string> row = {name, "", ""};
    add_ratio(t, words, &row);
    row.insert(row.end(), {"", ""});
    table->add(row);
  };
  theory_row("compulsory", t.plan.compulsory);
  theory_row(std::string("lower bound ") + t.plan.bound.name, t.plan.bound.words);
  theory_row("closed formula", real(t.plan.formula.words()));
  std::vector<std::string> counted = {"counted", grouped(t.count.reads), grouped(t.count.writes)};
  add_ratio(t, real(t.count.words()), &counted);
  counted.insert(counted.end(), {"", ""});
  table->add(counted);
  for (const TrafficLine& line : t.lines) {
    if (!line.is_available()) {
      table->add({line.name, "unavailable: " + line.reason});
      continue;
    }
    std::vector<std::string> row = {line.name, grouped(line.in)};
    if (line.out) {
      row.push_back(grouped(*line.out));
      add_ratio(t, line.moved(), &row);
    } else {
      row.insert(row.end(), {"not counted", "", "", ""});
    }
    row.push_back(ratio_text(line.in / expected_in(t)));
    row.push_back(line.out ? ratio_text(*line.out / expected_out(t)) : "");
    table->add(row);
  }
}

// Fills and write-backs of each thread's own caches.
std::string threads_text(const Traffic& t) {
  if (t.threads.empty()) return "";
  std::vector<std::string> header = {"thread", "accesses"};
  for (const TrafficLine& line : t.threads.front().lines) {
    header.push_back(line.name + " in");
    header.push_back("out");
  }
  Table table(header);
  for (std::size_t i = 0; i < t.threads.size(); ++i) {
    std::vector<std::string> row = {std::to_string(i), grouped(t.threads[i].accesses)};
    for (const TrafficLine& line : t.threads[i].lines) {
      row.push_back(line.is_available() ? grouped(line.in) : "-");
      row.push_back(line.is_available() && line.out ? grouped(*line.out) : "-");
    }
    table.add(row);
  }
  return table.text();
}

Json threads_json(const Traffic& t) {
  Json list = Json::array();
  for (const Traffic::OfThread& one : t.threads) {
    Json json;
    json["accesses"] = one.accesses;
    for (const TrafficLine& line : one.lines) {
      if (line.is_available())
        json[line.key] = {{"in", line.in}, {"out", line.out ? Json(*line.out) : Json()}};
    }
    list.push_back(json);
  }
  return list;
}

Json traffic_json(const Traffic& t) {
  Json json;
  json["level"] = t.plan.level;
  json["objective"] = t.plan.objective;
  json["M"] = t.plan.M;
  json["capacity_bytes"] = t.capacity_bytes;
  json["line_bytes"] = t.line_bytes;
  json["ways"] = t.ways;
  json["schedule"] = t.plan.schedule;
  json["plan"] = t.plan.text;
  json["compulsory"] = t.plan.compulsory;
  json["lower_bound"] = t.plan.bound.words;
  json["bound"] = t.plan.bound.name;
  json["formula"] = t.plan.formula.words();
  add_count(t.count, &json["counted"]);
  json["created_memory"] = t.created_memory;
  json["accesses"] = t.accesses;
  if (!t.threads.empty()) json["threads"] = threads_json(t);
  for (const TrafficLine& line : t.lines) {
    Json& item = json["measured"][line.key];
    if (!line.is_available()) {
      item["reason"] = line.reason;
      continue;
    }
    item["in"] = line.in;
    item["out"] = line.out ? Json(*line.out) : Json();
    item["in_ratio"] = line.in / expected_in(t);
    item["out_ratio"] = line.out ? Json(*line.out / expected_out(t)) : Json();
  }
  return json;
}

std::string cache_text(const Traffic& t) {
  return fmt::format("{} in {}-byte lines, {}", bytes_text(t.capacity_bytes), t.line_bytes,
                     t.ways > 0 ? fmt::format("{} ways", t.ways) : "ways unknown");
}

}  // namespace

double expected_in(const Traffic& t) { return real(t.count.reads + t.created_memory); }
double expected_out(const Traffic& t) { return real(t.count.writes + t.created_memory); }

const TrafficLine* find_line(const Traffic& traffic, const std::string& key) {
  for (const TrafficLine& line : traffic.lines) {
    if (line.key == key) return &line;
  }
  return nullptr;
}

std::vector<TrafficLine> sweep_columns(const TrafficReport& report) {
  std::vector<TrafficLine> columns;
  for (const Traffic& t : report.sweep) {
    for (const TrafficLine& line : t.lines) {
      const auto same = [&](const TrafficLine& column) { return column.key == line.key; };
      if (std::none_of(columns.begin(), columns.end(), same)) columns.push_back(line);
    }
  }
  return columns;
}

std::string to_text(const TrafficReport& report) {
  std::string text = fmt::format("{}, {} pass\n", report.problem, name_of(report.pass));
  for (const Traffic& t : report.levels) {
    text += fmt::format(
        "{}, for {}: {}; M = {} words, {} created, {} if score tiles count once\n  {}\n",
        t.plan.level, t.plan.objective, cache_text(t), grouped(t.plan.M), grouped(t.count.created),
        grouped(t.created_memory), t.plan.text);
    Table table({"words", "in", "out", "in + out", "ratio", "over compulsory", "in / expected",
                 "out / expected"});
    add_rows(t, &table);
    text += table.text() + threads_text(t);
    if (!t.lines.empty()) {
      text += "  expected: reads (out: writes) + created words, where score tiles count once\n";
    }
  }
  for (const TrafficReport::NoPlan& none : report.too_small) {
    text += fmt::format("{}, for {}: no plan: {}\n", none.level, none.objective, none.reason);
  }
  if (report.sweep.empty()) return text;
  std::vector<std::string> header = {"M", "schedule", "least", "formula", "counted"};
  const std::vector<TrafficLine> columns = sweep_columns(report);
  for (const TrafficLine& line : columns) header.push_back(line.head_or_name());
  Table table(header, 2);
  for (const Traffic& t : report.sweep) {
    std::vector<std::string> row = {grouped(t.plan.M), t.plan.schedule, grouped(t.plan.bound.words),
                                    grouped(t.plan.formula.words()), grouped(t.count.words())};
    for (const TrafficLine& column : columns) {
      const TrafficLine* line = find_line(t, column.key);
      row.push_back(line != nullptr && line->is_available() ? grouped(line->moved()) : "-");
    }
    table.add(row);
  }
  return text + table.text();
}

Json to_json(const TrafficReport& report) {
  Json json;
  json["machine"] = machine_json(machine::this_machine());
  json["problem"] = report.problem;
  json["pass"] = name_of(report.pass);
  json["dtype"] = name_of(report.dtype);
  json["levels"] = Json::array();
  for (const Traffic& t : report.levels) json["levels"].push_back(traffic_json(t));
  json["too_small"] = Json::array();
  for (const TrafficReport::NoPlan& none : report.too_small) {
    json["too_small"].push_back(
        {{"level", none.level}, {"objective", none.objective}, {"reason", none.reason}});
  }
  json["sweep"] = Json::array();
  for (const Traffic& t : report.sweep) json["sweep"].push_back(traffic_json(t));
  return json;
}

}  // namespace ioattn::tune
