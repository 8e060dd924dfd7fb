#pragma once

#include <vector>

#include "base/types.hpp"

// Where a curve of times over working-set sizes leaves one cache for the next, and whether that is
// where the cache was told to end.
namespace ioattn::search {

struct CurvePoint {
  index_t bytes = 0;
  double seconds = 0;  // of one access, or one word
};

// A rise from one plateau to the next, where half of it is done by ratio, or where times are twice
// those before it: if what comes next is far slower, a few misses make as much.
struct Knee {
  index_t bytes = 0;
  double before = 0, after = 0;  // seconds
};

// Of points in ascending order of bytes. Noise makes times longer, and a larger working set is
// never faster: what exceeds a later point is cut to it. Rises by less than half are none.
std::vector<Knee> find_knees(std::vector<CurvePoint> curve);

// What a probe says of a cache level.
enum class CacheVerdict : std::uint8_t { unclear, confirmed, smaller, larger };
const char* name_of(CacheVerdict verdict);

struct ProbedCache {
  CacheVerdict verdict = CacheVerdict::unclear;
  index_t found_bytes = 0;  // 0: unclear
};
// Of caches whose shares were told, in ascending order. Each takes the knee that is nearest to it,
// by ratio (one more than twelve times as far is another cache's), of those behind the one before
// it, of the first curve that has any.
std::vector<ProbedCache> judge_caches(const std::vector<index_t>& told,
                                      const std::vector<std::vector<Knee>>& curves);

}  // namespace ioattn::search
