#include "recorder/snapshot/points/attached_points.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "libhindsight/control.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/call_in_stop.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kPatience(1000);
constexpr uint64_t kLongestStack = uint64_t{8} << 20;
constexpr uint64_t kRedZone = 128;

template <typename T>
T ReadValue(const ProcMemFile& memory, uint64_t address) {
  T value = {};
  memory.Read(address, {reinterpret_cast<uint8_t*>(&value), sizeof(value)});
  return value;
}

void WritePointer(pid_t process, uint64_t address, uint64_t value) {
  ProcMemFile(process).Write(address, {reinterpret_cast<const uint8_t*>(&value), sizeof(value)});
}

absl::StatusOr<std::unique_ptr<ProcessStop>> Stop(pid_t process) {
  Stragglers stragglers;
  auto stop = ProcessStop::Make(process, kPatience, &stragglers);
  while (!stragglers.LetGo()) usleep(1000);
  return stop;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedPoints>> AttachedPoints::Make(pid_t process) {
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  const std::string root = absl::StrCat("/proc/", process, "/root");
  const ProcMemFile memory(process);
  std::vector<uint64_t> variables;
  for (const VariablePlace& place : FindVariables("hs_control", map, root)) {
    if (ReadValue<uint64_t>(memory, place.begin) != 0) return nullptr;
    variables.push_back(place.begin);
  }
  if (variables.empty()) return nullptr;
  for (const VariablePlace& place : FindVariables("hs_control_version", map, root)) {
    const auto version = ReadValue<uint32_t>(memory, place.begin);
    if (version == HS_CONTROL_VERSION) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the points of process ", process, " are of version ", version, ", not ",
                     static_cast<int>(HS_CONTROL_VERSION), ", and are not listened to"));
  }
  auto points = std::unique_ptr<AttachedPoints>(new AttachedPoints(process, std::move(variables)));
  RETURN_IF_ERROR(points->Map());
  return points;
}

// The process makes the file, so that it may open it whoever it runs as.
absl::Status AttachedPoints::Map() {
  ASSIGN_OR_RETURN(const auto stop, Stop(process_));
  // An empty name: the variable is zeros.
  ASSIGN_OR_RETURN(const int64_t fd, CallInStop(*stop, SYS_memfd_create,
                                                {variables_[0], MFD_CLOEXEC | MFD_ALLOW_SEALING}));
  if (fd < 0) return absl::ResourceExhaustedError("the process cannot make a file");
  fd_ = UniqueFd(open(absl::StrCat("/proc/", process_, "/fd/", fd).c_str(), O_RDWR | O_CLOEXEC));
  const bool sized = fd_.valid() && ftruncate(fd_.get(), sizeof(hs_control)) == 0;
  const auto mapped = CallInStop(
      *stop, SYS_mmap,
      {0, sizeof(hs_control), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<uint64_t>(fd), 0});
  CallInStop(*stop, SYS_close, {static_cast<uint64_t>(fd)}).IgnoreError();
  RETURN_IF_ERROR(mapped.status());
  if (*mapped < 0 || !sized) return absl::ResourceExhaustedError("the process cannot map a file");
  address_ = static_cast<uint64_t>(*mapped);
  return absl::OkStatus();
}

void AttachedPoints::Listen() {
  for (const uint64_t variable : variables_) WritePointer(process_, variable, address_);
}

// A thread that uses it has its address in a register or on its stack.
bool AttachedPoints::MayBeInUse(const ProcessStop& stop) const {
  const auto in_file = [&](uint64_t word) {
    return word >= address_ && word < address_ + sizeof(hs_control);
  };
  const ProcMemFile memory(stop.threads()[0].thread);
  const MemoryMap map =
      MemoryMap::OfProcess(absl::StrCat("/proc/", stop.threads()[0].thread, "/maps"));
  for (const ThreadMoment& thread : stop.Read()) {
    for (const uint64_t word : thread.registers.gpr) {
      if (in_file(word)) return true;
    }
    const uint64_t top = (thread.registers.gpr[kRsp] - kRedZone) & ~uint64_t{7};
    const MapRegion* const region = map.Find(top);
    if (region == nullptr) return true;
    std::vector<uint64_t> stack((std::min(region->end, top + kLongestStack) - top) / 8);
    if (!memory.Read(top, {reinterpret_cast<uint8_t*>(stack.data()), 8 * stack.size()}))
      return true;
    for (const uint64_t word : stack) {
      if (in_file(word)) return true;
    }
  }
  return false;
}

AttachedPoints::~AttachedPoints() {
  if (address_ == 0) return;
  for (const uint64_t variable : variables_) {
    if (ReadValue<uint64_t>(ProcMemFile(process_), variable) == address_) {
      WritePointer(process_, variable, 0);
    }
  }
  const auto stop = Stop(process_);
  if (!stop.ok() || (*stop)->threads().empty()) return;
  if (MayBeInUse(**stop)) {
    // Zeros: nobody listens, and no slot waits.
    CallInStop(**stop, SYS_mmap,
               {address_, sizeof(hs_control), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~uint64_t{0}, 0})
        .IgnoreError();
  } else {
    CallInStop(**stop, SYS_munmap, {address_, sizeof(hs_control)}).IgnoreError();
  }
}

}  // namespace hindsight
