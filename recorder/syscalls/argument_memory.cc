#include "recorder/syscalls/argument_memory.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "recorder/syscalls/syscall_output_table.h"

namespace hindsight {
namespace {

constexpr uint64_t kIfconfBytes = 16;

uint64_t Number(absl::Span<const uint8_t> bytes) {
  uint64_t word = 0;
  for (size_t i = bytes.size(); i-- > 0;) word = word << 8 | bytes[i];
  return word;
}

}  // namespace

std::optional<uint64_t> ReadWord(const ReadMemory& read, uint64_t address, size_t size) {
  std::array<uint8_t, 8> bytes = {};
  if (address == 0 || !read(address, absl::MakeSpan(bytes.data(), size))) return std::nullopt;
  return Number(absl::MakeConstSpan(bytes.data(), size));
}

ArgumentMemory ArgumentMemory::Take(int64_t number, const uint64_t* arguments,
                                    const ReadMemory& read) {
  ArgumentMemory memory;
  if (number == SYS_clone3) {
    memory.Add(arguments[0], CLONE_ARGS_SIZE_VER0, read);
    return memory;
  }
  if (number == SYS_ioctl) {
    const auto request = static_cast<uint32_t>(arguments[1]);
    if (request == SIOCGIFCONF) memory.Add(arguments[2], kIfconfBytes, read);
    if (request == FS_IOC_FIEMAP) memory.Add(arguments[2], sizeof(fiemap), read);
    return memory;
  }
  const SyscallShape* const shape = FindSyscallShape(number);
  if (shape == nullptr) return memory;
  for (const Output& output : shape->outputs) {
    const uint64_t at = arguments[output.at];
    if (output.size == OutputSize::kPointed) {
      memory.Add(arguments[output.by], sizeof(uint32_t), read);
    } else if (output.size == OutputSize::kVector) {
      memory.AddVector(at, arguments[output.by], read);
    } else if (output.size == OutputSize::kMessage) {
      memory.AddMessage(at, read);
    } else if (output.size == OutputSize::kMessages) {
      const uint64_t count = std::min(arguments[output.by], kMaxIovecs);
      for (uint64_t i = 0; i < count; ++i) memory.AddMessage(at + i * kManyMessageBytes, read);
    }
  }
  return memory;
}

void ArgumentMemory::Add(uint64_t address, uint64_t size, const ReadMemory& read) {
  if (address == 0 || size == 0) return;
  Piece piece = {address, std::vector<uint8_t>(size)};
  // If the kernel cannot read it either, the call fails.
  if (read(address, absl::MakeSpan(piece.bytes))) pieces_.push_back(std::move(piece));
}

void ArgumentMemory::AddVector(uint64_t address, uint64_t count, const ReadMemory& read) {
  Add(address, std::min(count, kMaxIovecs) * kIovecBytes, read);
}

void ArgumentMemory::AddMessage(uint64_t address, const ReadMemory& read) {
  Add(address, kMessageBytes, read);
  AddVector(Word(address + 16, 8), Word(address + 24, 8), read);
}

bool ArgumentMemory::Read(uint64_t address, absl::Span<uint8_t> out) const {
  for (const Piece& piece : pieces_) {
    const uint64_t offset = address - piece.address;
    if (offset >= piece.bytes.size() || piece.bytes.size() - offset < out.size()) continue;
    std::memcpy(out.data(), piece.bytes.data() + offset, out.size());
    return true;
  }
  return false;
}

uint64_t ArgumentMemory::Word(uint64_t address, size_t size) const {
  std::array<uint8_t, 8> bytes = {};
  if (!Read(address, absl::MakeSpan(bytes.data(), size))) return 0;
  return Number(absl::MakeConstSpan(bytes.data(), size));
}

bool ArgumentMemory::Overlaps(uint64_t address, uint64_t size) const {
  return size > 0 && std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
           return address <= piece.address ? piece.address - address < size
                                           : address - piece.address < piece.bytes.size();
         });
}

}  // namespace hindsight
