#pragma once

namespace ioattn_test {

// Where IOATTN_TEST_TILES is "trapped", makes the instructions of AMX those of this CPU, which must
// have AVX512-BF16 and none of them: each raises SIGILL, and what the kernels' own object holds is
// then decoded and done. Whether they are.
bool trap_tiles();

}  // namespace ioattn_test
