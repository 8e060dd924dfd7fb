#pragma once

#include <string>
#include <vector>

#include "instruments/counters/proof.hpp"
#include "tune/text/report_json.hpp"

// Counts as text and JSON. What was not counted is "unavailable" with its reason, null in JSON.
namespace ioattn::tune {

// Cache lines of this machine, for bytes.
int line_bytes_of(int level);

Json events_json(const std::vector<instruments::CounterValue>& values);
Json traffic_json(const std::vector<instruments::QuantityValue>& quantities);
Json quantity_json(const instruments::QuantityValue& quantity);

std::string events_text(const std::vector<instruments::CounterValue>& values);
std::string traffic_text(const std::vector<instruments::QuantityValue>& quantities);

// Of generic events and of others whose name alone says too little, a line each.
std::string meanings_text(const std::vector<instruments::CounterValue>& values);

// What makes the event file doubtful, as a line, or "".
std::string note_text(const std::string& note);
Json note_json(const std::string& note);

// The file itself: each event as `perf stat -e` takes it, each formula, and their prose.
std::string event_file_text(const instruments::EventFile& file);
Json event_file_json(const instruments::EventFile& file);

std::string proof_text(const std::vector<instruments::ProofResult>& results);
Json proof_json(const std::vector<instruments::ProofResult>& results);

}  // namespace ioattn::tune
