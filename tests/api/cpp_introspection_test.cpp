// What the C++ interface tells of the library, the machine and wisdom: what the C functions do.

#include <string>

#include "api/options.hpp"
#include "api/plan_call.hpp"
#include "ioattn/ioattn.hpp"

namespace ioattn_test {
namespace {

TEST(CppIntrospection, IsThatOfTheCFunctions) {
  EXPECT_EQ(ioattn::version(), ioattn_version());
  EXPECT_EQ(ioattn::threads(), ioattn_machine_threads());
  const char* isa = nullptr;
  ASSERT_EQ(ioattn_selected_isa(&isa), IOATTN_OK);
  EXPECT_EQ(ioattn::selected_isa(), isa);
  for (int level = 1; level <= 2; ++level) {
    ioattn_cache cache = {};
    cache.struct_size = sizeof cache;
    ASSERT_EQ(ioattn_machine_cache(level, &cache), IOATTN_OK);
    const ioattn_cache told = ioattn::cache(level);
    EXPECT_EQ(told.size_bytes, cache.size_bytes);
    EXPECT_EQ(told.words_f64, cache.words_f64);
    EXPECT_STREQ(told.source, cache.source);
  }
}

// No two arguments are equal: any two that were exchanged would give another bound, or none.
TEST(CppIntrospection, BoundsAreThoseOfTheCFunction) {
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD})
    for (const ioattn_class algorithms : {IOATTN_CLASS_PEBBLE, IOATTN_CLASS_FMA})
      for (const ioattn_tie tie : {IOATTN_TIE_NONE, IOATTN_TIE_KV}) {
        double words = 0;
        const char* name = nullptr;
        ASSERT_EQ(ioattn_layer_bound(pass, algorithms, tie, 700, 500, 60, 30, 900, &words, &name),
                  IOATTN_OK);
        const auto bound = ioattn::layer_bound(pass, algorithms, tie, 700, 500, 60, 30, 900);
        EXPECT_EQ(bound.first, words);
        EXPECT_EQ(bound.second, name);
      }
}

template <class Call>
void expect_error(ioattn_status status, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ioattn::Error& error) {
    EXPECT_EQ(error.status(), status);
    EXPECT_EQ(error.what(), std::string(ioattn_status_string(status)) + ": " + ioattn_last_error());
  }
}

TEST(CppIntrospection, ErrorsHaveTheStatus) {
  expect_error(IOATTN_INVALID_ARGUMENT, [] { ioattn::wisdom::import_text("no wisdom"); });
  expect_error(IOATTN_INVALID_ARGUMENT, [] {
    ioattn::layer_bound(IOATTN_FORWARD, IOATTN_CLASS_FMA, IOATTN_TIE_NONE, 7, 5, -1, 3, 900);
  });
  expect_error(IOATTN_UNSUPPORTED, [] { ioattn::cache(0); });
}

TEST(CppIntrospection, WisdomIsForgottenAndImported) {
  ioattn::wisdom::forget();
  const std::string nothing = ioattn::wisdom::export_text();
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = 40, shape.m = 30, shape.d = shape.dv = 8;
  ioattn_options options = with_rigor(IOATTN_MEASURE);
  std::string learned = nothing;
  // A machine that is busy may leave too little time.
  for (double seconds = 0.1; learned == nothing && seconds < 50; seconds *= 4) {
    options.time_limit_seconds = seconds;
    ioattn_plan* plan = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &shape, nullptr, &options, &plan), IOATTN_OK)
        << ioattn_last_error();
    ioattn_plan_destroy(plan);
    learned = ioattn::wisdom::export_text();
  }
  EXPECT_EQ(learned, text_of_wisdom(ioattn_wisdom_export_text));
  EXPECT_NE(learned, nothing);
  ioattn::wisdom::forget();
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), nothing);
  ioattn::wisdom::import_text(learned);
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), learned);
  ioattn::wisdom::forget();
}

}  // namespace
}  // namespace ioattn_test
