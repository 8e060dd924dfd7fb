#pragma once

#include <string>

#include "wisdom/wisdom.hpp"

// Wisdom as tuning could have learned it.
namespace ioattn_test {

inline ioattn::wisdom::Environment sample_environment(const std::string& isa = "avx2") {
  return {"0.1.0", "0123456789abcdef", isa, "AuthenticAMD 25 1 1 AMD EPYC",
          "L1 32768/8/32768 L2 524288/8/524288"};
}

inline ioattn::wisdom::ProblemClass sample_class(int log2_n = 10, const std::string& op = "forward",
                                                 ioattn::index_t d = 64) {
  return {op, "f32", d, d, log2_n, log2_n};
}

inline ioattn::wisdom::Record sample_record(
    double seconds = 0.0125, const std::string& date = "2026-01-31T12:00:00Z",
    ioattn::wisdom::Rigor rigor = ioattn::wisdom::Rigor::measure) {
  ioattn::wisdom::Record record;
  record.plan = "L2:row_stream(form=h,r=704,c=128,rho=128,stored) > reg:avx2(6x16)";
  record.problem = "sdpa:b1,h2,kv2,n1024,m1024,d64,v64,f32";
  record.seconds = seconds;
  record.mad = 0.001;
  record.estimate_seconds = 0.0131;
  record.rounds = 12;
  record.rigor = rigor;
  record.date = date;
  return record;
}

inline ioattn::wisdom::Rates sample_rates(const std::string& date = "2026-01-31T12:00:00Z") {
  return {6.25e10, 2.5e-10, 6.5e-11, 2, date, ""};
}

// Two environments, records of both passes and both rigors, rates, fields of a later version.
inline ioattn::wisdom::Wisdom sample_wisdom() {
  using ioattn::wisdom::Rigor;
  ioattn::wisdom::Wisdom wisdom;
  ioattn::wisdom::Record later = sample_record(0.5, "2026-02-01T00:00:00Z", Rigor::patient);
  later.unknown = R"({"colour":"blue","deep":[1,{"x":[]}]})";
  wisdom.keep(sample_environment(), sample_class(10), sample_record());
  wisdom.keep(sample_environment(), sample_class(10, "dQ+dK+dV"), later);
  wisdom.keep(sample_environment("avx512"), sample_class(12), sample_record(3e-7));
  ioattn::wisdom::Rates more = sample_rates();
  more.unknown = R"({"watts":180})";
  wisdom.keep_rates(sample_environment(), "f32", sample_rates());
  wisdom.keep_rates(sample_environment(), "f64", more);
  wisdom.known_of(sample_environment())->unknown = R"({"host":"there"})";
  wisdom.set_unknown(R"({"comment":"kept"})");
  return wisdom;
}

}  // namespace ioattn_test
