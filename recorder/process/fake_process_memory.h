// A ProcessMemory for tests: pages of a process that does not exist.

#ifndef HINDSIGHT_RECORDER_PROCESS_FAKE_PROCESS_MEMORY_H_
#define HINDSIGHT_RECORDER_PROCESS_FAKE_PROCESS_MEMORY_H_

#include <array>
#include <cstring>
#include <map>

#include "recorder/process/process_memory.h"

namespace hindsight {

class FakeProcessMemory final : public ProcessMemory {
 public:
  // Makes pages that hold `address` up to `address + size`, all zero.
  void Map(uint64_t address, uint64_t size) {
    for (uint64_t page = address / kPage; page * kPage < address + size; ++page) pages_[page] = {};
  }
  void Unmap(uint64_t address) { pages_.erase(address / kPage); }
  // Requires: mapped.
  uint8_t& operator[](uint64_t address) { return pages_.at(address / kPage)[address % kPage]; }

  size_t ReadPieces(absl::Span<const MemoryPiece> pieces) const override {
    return ForEach(pieces, [this](uint64_t address, uint8_t* byte) {
      *byte = pages_.at(address / kPage)[address % kPage];
    });
  }
  size_t WritePieces(absl::Span<const MemoryPiece> pieces) override {
    return ForEach(pieces, [this](uint64_t address, uint8_t* byte) { (*this)[address] = *byte; });
  }

 private:
  static constexpr uint64_t kPage = 4096;

  template <typename Function>
  size_t ForEach(absl::Span<const MemoryPiece> pieces, const Function& function) const {
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (uint64_t at = 0; at < pieces[i].length; ++at) {
        if (pages_.count((pieces[i].address + at) / kPage) == 0) return i;
        function(pieces[i].address + at, pieces[i].bytes + at);
      }
    }
    return pieces.size();
  }

  std::map<uint64_t, std::array<uint8_t, kPage>> pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_FAKE_PROCESS_MEMORY_H_
