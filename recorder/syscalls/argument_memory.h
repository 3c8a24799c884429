// The structures in a caller's memory that say where a system call stores: lengths, iovecs, message
// headers. They are taken before the call: it may store over them, and while it waits other threads
// may change them.
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_ARGUMENT_MEMORY_H_
#define HINDSIGHT_RECORDER_SYSCALLS_ARGUMENT_MEMORY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

// Reads the memory of a process; false if not all of it can be read.
using ReadMemory = std::function<bool(uint64_t address, absl::Span<uint8_t> out)>;

// The little-endian number of 4 or 8 bytes at `address`; nullopt also if that is 0.
std::optional<uint64_t> ReadWord(const ReadMemory& read, uint64_t address, size_t size);

// struct iovec, msghdr and mmsghdr, and how many of them the kernel takes at most (UIO_MAXIOV).
inline constexpr uint64_t kIovecBytes = 16;
inline constexpr uint64_t kMaxIovecs = 1024;
inline constexpr uint64_t kMessageBytes = 56;
inline constexpr uint64_t kManyMessageBytes = 64;

class ArgumentMemory {
 public:
  // Holds nothing.
  ArgumentMemory() = default;
  // Of call `number` with its six `arguments`, which is about to be made.
  static ArgumentMemory Take(int64_t number, const uint64_t* arguments, const ReadMemory& read);

  // As it was before the call; false if it was not taken.
  bool Read(uint64_t address, absl::Span<uint8_t> out) const;
  // Little-endian, of 4 or 8 bytes; 0 if it was not taken.
  uint64_t Word(uint64_t address, size_t size) const;
  // Whether something of [address, address + size) was taken.
  bool Overlaps(uint64_t address, uint64_t size) const;

 private:
  struct Piece {
    uint64_t address = 0;
    std::vector<uint8_t> bytes;
  };

  void Add(uint64_t address, uint64_t size, const ReadMemory& read);
  void AddVector(uint64_t address, uint64_t count, const ReadMemory& read);
  void AddMessage(uint64_t address, const ReadMemory& read);

  std::vector<Piece> pieces_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_ARGUMENT_MEMORY_H_
