#include "recorder/translate/limits/own_limits.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

constexpr uint64_t kPageBytes = 4096;
// What the kernel maps of a stack at first.
constexpr uint64_t kStackBytes = 132 * 1024;

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }

rlimit KernelLimit(uint64_t resource) {
  rlimit limit = {};
  RawCall(SYS_prlimit64, 0, resource, 0, reinterpret_cast<uint64_t>(&limit));
  return limit;
}

bool MayRaise() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  RawCall(SYS_capget, reinterpret_cast<uint64_t>(&header), reinterpret_cast<uint64_t>(data));
  return (data[0].effective >> CAP_SYS_RESOURCE & 1) != 0;
}

}  // namespace

rlimit OwnLimits::Get(uint64_t resource) const {
  const Limit& limit = static_cast<uint32_t>(resource) == RLIMIT_AS ? all_ : data_;
  return limit.is_set ? limit.value : KernelLimit(resource);
}

int64_t OwnLimits::Set(uint64_t resource, const rlimit& limit) {
  if (limit.rlim_cur > limit.rlim_max) return -EINVAL;
  if (limit.rlim_max > Get(resource).rlim_max && !MayRaise()) return -EPERM;
  (static_cast<uint32_t>(resource) == RLIMIT_AS ? all_ : data_) = {true, limit};
  return 0;
}

// Whether `more` bytes, of which `data` are data, may be mapped besides `usage`.
bool OwnLimits::IsWithin(const MappedBytes& usage, uint64_t more, uint64_t data) const {
  if (all_.Holds() && usage.all + kStackBytes + more > all_.value.rlim_cur) return false;
  return !data_.Holds() || data == 0 || usage.data + data <= data_.value.rlim_cur;
}

bool OwnLimits::AllowsMap(const uint64_t* arguments) const {
  const uint64_t start = arguments[0], bytes = WholePages(arguments[1]), flags = arguments[3];
  const bool is_private = (flags & MAP_TYPE) == MAP_PRIVATE && (flags & MAP_GROWSDOWN) == 0;
  const bool is_data = is_private && (arguments[2] & PROT_WRITE) != 0;
  const uint64_t end = (flags & MAP_FIXED) != 0 ? start + bytes : start;
  MemoryUsage usage = CountMemory(start, end, is_counted_);
  usage.total.all -= usage.in_range.all;
  usage.total.data -= usage.in_range.data;
  return IsWithin(usage.total, bytes, is_data ? bytes : 0);
}

bool OwnLimits::AllowsRemap(const uint64_t* arguments) const {
  const uint64_t old_bytes = WholePages(arguments[1]), bytes = WholePages(arguments[2]);
  if (bytes <= old_bytes) return true;
  const MemoryUsage usage = CountMemory(arguments[0], arguments[0] + kPageBytes, is_counted_);
  const uint64_t more = bytes - old_bytes;
  return IsWithin(usage.total, more, usage.in_range.data != 0 ? more : 0);
}

// What is to be data, and was not.
bool OwnLimits::AllowsProtection(const uint64_t* arguments) const {
  if ((arguments[2] & PROT_WRITE) == 0 || !data_.Holds()) return true;
  const MemoryUsage usage =
      CountMemory(arguments[0], arguments[0] + WholePages(arguments[1]), is_counted_);
  return IsWithin(usage.total, 0, usage.in_range.can_be_data - usage.in_range.data);
}

bool OwnLimits::AllowsBreak(uint64_t to) const {
  const auto now = static_cast<uint64_t>(RawCall(SYS_brk, 0));
  if (to <= now) return true;
  const uint64_t more = WholePages(to) - WholePages(now);
  return IsWithin(CountMemory(0, 0, is_counted_).total, more, more);
}

bool OwnLimits::Allows(uint64_t number, const uint64_t* arguments) const {
  if (!all_.Holds() && !data_.Holds()) return true;
  switch (number) {
    case SYS_mmap:
      return AllowsMap(arguments);
    case SYS_mremap:
      return AllowsRemap(arguments);
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      return AllowsProtection(arguments);
    case SYS_brk:
      return AllowsBreak(arguments[0]);
    default:
      return true;
  }
}

bool OwnLimits::IsAny() const {
  return Get(RLIMIT_AS).rlim_cur != RLIM_INFINITY || Get(RLIMIT_DATA).rlim_cur != RLIM_INFINITY;
}

void OwnLimits::Install() const {
  const auto install = [](uint64_t resource, const Limit& limit) {
    if (!limit.is_set) return;
    RawCall(SYS_prlimit64, 0, resource, reinterpret_cast<uint64_t>(&limit.value));
  };
  install(RLIMIT_AS, all_);
  install(RLIMIT_DATA, data_);
}

}  // namespace hindsight
