#include "server/target/scratch_kernel.h"

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

namespace hindsight {
namespace {

// More than a debugger's user wants to read at once.
constexpr uint64_t kMaxTextBytes = 64 << 10;

constexpr uint64_t kBlockBytes = 1024;  // a terminal's

bool IsOutput(uint64_t descriptor) { return descriptor == 1 || descriptor == 2; }

template <typename T>
absl::Span<const uint8_t> BytesOf(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

}  // namespace

std::variant<int64_t, ScratchKernel::Refusal> ScratchKernel::Call(ThreadRef thread,
                                                                  const RegisterFile& registers) {
  const uint64_t number = registers.gpr[kRax];
  const uint64_t first = registers.gpr[kRdi], second = registers.gpr[kRsi];
  const uint64_t third = registers.gpr[kRdx];
  switch (number) {
    case SYS_exit:
    case SYS_exit_group:
      return Refusal{"the end of the program", SIGKILL};
    case SYS_write:
      return Write(first, second, third);
    // Output is a terminal, so that the C library passes it on line by line.
    case SYS_fstat:
      return WriteFileStatus(first, second);
    case SYS_newfstatat:
      return WriteFileStatus(first, third);
    case SYS_ioctl:
      return IsOutput(first) && second == TCGETS ? 0 : NotServed(number);
    case SYS_brk:
      return machine_->MoveBreak(first);
    case SYS_mmap:
      return MapMemory(registers);
    // Unmapped memory stays: the copy does not live long enough to run out.
    case SYS_munmap:
    case SYS_madvise:
    case SYS_sched_yield:
      return 0;
    case SYS_mprotect:
      return machine_->Protect(first, second, static_cast<uint32_t>(third));
    // No signal arrives here, so it does not matter which are blocked.
    case SYS_rt_sigprocmask:
      return WriteSignalMask(third);
    case SYS_futex:
      if (MustWait(registers)) return Refusal{"waiting for a thread that does not run", SIGSTOP};
      return 0;
    // The host's answers: nothing later depends on their being repeatable.
    case SYS_clock_gettime:
      return WriteTime(first, second);
    case SYS_getrandom:
      return WriteRandomBytes(first, second);
    case SYS_getpid:
      return thread.pid;
    case SYS_gettid:
      return thread.tid;
    default:
      return NotServed(number);
  }
}

int64_t ScratchKernel::Write(uint64_t descriptor, uint64_t address, uint64_t size) {
  if (!IsOutput(descriptor)) return NotServed(SYS_write);
  std::string bytes(std::min(size, kMaxTextBytes), '\0');
  const size_t known = machine_->ReadMemory(
      address, absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()));
  if (known == 0 && size > 0) return -EFAULT;
  absl::StrAppend(console_, bytes.substr(0, known));
  return static_cast<int64_t>(known);
}

// Private anonymous memory, wherever there is room.
int64_t ScratchKernel::MapMemory(const RegisterFile& registers) {
  const uint64_t flags = registers.gpr[kR10];
  if ((flags & MAP_ANONYMOUS) == 0 || (flags & (MAP_SHARED | MAP_FIXED)) != 0 ||
      (flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE) {
    return NotServed(SYS_mmap);
  }
  return machine_->MapAnonymous(registers.gpr[kRsi], static_cast<uint32_t>(registers.gpr[kRdx]));
}

int64_t ScratchKernel::WriteTime(uint64_t clock, uint64_t address) {
  timespec now = {};
  if (clock_gettime(static_cast<clockid_t>(clock), &now) != 0) return -EINVAL;
  return machine_->WriteMemory(address, BytesOf(now)).ok() ? 0 : -EFAULT;
}

int64_t ScratchKernel::WriteRandomBytes(uint64_t address, uint64_t size) {
  uint8_t bytes[256];
  const ssize_t given = getrandom(bytes, std::min<uint64_t>(size, sizeof(bytes)), 0);
  if (given < 0) return -EAGAIN;
  const absl::Span<const uint8_t> written(bytes, static_cast<size_t>(given));
  return machine_->WriteMemory(address, written).ok() ? given : -EFAULT;
}

int64_t ScratchKernel::WriteFileStatus(uint64_t descriptor, uint64_t address) {
  if (!IsOutput(descriptor)) return NotServed(SYS_fstat);
  struct stat info = {};
  info.st_mode = S_IFCHR | 0620;
  info.st_nlink = 1;
  info.st_blksize = kBlockBytes;
  return machine_->WriteMemory(address, BytesOf(info)).ok() ? 0 : -EFAULT;
}

// The old mask, if it is asked for: nothing is blocked.
int64_t ScratchKernel::WriteSignalMask(uint64_t address) {
  const uint64_t none = 0;
  if (address == 0) return 0;
  return machine_->WriteMemory(address, BytesOf(none)).ok() ? 0 : -EFAULT;
}

// Of a futex call. Waking does nothing; a wait for a value that has changed returns at once.
bool ScratchKernel::MustWait(const RegisterFile& registers) {
  const uint64_t operation = registers.gpr[kRsi] & FUTEX_CMD_MASK;
  const bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
                     operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2;
  uint32_t value = 0;
  const size_t known = machine_->ReadMemory(registers.gpr[kRdi],
                                            {reinterpret_cast<uint8_t*>(&value), sizeof(value)});
  return waits && known == sizeof(value) && value == static_cast<uint32_t>(registers.gpr[kRdx]);
}

int64_t ScratchKernel::NotServed(uint64_t number) {
  if (reported_.insert(number).second) {
    const char* name = SyscallName(static_cast<int64_t>(number));
    absl::StrAppendFormat(console_,
                          "hindsight: system call %s fails (ENOSYS) in a copy of the recording\n",
                          name != nullptr ? name : absl::StrCat(number));
  }
  return -ENOSYS;
}

}  // namespace hindsight
