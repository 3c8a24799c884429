#include "recorder/emulate/thread/sent_memory.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "recorder/syscalls/sending_calls.h"

namespace hindsight {
namespace {

// Of longer vectors only so much is read, for they are read at each call.
constexpr uint64_t kMaxVectors = 64;
constexpr uint64_t kMaxMessages = 16;

class RangeFinder {
 public:
  RangeFinder(uint64_t max_bytes, const ReadMemory& read) : left_(max_bytes), read_(read) {}

  std::vector<MemoryRange> Find(SentAs as, const uint64_t* arguments) {
    switch (as) {
      case SentAs::kBytes:
        Add(arguments[0], arguments[1]);
        break;
      case SentAs::kVectors:
        AddVectors(arguments[0], arguments[1]);
        break;
      case SentAs::kMessage:
        AddMessage(arguments[0]);
        break;
      case SentAs::kMessages:
        for (uint64_t i = 0; i < std::min(arguments[1] & UINT32_MAX, kMaxMessages); ++i) {
          AddMessage(arguments[0] + i * sizeof(mmsghdr));
        }
        break;
      case SentAs::kQueued:
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
  const SendingCall* const call = FindSendingCall(number);
  if (call == nullptr) return {};
  return RangeFinder(max_bytes, read).Find(call->as, arguments + call->argument);
}

}  // namespace hindsight
