// What /proc/PID/fdinfo says of descriptors that are not files, and how they are made again.

#ifndef HINDSIGHT_RECORDER_RESTORE_DESCRIPTOR_DETAILS_H_
#define HINDSIGHT_RECORDER_RESTORE_DESCRIPTOR_DETAILS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hindsight {

// The number after "KEY:" in `details`, in `base`; nullopt: there is none.
std::optional<uint64_t> DetailNumber(absl::string_view details, absl::string_view key, int base);

// The two times, in ns, of a line "KEY: (seconds, nanoseconds)" of a timerfd; nullopt likewise.
std::optional<uint64_t> DetailTimeNs(absl::string_view details, absl::string_view key);

struct EpollTarget {
  int32_t fd = 0;
  uint32_t events = 0;
  uint64_t data = 0;
};
// Lines "tfd: FD events: HEX data: HEX ...".
std::vector<EpollTarget> EpollTargets(absl::string_view details);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_DESCRIPTOR_DETAILS_H_
