#include "confine/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

// Of linux/landlock.h, which is older on the machines that we build on than the kernels we run on.
constexpr unsigned kCreateRulesetVersion = 1;
constexpr int kRulePathBeneath = 1;
constexpr uint64_t kReadFile = 1 << 2;
constexpr uint64_t kReadDirectory = 1 << 3;

struct RulesetAttributes {
  uint64_t handled_files = 0;
  uint64_t handled_net = 0;
  uint64_t scoped = 0;
};

struct __attribute__((packed)) PathBeneath {
  uint64_t allowed = 0;
  int32_t parent = -1;
};

// How many bits of each set a kernel of this version knows.
RulesetAttributes AllKnownTo(long version) {
  // execute to make_sym; refer; truncate; and from version 5 ioctl on devices.
  const int file_bits = version < 2 ? 13 : version < 3 ? 14 : version < 5 ? 15 : 16;
  RulesetAttributes all;
  all.handled_files = (uint64_t{1} << file_bits) - 1;
  if (version >= 4) all.handled_net = 3;  // bind, connect
  if (version >= 6) all.scoped = 3;       // abstract sockets, signals
  return all;
}

}  // namespace

absl::Status RestrictFiles(absl::Span<const int> directories) {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kCreateRulesetVersion);
  if (version < 1) return absl::UnimplementedError("this kernel has no Landlock");
  const RulesetAttributes attributes = AllKnownTo(version);
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const UniqueFd ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0u)));
  if (!ruleset.valid()) return absl::ErrnoToStatus(errno, "landlock_create_ruleset");
  for (const int directory : directories) {
    PathBeneath rule;
    rule.allowed = kReadFile | kReadDirectory;
    rule.parent = directory;
    if (syscall(SYS_landlock_add_rule, ruleset.get(), kRulePathBeneath, &rule, 0u) != 0) {
      return absl::ErrnoToStatus(errno, "landlock_add_rule");
    }
  }
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0u) != 0) {
    return absl::ErrnoToStatus(errno, "landlock_restrict_self");
  }
  return absl::OkStatus();
}

}  // namespace hindsight
