#include "recorder/syscalls/robust_futexes.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace hindsight {
namespace {

// Bit 0 of a pointer says that the futex inherits priority.
constexpr uint64_t kPriorityBit = 1;

}  // namespace

std::vector<MemoryRange> FutexesInList(uint64_t head, const ReadMemory& read) {
  std::vector<MemoryRange> words;
  if (head == 0) return words;
  const auto field = [&](uint64_t offset) { return ReadWord(read, head + offset, 8); };
  const auto offset = field(offsetof(robust_list_head, futex_offset));
  if (!offset.has_value()) return words;
  const auto add = [&](uint64_t entry) { words.push_back({entry + *offset, sizeof(uint32_t)}); };
  auto entry = field(offsetof(robust_list_head, list));
  for (int i = 0; i < ROBUST_LIST_LIMIT && entry.has_value(); ++i) {
    const uint64_t at = *entry & ~kPriorityBit;
    if (at == head) break;
    add(at);
    entry = ReadWord(read, at, 8);
  }
  // One that it was about to acquire, or to release.
  const uint64_t pending = field(offsetof(robust_list_head, list_op_pending)).value_or(0);
  if (pending != 0) add(pending & ~kPriorityBit);
  return words;
}

std::vector<MemoryRange> RobustFutexes(pid_t thread, const ReadMemory& read) {
  uint64_t head = 0;
  size_t size = 0;
  if (syscall(SYS_get_robust_list, thread, &head, &size) != 0) return {};
  return FutexesInList(head, read);
}

}  // namespace hindsight
