// The system calls of a throw-away copy of the process.

#include <asm/ioctls.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/syscall_names.h"
#include "server/target/scratch_process.h"

namespace hindsight {
namespace {

// More than a debugger's user wants to read at once.
constexpr uint64_t kMaxTextBytes = 64 << 10;

constexpr uint64_t kBlockBytes = 1024;  // a terminal's

bool IsOutput(uint64_t descriptor) { return descriptor == 1 || descriptor == 2; }

uint64_t PageUp(uint64_t address) { return (address + kPageBytes - 1) & ~(kPageBytes - 1); }

}  // namespace

std::optional<StopEvent> ScratchProcess::Syscall() {
  RegisterFile registers = cpu_->registers();
  const uint64_t number = registers.gpr[kRax];
  const uint64_t first = registers.gpr[kRdi];
  int64_t result = 0;
  switch (number) {
    case SYS_exit:
    case SYS_exit_group:
      return Refuse("the end of the program", SIGKILL);
    case SYS_write:
      result =
          IsOutput(first) ? WriteText(registers.gpr[kRsi], registers.gpr[kRdx]) : NotServed(number);
      break;
    // Output is a terminal, so that the C library passes it on line by line.
    case SYS_fstat:
      result = DescribeFile(first, registers.gpr[kRsi]);
      break;
    case SYS_newfstatat:
      result = DescribeFile(first, registers.gpr[kRdx]);
      break;
    case SYS_ioctl:
      result = IsOutput(first) && registers.gpr[kRsi] == TCGETS ? 0 : NotServed(number);
      break;
    case SYS_brk:
      result = MoveBreak(first);
      break;
    case SYS_mmap:
      result = MapMemory(registers);
      break;
    // Memory given back stays; nobody can tell in the time the copy lives.
    case SYS_munmap:
    case SYS_madvise:
    case SYS_sched_yield:
      break;
    case SYS_mprotect:
      result = Protect(first, registers.gpr[kRsi], registers.gpr[kRdx]);
      break;
    // No signal comes here, so it does not matter which are blocked.
    case SYS_rt_sigprocmask:
      result = ForgetSignalMask(registers.gpr[kRdx]);
      break;
    case SYS_futex:
      if (MustWait(registers)) return Refuse("waiting for a thread that stands still", SIGSTOP);
      break;
    // Both are answered by the host: nobody remembers what they said.
    case SYS_clock_gettime:
      result = TellTime(first, registers.gpr[kRsi]);
      break;
    case SYS_getrandom:
      result = GiveRandomBytes(first, registers.gpr[kRsi]);
      break;
    case SYS_getpid:
      result = thread_.pid;
      break;
    case SYS_gettid:
      result = thread_.tid;
      break;
    default:
      result = NotServed(number);
  }
  registers.gpr[kRcx] = registers.rip + 2;
  registers.gpr[kR11] = registers.rflags;
  registers.gpr[kRax] = static_cast<uint64_t>(result);
  Advance(registers, 2);
  return std::nullopt;
}

int64_t ScratchProcess::WriteText(uint64_t address, uint64_t size) {
  std::string bytes(std::min(size, kMaxTextBytes), '\0');
  size_t known =
      ReadMemory(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  if (known == 0 && size > 0) return -EFAULT;
  absl::StrAppend(&text_, bytes.substr(0, known));
  return static_cast<int64_t>(known);
}

int64_t ScratchProcess::TellTime(uint64_t clock, uint64_t address) {
  timespec now = {};
  if (clock_gettime(static_cast<clockid_t>(clock), &now) != 0) return -EINVAL;
  absl::Status status = WriteMemory(address, {reinterpret_cast<const uint8_t*>(&now), sizeof(now)});
  return status.ok() ? 0 : -EFAULT;
}

int64_t ScratchProcess::GiveRandomBytes(uint64_t address, uint64_t size) {
  uint8_t bytes[256];
  const ssize_t given = getrandom(bytes, std::min<uint64_t>(size, sizeof(bytes)), 0);
  if (given < 0) return -EAGAIN;
  return WriteMemory(address, {bytes, static_cast<size_t>(given)}).ok() ? given : -EFAULT;
}

int64_t ScratchProcess::DescribeFile(uint64_t descriptor, uint64_t address) {
  if (!IsOutput(descriptor)) return NotServed(SYS_fstat);
  struct stat info = {};
  info.st_mode = S_IFCHR | 0620;
  info.st_nlink = 1;
  info.st_blksize = kBlockBytes;
  absl::Status status =
      WriteMemory(address, {reinterpret_cast<const uint8_t*>(&info), sizeof(info)});
  return status.ok() ? 0 : -EFAULT;
}

int64_t ScratchProcess::MoveBreak(uint64_t end) {
  for (MapRegion& region : maps_) {
    if (region.name != "[heap]") continue;
    bool free = std::none_of(maps_.begin(), maps_.end(), [&](const MapRegion& other) {
      return other.start >= region.end && other.start < end;
    });
    if (end > region.end && end - region.end < (uint64_t{1} << 30) && free) {
      region.end = PageUp(end);
      return static_cast<int64_t>(end);
    }
    return static_cast<int64_t>(region.end);
  }
  return -ENOMEM;
}

int64_t ScratchProcess::Protect(uint64_t start, uint64_t size, uint64_t protection) {
  const uint64_t end = start + PageUp(size);
  std::vector<MapRegion> changed;
  for (MapRegion& region : maps_) {
    const MapRegion whole = region;
    const uint64_t from = std::max(start, whole.start), to = std::min(end, whole.end);
    if (from >= to) continue;
    // What lies before and behind keeps its rights.
    if (from > whole.start) (changed.emplace_back(whole)).end = from;
    if (to < whole.end) (changed.emplace_back(whole)).start = to;
    region.start = from;
    region.end = to;
    region.protection = static_cast<uint32_t>(protection);
  }
  maps_.insert(maps_.end(), changed.begin(), changed.end());
  return 0;
}

int64_t ScratchProcess::ForgetSignalMask(uint64_t old_mask) {
  const uint64_t none = 0;
  if (old_mask == 0) return 0;
  absl::Status status =
      WriteMemory(old_mask, {reinterpret_cast<const uint8_t*>(&none), sizeof(none)});
  return status.ok() ? 0 : -EFAULT;
}

// Of a futex call. Waking nobody is no work; a value that has changed is not waited for.
bool ScratchProcess::MustWait(const RegisterFile& registers) {
  const uint64_t operation = registers.gpr[kRsi] & FUTEX_CMD_MASK;
  const bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
                     operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2;
  uint32_t value = 0;
  const size_t known =
      ReadMemory(registers.gpr[kRdi], {reinterpret_cast<uint8_t*>(&value), sizeof(value)});
  return waits && known == sizeof(value) && value == static_cast<uint32_t>(registers.gpr[kRdx]);
}

// Private anonymous memory wherever there is room; nothing else.
int64_t ScratchProcess::MapMemory(const RegisterFile& registers) {
  const uint64_t flags = registers.gpr[kR10];
  const uint64_t size = PageUp(registers.gpr[kRsi]);
  if ((flags & MAP_ANONYMOUS) == 0 || (flags & (MAP_SHARED | MAP_FIXED)) != 0 ||
      (flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE) {
    return NotServed(SYS_mmap);
  }
  if (size == 0 || size > (uint64_t{1} << 40)) return -ENOMEM;
  // Far below where Linux puts anything, far above programs.
  uint64_t start = uint64_t{0x1000} << 32;
  for (const MapRegion& region : maps_) {
    if (region.start < start + size && region.end > start) start = region.end;
  }
  maps_.push_back({.start = start,
                   .end = start + size,
                   .protection = static_cast<uint32_t>(registers.gpr[kRdx])});
  return static_cast<int64_t>(start);
}

int64_t ScratchProcess::NotServed(uint64_t number) {
  if (refused_syscalls_.insert(number).second) {
    const char* name = SyscallName(static_cast<int64_t>(number));
    absl::StrAppendFormat(&text_,
                          "hindsight: system call %s fails (ENOSYS) in a copy of the recording\n",
                          name != nullptr ? name : absl::StrCat(number));
  }
  return -ENOSYS;
}

}  // namespace hindsight
