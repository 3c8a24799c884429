#include "recorder/emulate/thread/sent_memory.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace hindsight {
namespace {

// Of longer vectors only so much is read, for they are read at each call.
constexpr uint64_t kMaxVectors = 64;
constexpr uint64_t kMaxMessages = 16;

enum class OutputKind : uint8_t {
  kBytes,     // address and size in two arguments
  kVectors,   // iovecs and their number
  kMessage,   // a msghdr
  kMessages,  // mmsghdrs and their number
  kQueued,    // a msgbuf: a long, then as many bytes as the next argument says
};

struct OutputCall {
  int64_t number;
  OutputKind kind;
  int argument;  // the first one that describes the memory
};

constexpr OutputCall kCalls[] = {
    {SYS_write, OutputKind::kBytes, 1},      {SYS_pwrite64, OutputKind::kBytes, 1},
    {SYS_sendto, OutputKind::kBytes, 1},     {SYS_mq_timedsend, OutputKind::kBytes, 1},
    {SYS_setsockopt, OutputKind::kBytes, 3}, {SYS_writev, OutputKind::kVectors, 1},
    {SYS_pwritev, OutputKind::kVectors, 1},  {SYS_pwritev2, OutputKind::kVectors, 1},
    {SYS_vmsplice, OutputKind::kVectors, 1}, {SYS_process_vm_writev, OutputKind::kVectors, 1},
    {SYS_sendmsg, OutputKind::kMessage, 1},  {SYS_sendmmsg, OutputKind::kMessages, 1},
    {SYS_msgsnd, OutputKind::kQueued, 1},
};

class RangeFinder {
 public:
  RangeFinder(uint64_t max_bytes, const ReadMemory& read) : left_(max_bytes), read_(read) {}

  std::vector<MemoryRange> Find(OutputKind kind, const uint64_t* arguments) {
    switch (kind) {
      case OutputKind::kBytes:
        Add(arguments[0], arguments[1]);
        break;
      case OutputKind::kVectors:
        AddVectors(arguments[0], arguments[1]);
        break;
      case OutputKind::kMessage:
        AddMessage(arguments[0]);
        break;
      case OutputKind::kMessages:
        for (uint64_t i = 0; i < std::min(arguments[1] & UINT32_MAX, kMaxMessages); ++i) {
          AddMessage(arguments[0] + i * sizeof(mmsghdr));
        }
        break;
      case OutputKind::kQueued:
        Add(arguments[0], sizeof(long));
        Add(arguments[0] + sizeof(long), arguments[1]);
        break;
    }
    return std::move(ranges_);
  }

 private:
  void Add(uint64_t address, uint64_t size_bytes) {
    const uint64_t taken = std::min(size_bytes, left_);
    if (taken == 0 || address + taken < address) return;
    left_ -= taken;
    ranges_.push_back({address, taken});
  }

  void AddVectors(uint64_t address, uint64_t number) {
    iovec vectors[kMaxVectors];
    const uint64_t taken = std::min(number, kMaxVectors);
    if (taken == 0 || left_ == 0) return;
    const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(vectors), taken * sizeof(iovec));
    if (!read_(address, bytes)) return;
    for (uint64_t i = 0; i < taken; ++i) {
      Add(reinterpret_cast<uint64_t>(vectors[i].iov_base), vectors[i].iov_len);
    }
  }

  void AddMessage(uint64_t address) {
    msghdr message;
    if (left_ == 0 ||
        !read_(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&message), sizeof(message)))) {
      return;
    }
    AddVectors(reinterpret_cast<uint64_t>(message.msg_iov), message.msg_iovlen);
    Add(reinterpret_cast<uint64_t>(message.msg_control), message.msg_controllen);
  }

  uint64_t left_;
  const ReadMemory& read_;
  std::vector<MemoryRange> ranges_;
};

}  // namespace

std::vector<MemoryRange> SentMemory(int64_t number, const uint64_t* arguments, uint64_t max_bytes,
                                    const ReadMemory& read) {
  for (const OutputCall& call : kCalls) {
    if (call.number != number) continue;
    return RangeFinder(max_bytes, read).Find(call.kind, arguments + call.argument);
  }
  return {};
}

}  // namespace hindsight
