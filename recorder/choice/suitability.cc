#include "recorder/choice/suitability.h"

#include <sys/resource.h>

#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "recorder/translate/base/layout.h"

namespace hindsight {
namespace {

// The views and the arenas take a multiple of the program's own addresses, mostly unused.
constexpr char kOvercommitFile[] = "/proc/sys/vm/overcommit_memory";
constexpr int kNeverOvercommit = 2;

struct Symptom {
  const char* symbol;
  const char* reason;
};
constexpr Symptom kSymptoms[] = {
    {"__asan_init", "record programs with AddressSanitizer"},
    {"__hwasan_init", "record programs with HWAddressSanitizer"},
    {"__lsan_init", "record programs with LeakSanitizer"},
    {"__msan_init", "record programs with MemorySanitizer"},
    {"__tsan_init", "record programs with ThreadSanitizer"},
    {"ptrace", "record programs that may trace others (this one uses ptrace)"},
};

std::string ReasonInLimits(pid_t process) {
  for (const auto& [resource, option] : {std::pair{RLIMIT_AS, "-v"}, {RLIMIT_DATA, "-d"}}) {
    rlimit limit = {};
    if (prlimit(process, resource, nullptr, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      return absl::StrCat("record under a limit on address space (ulimit ", option, ")");
    }
  }
  // What the process has, this one has as well.
  rlimit files = {};
  if (prlimit(process, RLIMIT_FSIZE, nullptr, &files) == 0 && files.rlim_cur < kFileBytes) {
    return "record under a small limit on the size of files (ulimit -f)";
  }
  int overcommit = 0;
  std::ifstream(kOvercommitFile) >> overcommit;
  if (overcommit == kNeverOvercommit) return "record where memory is never overcommitted";
  return "";
}

}  // namespace

std::string ReasonInMap(const MemoryMap& map) {
  for (const MapRegion& region : map.regions()) {
    const bool kernels = region.start >= uint64_t{1} << 63;
    if (kernels || region.name == "[stack]" || InWindows(region.start, region.end)) continue;
    return absl::StrCat("record programs with memory at 0x", absl::Hex(region.start), " (",
                        region.name, ")");
  }
  return "";
}

std::string ReasonToDoubt(const ExecutableFacts& facts) {
  for (const Symptom& symptom : kSymptoms) {
    if (facts.symbols.count(symptom.symbol) != 0) return symptom.reason;
  }
  return "";
}

std::string ReasonNotToTranslate(pid_t process) {
  const std::string reason = ReasonInLimits(process);
  if (!reason.empty()) return reason;
  return ReasonInMap(MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps")));
}

ExecutableFacts FactsOf(const std::string& executable) {
  std::set<std::string> names;
  for (const Symptom& symptom : kSymptoms) names.insert(symptom.symbol);
  return ReadExecutableFacts(executable, names);
}

}  // namespace hindsight
