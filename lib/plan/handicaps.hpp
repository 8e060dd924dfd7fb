#pragma once

// The part of another's estimated time that a way may take at most to be taken in its place.
// Estimates err more on one side than on the other; each number is a measured one (MEASURED.md).
namespace ioattn::plan::handicap {

// Blocks in the outer cache, which is shared and whose size is less sure.
inline constexpr double outer = 0.95;
// Passes over rows that make their thin products on the way save what they are estimated to (Zen 4,
// d = 256).
inline constexpr double outer_fused = 0.97;
// Of SDPA, at the rates of the CPU or of others of its vendor. Passes over the keys in f32 and f64
// take 0.96 to 0.99 of their time in L2 where they are estimated to take as long (Zen 4, d = 80 to
// 160): longer blocks wait less often.
inline constexpr double outer_keys = 0.99;
// Forward rows in f64, which pass by the keys more often, save what they are estimated to.
inline constexpr double outer_rows_of_f64 = 0.96;

// Tiles where other passes compete, whose estimates are nearer to what they take (n = 1024,
// d = 1024, all gradients: tiles were to save 4 % and took 3 % longer, Zen 4).
inline constexpr double tiles = 0.95;
// In the layer problem those of pairs, which round factors that others do not.
inline constexpr double tiles_of_pairs = 0.9;

// Another instruction set: that is what the comparison errs by.
inline constexpr double another_isa = 0.9;

}  // namespace ioattn::plan::handicap
