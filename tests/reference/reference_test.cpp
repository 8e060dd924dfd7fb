// The reference against known answers and against mathematics, and the gauge against wrong results.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data_path.hpp"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "reference/golden.hpp"
#include "reference/oracle.hpp"

namespace ioattn_reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = load_golden(ioattn_test::data_path("golden.json"));
  return cases;
}

const GoldenCase& golden_case(const std::string& name) {
  for (const GoldenCase& golden : golden_cases())
    if (golden.name == name) return golden;
  throw std::out_of_range(name);
}

template <class T>
Matrix<T> matrix(std::size_t rows, std::size_t cols, std::vector<T> values) {
  Matrix<T> a(rows, cols);
  a.values = std::move(values);
  return a;
}

// Every output by its name in golden.json.
template <class T>
std::map<std::string, Matrix<T>> outputs_of(const LayerInputs<T>& in) {
  const Forward<T> fwd = forward(in);
  const Backward<T> bwd = backward(in, fwd);
  return {{"S", fwd.S},
          {"s", fwd.s},
          {"L", fwd.L},
          {"f", fwd.f},
          {"h", fwd.h},
          {"O", fwd.O},
          {"Z", multiply(fwd.f, in.A3)},
          {"q", bwd.q},
          {"v", bwd.v},
          {"p", bwd.p},
          {"g", bwd.dX},
          {"dA1", bwd.dA1},
          {"dA2", bwd.dA2},
          {"dA3", bwd.dA3},
          {"dY", bwd.dY}};
}

// |out - ref| <= tolerance max(1, |ref|) everywhere; NaN fails.
template <class T>
void expect_close(const Matrix<T>& out, const Matrix<long double>& ref, long double tolerance,
                  const std::string& what) {
  ASSERT_EQ(out.rows, ref.rows) << what;
  ASSERT_EQ(out.cols, ref.cols) << what;
  for (std::size_t i = 0; i < ref.rows; ++i)
    for (std::size_t j = 0; j < ref.cols; ++j) {
      const long double error = std::fabs(static_cast<long double>(out(i, j)) - ref(i, j));
      EXPECT_LE(error, tolerance * std::max(1.0L, std::fabs(ref(i, j))))
          << what << " (" << i << ", " << j << "): " << static_cast<double>(out(i, j))
          << " instead of " << static_cast<double>(ref(i, j));
    }
}

template <class T>
void expect_golden(long double tolerance) {
  for (const GoldenCase& golden : golden_cases()) {
    const auto outputs = outputs_of(convert<T>(golden.inputs));
    for (const char* name : {"O", "g", "dA1", "dA2", "dA3", "dY", "p"})
      EXPECT_EQ(golden.outputs.count(name), 1U) << golden.name << " has no " << name;
    for (const auto& [name, out] : outputs) {
      const auto ref = golden.outputs.find(name);
      if (ref != golden.outputs.end())
        expect_close(out, ref->second, tolerance, golden.name + "." + name);
    }
  }
}

const CaseShape shapes[] = {{7, 5, 4, 3, Ties::none}, {6, 9, 5, 2, Ties::keys_values},
                            {8, 8, 3, 4, Ties::all},  {1, 1, 1, 1, Ties::none},
                            {5, 1, 2, 2, Ties::none}, {1, 6, 3, 1, Ties::keys_values}};

std::string describe(Kind kind, const CaseShape& shape) {
  return std::string(name_of(kind)) + " n" + std::to_string(shape.n) + ",m" +
         std::to_string(shape.m) + ",d" + std::to_string(shape.d) + ",v" +
         std::to_string(shape.dv) + ",ties" + std::to_string(static_cast<int>(shape.ties));
}

TEST(Golden, AllSevenCasesAreThere) {
  std::vector<std::string> names;
  for (const GoldenCase& golden : golden_cases()) names.push_back(golden.name);
  EXPECT_EQ(names, (std::vector<std::string>{"G1_X0_n2m2d2", "G2_ln2_n2m2d2", "G3_n2m2d2",
                                             "G4_cross_n3m2d2", "G5_self_n3m3d2",
                                             "G6_overflow_n2m2d2", "G7_n2m3d3"}));
  EXPECT_EQ(golden_case("G1_X0_n2m2d2").outputs.count("L"), 0U);  // null in the file
  EXPECT_EQ(golden_case("G7_n2m3d3").outputs.count("L"), 1U);
}

TEST(Golden, OracleInDoubleAgrees) { expect_golden<double>(1e-14L); }

TEST(Golden, OracleInLongDoubleAgrees) {
  constexpr long double digits_of_the_file = 1e-30L;  // AArch64's long double has more
  expect_golden<long double>(
      64 * std::max(std::numeric_limits<long double>::epsilon(), digits_of_the_file));
}

// The same answers written out, so that file and reader cannot be wrong together.
TEST(Golden, KnownValues) {
  const Matrix<long double> half = matrix<long double>(2, 2, {0.5L, 0.5L, 0.5L, 0.5L});
  const long double ln2 = std::log(2.0L);

  const auto g1 = outputs_of(golden_case("G1_X0_n2m2d2").inputs);
  expect_close(g1.at("f"), half, 1e-18L, "G1.f");
  expect_close(g1.at("L"), matrix<long double>(2, 1, {ln2, ln2}), 1e-18L, "G1.L");
  expect_close(g1.at("O"), matrix<long double>(2, 2, {0, -1, 0, -1}), 1e-18L, "G1.O");
  expect_close(g1.at("g"), matrix<long double>(2, 2, {-7.5L, -10, 3.375L, 4.5L}), 1e-17L, "G1.g");

  const auto g2 = outputs_of(golden_case("G2_ln2_n2m2d2").inputs);
  const long double ln3 = std::log(3.0L);
  expect_close(g2.at("L"), matrix<long double>(2, 1, {ln3, ln3}), 1e-18L, "G2.L");
  expect_close(g2.at("O"), matrix<long double>(2, 2, {1 / 3.0L, -0.5L, -1 / 3.0L, -1.5L}), 1e-18L,
               "G2.O");
  expect_close(g2.at("g"), matrix<long double>(2, 2, {-2 / 9.0L, 2 / 9.0L, 14 / 9.0L, -14 / 9.0L}),
               1e-18L, "G2.g");

  const auto g6 = outputs_of(golden_case("G6_overflow_n2m2d2").inputs);
  expect_close(g6.at("f"), half, 1e-18L, "G6.f");
  expect_close(g6.at("L"), matrix<long double>(2, 1, {1000 + ln2, ln2}), 1e-18L, "G6.L");
  expect_close(g6.at("g"), matrix<long double>(2, 2, {0, 0.25L, 0, -1.75L}), 1e-18L, "G6.g");
  expect_close(g6.at("dA2"), matrix<long double>(2, 2, {-250, 0, 250, 0}), 1e-18L, "G6.dA2");
}

TEST(Golden, UnreadableFilesAreNamed) {
  EXPECT_THROW(load_golden(ioattn_test::data_path("no_such_file.json")), std::runtime_error);
  EXPECT_THROW(load_golden(ioattn_test::data_path("minilm/A.npy")), std::runtime_error);
}

TEST(Oracle, GradientsAreFiniteDifferences) {
  using Inputs = LayerInputs<long double>;
  for (const Kind kind : {Kind::normal, Kind::large_scores, Kind::uniform, Kind::cancelling}) {
    for (const CaseShape& shape : shapes) {
      const Inputs in = convert<long double>(make_case(kind, shape, 1));
      const Backward<long double> bwd = backward(in, forward(in));
      const std::string name = describe(kind, shape);
      const auto check = [&](const Matrix<long double>& gradient,
                             Matrix<long double> Inputs::*input, const char* what) {
        const Matrix<long double> difference = finite_difference(in, input);
        ASSERT_EQ(gradient.rows, difference.rows);
        ASSERT_EQ(gradient.cols, difference.cols);
        for (std::size_t k = 0; k < gradient.values.size(); ++k)  // gradcheck: atol, rtol
          EXPECT_LE(std::fabs(gradient.values[k] - difference.values[k]),
                    1e-5L + 1e-3L * std::fabs(difference.values[k]))
              << name << " " << what << "[" << k << "]";
      };
      check(bwd.dX, &Inputs::X, "dX");
      check(bwd.dY, &Inputs::Y, "dY");
      check(bwd.dA1, &Inputs::A1, "dA1");
      check(bwd.dA2, &Inputs::A2, "dA2");
      check(bwd.dA3, &Inputs::A3, "dA3");
    }
  }
}

TEST(Oracle, AdjointIdentityHolds) {
  for (const Kind kind : {Kind::normal, Kind::large_scores, Kind::uniform, Kind::tiny}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const CaseShape shape = {17, 23, 9, 6, Ties::none};
      const LayerInputs<double> in = make_case(kind, shape, seed);
      Matrix<double> dX = backward(in, forward(in)).dX;
      const Matrix<double> direction = random_matrix(shape.d, shape.d, 100 + seed);
      const AdjointIdentity identity = adjoint_identity(in, direction, dX);
      EXPECT_NE(identity.forward, 0) << name_of(kind);
      EXPECT_LE(identity.gap(), 1e-10) << name_of(kind) << " seed " << seed;

      dX(4, 5) *= 1.01;
      EXPECT_GT(adjoint_identity(in, direction, dX).gap(), 1e-8) << name_of(kind);
      dX(4, 5) = not_a_number;
      EXPECT_EQ(adjoint_identity(in, direction, dX).gap(), infinity);
    }
  }
}

// One identity for all inputs: <dO, J V> = sum of <gradient, direction>.
TEST(Oracle, AdjointIdentityHoldsForAllInputs) {
  const CaseShape shape = {11, 13, 7, 5, Ties::none};
  const LayerInputs<double> in = make_case(Kind::normal, shape, 3);
  const LayerInputs<double> along = make_case(Kind::normal, shape, 4);
  const Forward<double> fwd = forward(in);
  const Backward<double> bwd = backward(in, fwd);
  const double reverse = inner(bwd.dX, along.X) + inner(bwd.dY, along.Y) +
                         inner(bwd.dA1, along.A1) + inner(bwd.dA2, along.A2) +
                         inner(bwd.dA3, along.A3);
  const double ahead = inner(in.dO, tangent(in, fwd, along));
  EXPECT_LE(std::fabs(ahead - reverse), 1e-12 * std::fabs(ahead));
}

TEST(Oracle, SoftmaxRowsSumToOneAndRowsOfPToZero) {
  for (const Kind kind : all_kinds) {
    const CaseShape shape = {19, 31, 8, 5, Ties::none};
    const LayerInputs<double> in = make_case(kind, shape, 2);
    const Forward<double> fwd = forward(in);
    const Backward<double> bwd = backward(in, fwd);
    for (std::size_t i = 0; i < shape.n; ++i) {
      double f_sum = 0, p_sum = 0, p_size = 0;
      for (std::size_t j = 0; j < shape.m; ++j) {
        f_sum += fwd.f(i, j);
        p_sum += bwd.p(i, j);
        p_size += fwd.f(i, j) * (std::fabs(bwd.q(i, j)) + std::fabs(bwd.v(i, 0)));
      }
      EXPECT_NEAR(f_sum, 1, 1e-13) << name_of(kind);
      EXPECT_LE(std::fabs(p_sum), 1e-14 * p_size) << name_of(kind);
    }
  }
}

TEST(Oracle, NoKeysIsFullyMasked) {
  const LayerInputs<double> in = make_case(Kind::normal, {4, 0, 3, 2, Ties::none}, 1);
  const Forward<double> fwd = forward(in);
  const Backward<double> bwd = backward(in, fwd);
  EXPECT_EQ(fwd.O.values, std::vector<double>(8, 0));
  EXPECT_EQ(fwd.L.values, std::vector<double>(4, -infinity));
  EXPECT_EQ(bwd.dX.values, std::vector<double>(9, 0));
  EXPECT_EQ(bwd.dA1.values, std::vector<double>(12, 0));
  EXPECT_EQ(bwd.dY.values, std::vector<double>(6, 0));
  EXPECT_TRUE(bwd.dA2.values.empty());
}

TEST(Oracle, NoRowsAndNoColumnsAreLegal) {
  const LayerInputs<double> no_rows = make_case(Kind::normal, {0, 3, 2, 2, Ties::none}, 1);
  EXPECT_EQ(backward(no_rows, forward(no_rows)).dX.values, std::vector<double>(4, 0));
  const LayerInputs<double> no_columns = make_case(Kind::normal, {2, 3, 0, 2, Ties::none}, 1);
  const Forward<double> fwd = forward(no_columns);
  EXPECT_EQ(fwd.O.values, std::vector<double>(4, 0));
  EXPECT_NEAR(fwd.L(0, 0), std::log(3.0), 1e-15);
}

TEST(Oracle, NotANumberStaysInItsRow) {
  LayerInputs<double> in = make_case(Kind::normal, {3, 4, 2, 2, Ties::none}, 1);
  const Forward<double> clean = forward(in);
  in.A1(1, 0) = not_a_number;
  const Forward<double> fwd = forward(in);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(fwd.O(0, j), clean.O(0, j));
    EXPECT_TRUE(std::isnan(fwd.O(1, j)));
    EXPECT_EQ(fwd.O(2, j), clean.O(2, j));
  }
  EXPECT_TRUE(std::isnan(fwd.L(1, 0)));
}

TEST(Oracle, ShapesThatDoNotFitAreRefused) {
  using Inputs = LayerInputs<double>;
  struct Misfit {
    Matrix<double> Inputs::*input;
    std::size_t more_rows, more_cols;
    std::string says;
  };
  const Inputs good = make_case(Kind::normal, {3, 4, 2, 5, Ties::none}, 1);
  for (const Misfit& misfit : {Misfit{&Inputs::X, 0, 1, "X is not square"},
                               {&Inputs::A1, 0, 1, "A1, A2, A3 need d columns"},
                               {&Inputs::A2, 0, 1, "A1, A2, A3 need d columns"},
                               {&Inputs::A3, 0, 1, "A1, A2, A3 need d columns"},
                               {&Inputs::A2, 1, 0, "A2 and A3 need m rows each"},
                               {&Inputs::A3, 1, 0, "A2 and A3 need m rows each"},
                               {&Inputs::Y, 1, 0, "Y needs d rows"},
                               {&Inputs::Y, 0, 1, "dO needs the shape of O"},
                               {&Inputs::A1, 1, 0, "dO needs the shape of O"},
                               {&Inputs::dO, 1, 0, "dO needs the shape of O"}}) {
    Inputs bad = good;
    Matrix<double>& changed = bad.*misfit.input;
    changed = Matrix<double>(changed.rows + misfit.more_rows, changed.cols + misfit.more_cols);
    const auto message = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const std::invalid_argument& error) {
        return error.what();
      }
      return "accepted";
    };
    EXPECT_EQ(message([&] { forward(bad); }), misfit.says);
    EXPECT_EQ(message([&] { backward(bad, forward(good)); }), misfit.says);
  }
}

TEST(Cases, SameSeedSameValuesOtherSeedOtherValues) {
  const CaseShape shape = {5, 6, 4, 3, Ties::none};
  EXPECT_EQ(make_case(Kind::normal, shape, 7).X.values, make_case(Kind::normal, shape, 7).X.values);
  EXPECT_NE(make_case(Kind::normal, shape, 7).X.values, make_case(Kind::normal, shape, 8).X.values);
  // Fixed by the C++ standard's definition of the engine: the same on every machine.
  EXPECT_EQ(random_matrix(1, 2, 1).values, (std::vector<double>{2678.0 / 32768, -11613.0 / 32768}));
}

TEST(Cases, ValuesAreExactInFloatAndTiesAreTies) {
  for (const Kind kind : all_kinds) {
    for (const CaseShape& shape : shapes) {
      const LayerInputs<double> in = make_case(kind, shape, 1);
      const LayerInputs<double> rounded = convert<double>(convert<float>(in));
      EXPECT_EQ(in.A1.values, rounded.A1.values);
      EXPECT_EQ(in.A2.values, rounded.A2.values);
      EXPECT_EQ(in.A3.values, rounded.A3.values);
      EXPECT_EQ(in.X.values, rounded.X.values);
      EXPECT_EQ(in.Y.values, rounded.Y.values);
      EXPECT_EQ(in.dO.values, rounded.dO.values);
      EXPECT_TRUE(shape.ties == Ties::none || in.A2.values == in.A3.values);
      EXPECT_TRUE(shape.ties != Ties::all || in.A1.values == in.A2.values);
    }
  }
  EXPECT_THROW(make_case(Kind::normal, {2, 3, 1, 1, Ties::all}, 1), std::invalid_argument);
}

// Each kind is as hard as its name says, for all ties.
TEST(Cases, KindsAreWhatTheySay) {
  for (const Ties ties : {Ties::none, Ties::keys_values, Ties::all}) {
    const CaseShape shape = {24, 24, 8, 8, ties};
    const auto make = [&](Kind kind) { return make_case(kind, shape, 5); };

    for (const double score : forward(make(Kind::large_scores)).s.values) {
      const double e_s = std::exp(score);
      EXPECT_TRUE(e_s == infinity || e_s == 0) << score;
    }
    for (const double f : forward(make(Kind::uniform)).f.values) EXPECT_EQ(f, 1 / 24.0);

    const Forward<double> one_hot = forward(make(Kind::one_hot));
    int decided = 0;
    for (const double f : one_hot.f.values) decided += f > 1 - 1e-6 ? 1 : 0;
    EXPECT_GE(decided, 20);

    const LayerInputs<double> cancelling = make(Kind::cancelling);
    const Forward<double> fwd = forward(cancelling);
    const Backward<double> bwd = backward(cancelling, fwd);
    const Gauge gauge = make_gauge<float>(cancelling, fwd);
    for (std::size_t i = 0; i < shape.n; ++i) {
      double score = 0, q = 0, difference = 0;
      for (std::size_t j = 0; j < shape.m; ++j) {
        score = std::max(score, std::fabs(fwd.s(i, j)));
        q = std::max(q, std::fabs(bwd.q(i, j)));
        difference = std::max(difference, std::fabs(bwd.q(i, j) - bwd.v(i, 0)));
      }
      EXPECT_LE(score, 0.1 * gauge.S(i, 0));
      EXPECT_TRUE(q <= 8 || difference <= 0.5 * q) << q << " " << difference;
    }

    const LayerInputs<double> zeros = make(Kind::zeros);
    for (const Matrix<double>* a : {&zeros.A1, &zeros.A2, &zeros.A3, &zeros.X, &zeros.Y, &zeros.dO})
      EXPECT_EQ(a->values, std::vector<double>(a->values.size(), 0));

    const LayerInputs<double> tiny = make(Kind::tiny);
    const Matrix<double> dX = backward(tiny, forward(tiny)).dX;
    for (const double value : dX.values) {
      EXPECT_LT(std::fabs(value), 0x1p-80);
      EXPECT_GT(std::fabs(value), 0x1p-126);
    }
  }
}

// No rounding anywhere: float, double and the reference give the same bits, whatever the order of
// sums.
TEST(Cases, SmallIntegersAreExact) {
  for (const Ties ties : {Ties::none, Ties::keys_values, Ties::all}) {
    long double size = 0;
    for (const auto& [rows, keys, width] :
         {std::array<std::size_t, 3>{9, 9, 5}, std::array<std::size_t, 3>{256, 256, 64},
          std::array<std::size_t, 3>{3, 3, 1}}) {
      const LayerInputs<double> in =
          make_case(Kind::small_integers, {rows, keys, width, 6, ties}, 11);
      const auto wide = outputs_of(convert<long double>(in));
      const auto narrow = outputs_of(convert<float>(in));
      const auto middle = outputs_of(in);
      for (const char* name : {"s", "L", "O", "g", "dA1", "dA2", "dA3", "dY"}) {
        const Matrix<long double>& exact = wide.at(name);
        EXPECT_EQ(convert<long double>(narrow.at(name)).values, exact.values) << name;
        EXPECT_EQ(convert<long double>(middle.at(name)).values, exact.values) << name;
        for (const long double value : exact.values) EXPECT_EQ(value, std::rint(value));
      }
      for (const long double value : wide.at("g").values) EXPECT_EQ(value, 0);
      for (const long double value : wide.at("dY").values) size += std::fabs(value);
    }
    EXPECT_GT(size, 0);
  }
}

// Outputs of a float evaluation, their reference and their units.
struct Evaluation {
  LayerInputs<double> in;
  Forward<double> fwd;
  Backward<double> bwd;
  Gauge gauge;
  Forward<float> float_fwd;
  Backward<float> float_bwd;

  explicit Evaluation(const LayerInputs<double>& inputs)
      : in(inputs),
        fwd(forward(in)),
        bwd(backward(in, fwd)),
        gauge(make_gauge<float>(in, fwd)),
        float_fwd(forward(convert<float>(in))),
        float_bwd(backward(convert<float>(in), float_fwd)) {}

  std::map<std::string, Worst> worst() const {
    return {{"O", worst_ratio(float_fwd.O, fwd.O, gauge.O)},
            {"L", worst_ratio(float_fwd.L, fwd.L, gauge.L)},
            {"dX", worst_ratio(float_bwd.dX, bwd.dX, gauge.dX)},
            {"dY", worst_ratio(float_bwd.dY, bwd.dY, gauge.dY)},
            {"dA1", worst_ratio(float_bwd.dA1, bwd.dA1, gauge.dA1)},
            {"dA2", worst_ratio(float_bwd.dA2, bwd.dA2, gauge.dA2)},
            {"dA3", worst_ratio(float_bwd.dA3, bwd.dA3, gauge.dA3)}};
  }
};

TEST(Gauge, PassesANaiveFloatEvaluation) {
  std::vector<CaseShape> all(std::begin(shapes), std::end(shapes));
  all.insert(all.end(), {{64, 96, 33, 17, Ties::none},
                         {97, 50, 16, 40, Ties::keys_values},
                         {128, 128, 24, 8, Ties::all},
                         {3, 0, 2, 2, Ties::none},
                         {0, 3, 2, 2, Ties::none}});
  for (const Kind kind : all_kinds)
    for (const CaseShape& shape : all)
      for (std::uint64_t seed = 1; seed <= 3; ++seed)
        for (const auto& [name, worst] : Evaluation(make_case(kind, shape, seed)).worst())
          EXPECT_TRUE(worst.passes()) << describe(kind, shape) << " seed " << seed << " " << name
                                      << ": " << to_string(worst);
}

// The second rule, which has no slack for cancellation.
TEST(Gauge, ANaiveFloatEvaluationIsAccurateWhereNothingCancels) {
  const double limit = relative_limit * std::numeric_limits<float>::epsilon();
  for (const Kind kind : {Kind::normal, Kind::uniform, Kind::tiny}) {
    for (const CaseShape& shape :
         {CaseShape{64, 96, 33, 17, Ties::none}, CaseShape{97, 50, 16, 40, Ties::keys_values},
          CaseShape{128, 128, 24, 8, Ties::all}}) {
      Evaluation e(make_case(kind, shape, 1));
      EXPECT_LE(max_relative_error(e.float_fwd.O, e.fwd.O), limit) << describe(kind, shape);
      EXPECT_LE(max_relative_error(e.float_fwd.L, e.fwd.L), limit) << describe(kind, shape);
      EXPECT_LE(max_relative_error(e.float_bwd.dX, e.bwd.dX), limit) << describe(kind, shape);
      EXPECT_LE(max_relative_error(e.float_bwd.dY, e.bwd.dY), limit) << describe(kind, shape);

      for (std::size_t j = 0; j < shape.m; ++j)
        e.fwd.f(7, j) *= 1.01;  // L of one row slightly wrong
      const Matrix<double> wrong = backward(e.in, e.fwd).dX;
      EXPECT_FALSE(max_relative_error(wrong, e.bwd.dX) <= limit) << describe(kind, shape);
    }
  }
}

TEST(Gauge, PassesADoubleEvaluation) {
  for (const Kind kind : all_kinds) {
    const LayerInputs<double> in = make_case(kind, {64, 80, 24, 16, Ties::none}, 1);
    const LayerInputs<long double> wide = convert<long double>(in);
    const Forward<long double> ref = forward(wide);
    const Gauge gauge = make_gauge<double>(wide, ref);
    const Forward<double> fwd = forward(in);
    const Worst o = worst_ratio(fwd.O, ref.O, gauge.O);
    if (kind == Kind::normal) {  // held to the eps of double, not of float
      EXPECT_FALSE(worst_ratio(convert<double>(convert<float>(fwd.O)), ref.O, gauge.O).passes());
    }
    const Worst l = worst_ratio(fwd.L, ref.L, gauge.L);
    const Worst dX = worst_ratio(backward(in, fwd).dX, backward(wide, ref).dX, gauge.dX);
    EXPECT_TRUE(o.passes()) << name_of(kind) << " O: " << to_string(o);
    EXPECT_TRUE(l.passes()) << name_of(kind) << " L: " << to_string(l);
    EXPECT_TRUE(dX.passes()) << name_of(kind) << " dX: " << to_string(dX);
  }
}

TEST(Gauge, FailsOnAPerturbedEntryAndSaysWhere) {
  Evaluation e(make_case(Kind::normal, {20, 30, 9, 7, Ties::none}, 1));
  const double eps = std::numeric_limits<float>::epsilon();
  e.float_fwd.O(13, 4) = static_cast<float>(e.fwd.O(13, 4) + 20 * eps * e.gauge.O(13, 4));
  e.float_bwd.dX(8, 2) = static_cast<float>(e.bwd.dX(8, 2) - 20 * eps * e.gauge.dX(8, 2));
  e.float_fwd.L(5, 0) = static_cast<float>(e.fwd.L(5, 0) + 20 * eps * e.gauge.L(5, 0));
  const auto worst = e.worst();
  for (const auto& [name, row, col] :
       {std::tuple<const char*, std::size_t, std::size_t>{"O", 13, 4}, {"dX", 8, 2}, {"L", 5, 0}}) {
    EXPECT_FALSE(worst.at(name).passes()) << name;
    EXPECT_NEAR(worst.at(name).ratio, 20, 1) << name;
    EXPECT_EQ(worst.at(name).row, row) << name;
    EXPECT_EQ(worst.at(name).col, col) << name;
  }
  EXPECT_TRUE(worst.at("dY").passes());
  EXPECT_EQ(to_string({17.25, 3, 5, 0.25, 0.5}), "T = 17.2 at (3, 5): 0.25 instead of 0.5");
}

TEST(Gauge, FailsOnNotANumber) {
  Evaluation e(make_case(Kind::normal, {6, 6, 4, 4, Ties::none}, 1));
  e.float_bwd.dX(3, 1) = std::numeric_limits<float>::quiet_NaN();
  e.float_fwd.O(0, 0) = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(e.worst().at("dX").passes());
  EXPECT_EQ(e.worst().at("dX").row, 3U);
  EXPECT_FALSE(e.worst().at("O").passes());
  EXPECT_EQ(max_relative_error(e.float_bwd.dX, e.bwd.dX), infinity);

  // Nor does a number pass where the reference has none; the same non-number on both sides does.
  Matrix<double> ref = e.bwd.dX;
  ref(0, 0) = not_a_number;
  EXPECT_FALSE(worst_ratio(convert<float>(e.bwd.dX), ref, e.gauge.dX).passes());
  EXPECT_TRUE(worst_ratio(convert<float>(ref), ref, e.gauge.dX).passes());
  EXPECT_FALSE(Worst{.ratio = not_a_number}.passes());
}

TEST(Gauge, AMaskedRowNeedsItsInfinity) {
  Evaluation e(make_case(Kind::normal, {2, 0, 3, 2, Ties::none}, 1));
  EXPECT_TRUE(e.worst().at("L").passes());
  for (const double wrong : {0.0, infinity, -3e38, not_a_number}) {
    e.float_fwd.L(1, 0) = static_cast<float>(wrong);
    EXPECT_FALSE(e.worst().at("L").passes()) << wrong;
  }
}

// Mistakes that a schedule could make.
TEST(Gauge, FailsOnRealMistakes) {
  const CaseShape shape = {40, 50, 12, 10, Ties::none};
  Evaluation e(make_case(Kind::normal, shape, 1));
  const auto gradient = [&](const LayerInputs<double>& in, const Forward<double>& fwd) {
    return worst_ratio(convert<float>(backward(in, fwd).dX), e.bwd.dX, e.gauge.dX);
  };
  EXPECT_TRUE(gradient(e.in, e.fwd).passes());

  Matrix<float> negated = e.float_bwd.dX;
  for (float& value : negated.values) value = -value;
  EXPECT_FALSE(worst_ratio(negated, e.bwd.dX, e.gauge.dX).passes()) << "wrong sign";

  EXPECT_FALSE(worst_ratio(transpose(e.float_bwd.dX), e.bwd.dX, e.gauge.dX).passes())
      << "transposed";

  LayerInputs<double> last_key_lost = e.in;
  for (Matrix<double>* a : {&last_key_lost.A2, &last_key_lost.A3}) {
    --a->rows;
    a->values.resize(a->rows * a->cols);
  }
  const Forward<double> fewer = forward(last_key_lost);
  EXPECT_FALSE(worst_ratio(convert<float>(fewer.O), e.fwd.O, e.gauge.O).passes()) << "a key lost";
  EXPECT_FALSE(worst_ratio(convert<float>(fewer.L), e.fwd.L, e.gauge.L).passes()) << "a key lost";
  EXPECT_FALSE(gradient(last_key_lost, fewer).passes()) << "a key lost";

  Forward<double> no_v = e.fwd;
  no_v.O = Matrix<double>(shape.n, shape.dv);
  EXPECT_FALSE(gradient(e.in, no_v).passes()) << "v forgotten";

  Forward<double> stale = e.fwd;
  for (double& f : stale.f.values) f *= 1.01;
  EXPECT_FALSE(gradient(e.in, stale).passes()) << "L slightly wrong";
}

// One row, one key: f = 1, S = 30, the weight is 64, and every unit is one product, in one place.
TEST(Gauge, UnitsAreProductsOfAbsoluteValues) {
  LayerInputs<double> in;
  in.A1 = matrix<double>(1, 2, {2, 0});
  in.A2 = matrix<double>(1, 2, {0, -5});
  in.A3 = matrix<double>(1, 2, {-7, 0});
  in.X = matrix<double>(2, 2, {0, 3, 0, 0});
  in.Y = matrix<double>(2, 1, {0.5, 0});
  in.dO = matrix<double>(1, 1, {-2});
  const Gauge gauge = make_gauge<float>(in, forward(in));
  const auto expect_one = [](const Matrix<double>& unit, std::size_t row, std::size_t col,
                             double value, const char* what) {
    for (std::size_t i = 0; i < unit.rows; ++i)
      for (std::size_t j = 0; j < unit.cols; ++j)
        EXPECT_NEAR(unit(i, j), i == row && j == col ? value : 0, 1e-12 * value) << what;
  };
  const double P = 7 + 7;  // |q| + |v|
  expect_one(gauge.S, 0, 0, 30, "S");
  expect_one(gauge.L, 0, 0, 1 + 30 + 30, "L");
  expect_one(gauge.O, 0, 0, 64 * 3.5, "O");
  expect_one(gauge.dX, 0, 1, 64 * P * 2 * 5, "dX");
  expect_one(gauge.dA1, 0, 0, 64 * P * 5 * 3, "dA1");
  expect_one(gauge.dA2, 0, 1, 64 * P * 2 * 3, "dA2");
  expect_one(gauge.dA3, 0, 0, 64 * 2 * 0.5, "dA3");
  expect_one(gauge.dY, 0, 0, 64 * 2 * 7, "dY");
}

// Row 0 has scores a million times larger than row 1 and may err more, but does not touch row 1 of
// dX.
TEST(Gauge, ARowOfLargeScoresExcusesNoOther) {
  LayerInputs<double> in = make_case(Kind::normal, {2, 16, 2, 4, Ties::none}, 1);
  in.A1 = matrix<double>(2, 2, {1e6, 0, 0, 1});
  const Evaluation e(in);
  EXPECT_GT(e.gauge.S(0, 0), 1e5 * e.gauge.S(1, 0));
  Matrix<float> dX = e.float_bwd.dX;
  EXPECT_TRUE(worst_ratio(dX, e.bwd.dX, e.gauge.dX).passes());
  dX(1, 0) *= 1.1F;
  const Worst worst = worst_ratio(dX, e.bwd.dX, e.gauge.dX);
  EXPECT_FALSE(worst.passes()) << to_string(worst);
  EXPECT_EQ(worst.row, 1U);
}

// A sum of n equal terms in one accumulator drifts: it fails, unless it is declared.
TEST(Gauge, LongSequentialSumsFailUnlessDeclared) {
  const std::size_t keys = 8192;
  LayerInputs<double> in = make_case(Kind::uniform, {1, keys, 1, 1, Ties::none}, 1);
  in.A3.values.assign(keys, 0x1.99999ap-4);  // 0.1 in float
  in.Y(0, 0) = 1;
  const Evaluation e(in);
  const Worst worst = e.worst().at("O");
  EXPECT_FALSE(worst.passes()) << to_string(worst);
  EXPECT_TRUE(worst.passes(pass_limit(keys, 1))) << to_string(worst);
}

TEST(Gauge, PassLimitGrowsWithTheLengthOfSums) {
  EXPECT_EQ(pass_limit(1, 1), 16);
  EXPECT_EQ(pass_limit(16, 4), 16);
  EXPECT_EQ(pass_limit(64, 8), 32);
  EXPECT_EQ(pass_limit(65, 8), 34);
  EXPECT_EQ(pass_limit(1024, 1), 16 * 1025 / 8.0);
  EXPECT_THROW(pass_limit(1, 0), std::invalid_argument);
}

TEST(Gauge, UnderflowIsNoError) {
  const LayerInputs<double> in = make_case(Kind::tiny, {5, 6, 4, 3, Ties::none}, 1);
  LayerInputs<double> subnormal = in;
  for (double& value : subnormal.dO.values) value *= 0x1p-50;
  Evaluation e(subnormal);
  EXPECT_TRUE(e.worst().at("dX").passes());
  e.float_bwd.dX = Matrix<float>(4, 4);  // flushed
  EXPECT_TRUE(e.worst().at("dX").passes());
  Evaluation large_enough(in);
  large_enough.float_bwd.dX = Matrix<float>(4, 4);
  EXPECT_FALSE(large_enough.worst().at("dX").passes());
}

// Products and e^s that are 0 in float but not in the reference, one at a time.
TEST(Gauge, FactorsMayUnderflow) {
  LayerInputs<double> in = make_case(Kind::zeros, {1, 2, 1, 1, Ties::none}, 1);
  in.A3 = matrix<double>(2, 1, {0x1p-80, 0x1p-80});
  in.Y(0, 0) = 0x1p-80;
  Evaluation e(in);
  EXPECT_NE(e.fwd.O(0, 0), 0);
  EXPECT_EQ(e.float_fwd.O(0, 0), 0);
  EXPECT_TRUE(e.worst().at("O").passes());

  in.A1(0, 0) = in.X(0, 0) = 1;
  in.A2 = matrix<double>(2, 1, {0, -120});
  in.A3 = matrix<double>(2, 1, {0, 0x1p60});
  in.Y(0, 0) = 0x1p60;
  e = Evaluation(in);
  EXPECT_GT(e.fwd.O(0, 0), 1e-17);  // e^-120 2^120
  EXPECT_EQ(e.float_fwd.O(0, 0), 0);
  EXPECT_TRUE(e.worst().at("O").passes());
}

TEST(Gauge, StridedOutputsAreReadInPlace) {
  const Matrix<double> ref = matrix<double>(2, 2, {1, 2, 3, 4});
  const Matrix<double> unit = matrix<double>(2, 2, {1, 1, 1, 1});
  const float out[] = {1, 2, -9, 3, 4};
  EXPECT_EQ(worst_ratio(out, 3, ref, unit).ratio, 0);
  EXPECT_EQ(max_relative_error(out, 3, ref), 0);
  EXPECT_GT(worst_ratio(out, 2, ref, unit).ratio, 1e6);
  EXPECT_THROW(worst_ratio(out, 3, ref, Matrix<double>(2, 1)), std::invalid_argument);
  EXPECT_THROW(worst_ratio(Matrix<float>(3, 2), ref, unit), std::invalid_argument);
}

TEST(Gauge, MaxRelativeErrorIsRelativeToTheLargestReference) {
  const Matrix<double> ref = matrix<double>(1, 3, {1, -4, 0});
  EXPECT_EQ(max_relative_error(matrix<double>(1, 3, {1, -4, 0}), ref), 0);
  EXPECT_EQ(max_relative_error(matrix<double>(1, 3, {1.5, -4, 0}), ref), 0.125);
  EXPECT_EQ(max_relative_error(matrix<double>(1, 3, {1, not_a_number, 0}), ref), infinity);
  const Matrix<double> zero(1, 1);
  EXPECT_EQ(max_relative_error(zero, zero), 0);
  EXPECT_EQ(max_relative_error(matrix<double>(1, 1, {1e-30}), zero), infinity);
}

}  // namespace
}  // namespace ioattn_reference
