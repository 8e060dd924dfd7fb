#pragma once

#include <pthread.h>

namespace ioattn::parallel {

// pthread_cancel() of the calling thread waits until the end of the scope: to unwind from within
// would end the process.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved_); }
  ~Uncancelled() { pthread_setcancelstate(saved_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int saved_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ioattn::parallel
