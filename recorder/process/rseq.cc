#include "recorder/process/rseq.h"

namespace hindsight {
namespace {

// linux/rseq.h: offset of the pointer to the sequence in struct rseq, and struct rseq_cs.
constexpr uint64_t kPointerOffset = 8;
struct SequenceDescription {
  uint32_t version, flags;
  uint64_t start, length, abort;
};

template <typename T>
bool Read(const MemoryReadFunction& read, uint64_t address, T* value) {
  return read(address, absl::MakeSpan(reinterpret_cast<uint8_t*>(value), sizeof(T)));
}

}  // namespace

std::optional<CriticalSequence> SequenceAt(uint64_t rseq, uint64_t pc,
                                           const MemoryReadFunction& read) {
  uint64_t pointer;
  SequenceDescription description;
  if (rseq == 0 || !Read(read, rseq + kPointerOffset, &pointer) || pointer == 0 ||
      !Read(read, pointer, &description)) {
    return std::nullopt;
  }
  if (pc <= description.start || pc - description.start >= description.length) return std::nullopt;
  return CriticalSequence{description.start, description.start + description.length,
                          description.abort};
}

}  // namespace hindsight
