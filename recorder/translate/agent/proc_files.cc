// What /proc shows to the program of itself: its own part of the memory map, and its stack where
// that is.

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/base/layout.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/view/own_regions.h"

namespace hindsight::agent {
namespace {

// Longer than a line: a path, and what is said about its region.
constexpr uint64_t kBufferBytes = 16 * kKiB;
constexpr uint64_t kPathBytes = 256;

bool IsText(const char* text, const char* expected) {
  while (*text == *expected && *text != 0) ++text, ++expected;
  return *text == *expected;
}

const char* LastPart(const char* path) {
  const char* last = path;
  for (; *path != 0; ++path) {
    if (*path == '/') last = path + 1;
  }
  return last;
}

bool IsMapFile(const char* name) {
  return IsText(name, "maps") || IsText(name, "smaps") || IsText(name, "numa_maps");
}

// Null if there is none.
const char* PathOf(const GuestCall& call) {
  switch (call.number()) {
    case SYS_open:
      return PointerTo<const char>(call.argument(0));
    case SYS_openat:
    case SYS_openat2:
      return PointerTo<const char>(call.argument(1));
    default:
      return nullptr;
  }
}

// The files that are not shown as they are.
enum class ShownFile { kOther, kMap, kStatus, kMemory };

// Whether the process has opened its own memory: what is written to it may be code.
uint32_t memory_opened;

// What the guest's string ends in the name of. It is not copied: most are others.
ShownFile FileNamed(const char* guest_path) {
  char path[kPathBytes];
  for (uint64_t i = 0; i < sizeof(path); ++i) {
    if (!CopyGuest(&path[i], guest_path + i, 1)) break;
    if (path[i] != 0) continue;
    const char* const name = LastPart(path);
    if (IsText(name, "status")) return ShownFile::kStatus;
    if (IsText(name, "mem")) return ShownFile::kMemory;
    return IsMapFile(name) ? ShownFile::kMap : ShownFile::kOther;
  }
  return ShownFile::kOther;
}

// The digits of `number` in `text`, backwards; returns what follows, null if they differ.
const char* SkipNumber(const char* text, uint64_t number) {
  char digits[24];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) {
    if (*text++ != digits[--count]) return nullptr;
  }
  return text;
}

char* WriteText(char* to, const char* text) {
  while (*text != 0) *to++ = *text++;
  *to = 0;
  return to;
}

// "/proc/self/fd/N"
void WriteLink(char* to, uint64_t file) {
  to = WriteText(to, "/proc/self/fd/");
  uint64_t divisor = 1;
  while (file / divisor >= 10) divisor *= 10;
  for (; divisor != 0; divisor /= 10) *to++ = static_cast<char>('0' + file / divisor % 10);
  *to = 0;
}

// Of an open file in /proc. False if it is none.
bool ReadProcPath(uint64_t file, char (*path)[kPathBytes]) {
  struct statfs system;
  if (Call(SYS_fstatfs, file, AddressOf(&system)) != 0 || system.f_type != PROC_SUPER_MAGIC) {
    return false;
  }
  const int64_t length = ReadPath(file, *path, sizeof(*path) - 1);
  if (length <= 0) return false;
  (*path)[length] = 0;
  return true;
}

// Whether the open file is a process's memory, whatever name has led there, and can be written to.
bool IsWritableMemory(uint64_t file) {
  const int64_t flags = Call(SYS_fcntl, file, F_GETFL);
  if (IsError(flags) || (flags & O_ACCMODE) == O_RDONLY) return false;
  char path[kPathBytes];
  return ReadProcPath(file, &path) && IsText(LastPart(path), "mem");
}

// Whether the open file is one of this process: MOUNT/PROCESS/maps, MOUNT/PROCESS/task/THREAD/maps.
bool IsOwn(const Thread& thread, uint64_t file) {
  char path[kPathBytes];
  if (!ReadProcPath(file, &path)) return false;
  const auto process = static_cast<uint64_t>(thread.process_id);
  for (const char* part = path; *part != 0; ++part) {
    if (*part != '/') continue;
    const char* rest = SkipNumber(part + 1, process);
    if (rest != nullptr && *rest == '/') return true;
  }
  return false;
}

class MapFilter {
 public:
  // Whether the program sees `line`, which ends with a newline: "START-END ..." (maps, smaps) or
  // "START ..." (numa_maps) of its own regions, and what smaps says below them.
  bool Shows(const char* line) {
    const char* at = line;
    const uint64_t start = ReadHex(&at);
    if (at == line || (*at != '-' && *at != ' ')) return shows_;
    uint64_t end = start;
    if (*at == '-') {
      ++at;
      end = ReadHex(&at);
    }
    const bool kernels = start >= uint64_t{1} << 63;
    return shows_ = kernels || InWindows(start, end);
  }

 private:
  bool shows_ = false;
};

// Puts the digits of `number`, and a newline, at `to`.
void WriteNumber(char* to, uint32_t number) {
  uint32_t divisor = 1;
  while (number / divisor >= 10) divisor *= 10;
  for (; divisor != 0; divisor /= 10) *to++ = static_cast<char>('0' + number / divisor % 10);
  *to++ = '\n';
  *to = 0;
}

void WriteAll(uint64_t file, const char* bytes, uint64_t size) {
  while (size > 0) {
    const int64_t written = Call(SYS_write, file, AddressOf(bytes), size);
    if (written <= 0) return;
    bytes += written;
    size -= static_cast<uint64_t>(written);
  }
}

// What the kernel does not know is the filters of system calls.
class StatusLines {
 public:
  explicit StatusLines(const Thread& thread) : thread_(thread) {}

  // Writes what the program sees of `line`, which has `size` characters, the newline included.
  void Write(const char* line, uint64_t size, uint64_t to) const {
    const char* instead = nullptr;
    uint32_t number = 0;
    if (Begins(line, "Seccomp:\t")) {
      instead = "Seccomp:\t";
      number = static_cast<uint32_t>(FilterMode(thread_));
    } else if (Begins(line, "Seccomp_filters:\t")) {
      instead = "Seccomp_filters:\t";
      number = FilterCount(thread_);
    }
    if (instead == nullptr) {
      WriteAll(to, line, size);
      return;
    }
    char text[64];
    char* const end = WriteText(text, instead);
    WriteNumber(end, number);
    uint64_t bytes = 0;
    while (text[bytes] != 0) ++bytes;
    WriteAll(to, text, bytes);
  }

 private:
  static bool Begins(const char* line, const char* with) {
    while (*with != 0 && *line == *with) ++line, ++with;
    return *with == 0;
  }

  const Thread& thread_;
};

class MapLines {
 public:
  void Write(const char* line, uint64_t size, uint64_t to) {
    if (filter_.Shows(line)) WriteAll(to, line, size);
  }

 private:
  MapFilter filter_;
};

// Copies what the program sees.
template <typename Lines>
void CopyShown(uint64_t from, uint64_t to, Lines lines) {
  char buffer[kBufferBytes];
  uint64_t filled = 0;
  while (true) {
    const int64_t got = Call(SYS_read, from, AddressOf(buffer) + filled, sizeof(buffer) - filled);
    if (got <= 0) return;
    filled += static_cast<uint64_t>(got);
    uint64_t line = 0;
    for (uint64_t i = 0; i < filled; ++i) {
      if (buffer[i] != '\n') continue;
      lines.Write(buffer + line, i + 1 - line, to);
      line = i + 1;
    }
    filled -= line;
    for (uint64_t i = 0; i < filled; ++i) buffer[i] = buffer[line + i];
  }
}

// Whether files, those in memory as well, can become long enough: a write that goes beyond the
// program's limit raises a signal.
bool MayWriteLines() {
  rlimit limit = {};
  Call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, AddressOf(&limit));
  return limit.rlim_cur >= 64 * kMiB;
}

// Puts `from`, reopened so that it can only be read, in the place of `file`.
void Replace(uint64_t file, uint64_t from) {
  char link[32];
  WriteLink(link, from);
  const auto close_on_exec =
      static_cast<uint64_t>(Call(SYS_fcntl, file, F_GETFD)) & FD_CLOEXEC ? O_CLOEXEC : 0;
  const int64_t reopened =
      Call(SYS_openat, static_cast<uint64_t>(AT_FDCWD), AddressOf(link), O_RDONLY | O_CLOEXEC);
  if (IsError(reopened)) return;
  Call(SYS_dup3, static_cast<uint64_t>(reopened), file, close_on_exec);
  Call(SYS_close, static_cast<uint64_t>(reopened));
}

// The auxiliary vector of an initial stack: after argc, argv, null, envp, null. Ends with AT_NULL.
uint64_t* FindAuxv(uint64_t* word) {
  for (++word; *word != 0; ++word) {
  }
  for (++word; *word != 0; ++word) {
  }
  return word + 1;
}

uint32_t AuxvBytes(const uint64_t* auxv) {
  uint32_t words = 2;
  for (; auxv[0] != 0; auxv += 2) words += 2;
  return words * 8;
}

}  // namespace

void TellMovedStack(const ImagePlaces& places, uint64_t stack_pointer, uint64_t distance) {
  uint64_t* const auxv = FindAuxv(PointerTo<uint64_t>(stack_pointer));
  prctl_mm_map map = {};
  map.start_code = places.start_code;
  map.end_code = places.end_code;
  map.start_data = places.start_data;
  map.end_data = places.end_data;
  map.start_brk = places.start_brk;
  map.brk = static_cast<uint64_t>(Call(SYS_brk, 0));
  map.start_stack = stack_pointer;
  map.arg_start = places.arg_start + distance;
  map.arg_end = places.arg_end + distance;
  map.env_start = places.env_start + distance;
  map.env_end = places.env_end + distance;
  map.auxv = reinterpret_cast<__u64*>(auxv);
  map.auxv_size = AuxvBytes(auxv);
  map.exe_fd = ~0u;
  Call(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, AddressOf(&map), sizeof(map));
}

bool IsMemoryFileOpened() { return __atomic_load_n(&memory_opened, __ATOMIC_ACQUIRE) != 0; }

void NoteMemoryWritten(Thread* thread, const GuestCall& made, int64_t result) {
  if (!IsMemoryFileOpened() || result <= 0) return;
  uint64_t file = made.argument(0);
  uint64_t end = 0;
  const auto bytes = static_cast<uint64_t>(result);
  switch (made.number()) {
    case SYS_pwritev2:
      if (made.argument(3) == ~uint64_t{0}) break;
      [[fallthrough]];
    case SYS_pwrite64:
    case SYS_pwritev:
      end = made.argument(3) + bytes;
      break;
    case SYS_splice:
      file = made.argument(2);
      if (made.argument(3) != 0) CopyGuest(&end, PointerTo<void>(made.argument(3)), sizeof(end));
      break;
    case SYS_write:
    case SYS_writev:
    case SYS_sendfile:
      break;
    default:
      return;
  }
  char path[kPathBytes];
  if (!IsOwn(*thread, file) || !ReadProcPath(file, &path) || !IsText(LastPart(path), "mem")) {
    return;
  }
  if (end == 0) end = static_cast<uint64_t>(Call(SYS_lseek, file, 0, SEEK_CUR));
  Invalidate(thread, end - bytes, end);
}

int64_t ReadPath(uint64_t file, char* path, uint64_t bytes) {
  char link[40];
  WriteLink(link, file);
  return Call(SYS_readlink, AddressOf(link), AddressOf(path), bytes);
}

void ShowOwnMap(Thread* thread, const GuestCall& made, GuestCall* call) {
  const char* const path = PathOf(made);
  if (path == nullptr || IsError(call->result())) return;
  ShownFile kind = FileNamed(path);
  if (kind == ShownFile::kOther && FilterMode(*thread) == 0 &&
      IsWritableMemory(static_cast<uint64_t>(call->result()))) {
    kind = ShownFile::kMemory;
  }
  if (kind == ShownFile::kMemory) {
    if (__atomic_exchange_n(&memory_opened, 1, __ATOMIC_ACQ_REL) == 0) {
      Ask(thread, RequestKind::kEndGuards);
    }
    return;
  }
  const bool as_it_is = kind == ShownFile::kStatus && FilterMode(*thread) == 0;
  if (kind == ShownFile::kOther || as_it_is) return;
  const auto file = static_cast<uint64_t>(call->result());
  if (!IsOwn(*thread, file) || !MayWriteLines()) return;
  static constexpr char kName[] = "maps";
  const int64_t copy = Call(SYS_memfd_create, AddressOf(kName), MFD_CLOEXEC);
  if (IsError(copy)) return;
  if (kind == ShownFile::kMap) {
    CopyShown(file, static_cast<uint64_t>(copy), MapLines());
  } else {
    CopyShown(file, static_cast<uint64_t>(copy), StatusLines(*thread));
  }
  Replace(file, static_cast<uint64_t>(copy));
  Call(SYS_close, static_cast<uint64_t>(copy));
}

}  // namespace hindsight::agent
