// The limits on memory that the program gives itself: RLIMIT_AS and RLIMIT_DATA.
//
// The kernel would count the views and whatever else is the agent's, and calls would fail that
// succeed natively. So it does not know them: the agent remembers them, answers who asks, and
// refuses calls that they do not allow. A program that is executed gets them from the kernel.
//
// Used by the agent: no library. What threads do at once is as if in some order, but that two may
// together get more than is allowed.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_LIMITS_OWN_LIMITS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_LIMITS_OWN_LIMITS_H_

#include <stdint.h>
#include <sys/resource.h>

#include "recorder/translate/limits/memory_usage.h"

namespace hindsight {

class OwnLimits {
 public:
  // `is_counted`: what is the program's, its stack excepted.
  explicit constexpr OwnLimits(IsCounted is_counted) : is_counted_(is_counted) {}

  // Whether `resource` is one of these.
  static bool IsKept(uint64_t resource) {
    return static_cast<uint32_t>(resource) == RLIMIT_AS ||
           static_cast<uint32_t>(resource) == RLIMIT_DATA;
  }
  // What the program is told. Requires: IsKept(resource), as the next.
  rlimit Get(uint64_t resource) const;
  // 0, or the error that the kernel would have.
  int64_t Set(uint64_t resource, const rlimit& limit);

  // Whether the call may be made. Those that map nothing may.
  bool Allows(uint64_t number, const uint64_t* arguments) const;

  // Whether a program that is executed will have a limit, by whoever has set it.
  bool IsAny() const;
  // They are the kernel's from now on.
  void Install() const;

 private:
  struct Limit {
    bool is_set;
    rlimit value;
    bool Holds() const { return is_set && value.rlim_cur != RLIM_INFINITY; }
  };
  bool AllowsMap(const uint64_t* arguments) const;
  bool AllowsRemap(const uint64_t* arguments) const;
  bool AllowsProtection(const uint64_t* arguments) const;
  bool AllowsBreak(uint64_t to) const;
  bool IsWithin(const MappedBytes& usage, uint64_t more, uint64_t data) const;

  IsCounted is_counted_;
  Limit all_ = {}, data_ = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_LIMITS_OWN_LIMITS_H_
