#pragma once

// IOATTN_SANITIZER_OWNS_MALLOC: whether AddressSanitizer or ThreadSanitizer is compiled in, whose
// allocator takes malloc's place. It reserves terabytes of addresses, and (LLVM 14) a child that is
// forked while another thread allocates waits for its lock forever.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IOATTN_SANITIZER_OWNS_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IOATTN_SANITIZER_OWNS_MALLOC 1
#endif
#endif
#ifndef IOATTN_SANITIZER_OWNS_MALLOC
#define IOATTN_SANITIZER_OWNS_MALLOC 0
#endif

namespace ioattn_test {

// Random cases of a test. With a sanitizer, which looks for other faults than the test does and
// takes 15 times as long, one in five, and of what is counted in them.
constexpr int cases(int all) { return IOATTN_SANITIZER_OWNS_MALLOC ? (all + 4) / 5 : all; }

}  // namespace ioattn_test
