#include "instruments/counters/perf_system.hpp"

#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "machine/text.hpp"

namespace ioattn::instruments {
namespace {

class LinuxPerf final : public PerfSystem {
 public:
  std::vector<int> threads() override {
    std::vector<int> ids;
    DIR* folder = opendir("/proc/self/task");
    if (folder == nullptr) return {static_cast<int>(syscall(SYS_gettid))};
    while (const dirent* entry = readdir(folder)) {
      if (const auto id = machine::parse_integer(entry->d_name)) {
        ids.push_back(static_cast<int>(*id));
      }
    }
    closedir(folder);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  int open(const OpenRequest& request) override {
    perf_event_attr attributes;
    fill_attributes(request, &attributes);
    const long descriptor = syscall(SYS_perf_event_open, &attributes, request.thread, -1,
                                    request.leader, PERF_FLAG_FD_CLOEXEC);
    return descriptor < 0 ? -errno : static_cast<int>(descriptor);
  }

  int enable(int leader, bool on) override {
    const unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    return ioctl(leader, request, PERF_IOC_FLAG_GROUP) < 0 ? -errno : 0;
  }

  int read(int leader, std::vector<std::uint64_t>* words) override {
    const std::size_t bytes = words->size() * sizeof(std::uint64_t);
    ssize_t got = 0;
    do {
      got = ::read(leader, words->data(), bytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    // Nothing is read of an event that the kernel has given up.
    return static_cast<std::size_t>(got) == bytes ? 0 : -ENODATA;
  }

  void close(int descriptor) override { ::close(descriptor); }
};

}  // namespace

void fill_attributes(const OpenRequest& request, perf_event_attr* attributes) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->size = sizeof *attributes;
  attributes->type = request.event.type;
  attributes->config = request.event.config;
  attributes->disabled = request.leader < 0;
  attributes->exclude_kernel = 1;
  attributes->exclude_hv = 1;
  attributes->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  if (request.with_children) {
    attributes->inherit = 1;
    attributes->enable_on_exec = 1;
  } else {
    attributes->read_format |= PERF_FORMAT_GROUP;
  }
}

PerfSystem& linux_perf() {
  static LinuxPerf system;
  return system;
}

}  // namespace ioattn::instruments
