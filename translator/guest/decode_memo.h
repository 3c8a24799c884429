// Instructions that were decoded lately, by their bytes: of code the same ones come again and
// again, and translating a block decodes what lies around it, too.
//
// An object is used by one thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_GUEST_DECODE_MEMO_H_
#define HINDSIGHT_TRANSLATOR_GUEST_DECODE_MEMO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

class DecodeMemo {
 public:
  // The one that `code` begins with. Its pc is of no meaning. Valid until the next Add; null: it is
  // not there.
  const GuestInstruction* Find(absl::Span<const uint8_t> code) const;
  // `instruction` is what `code` begins with. It may displace another.
  void Add(absl::Span<const uint8_t> code, const GuestInstruction& instruction);

 private:
  static constexpr int kIndexBits = 9;
  static constexpr size_t kEntries = size_t{1} << kIndexBits;
  // Of what comes next, if the instruction is shorter. One place for all that differ later on:
  // with more bytes as few are found, with fewer less.
  static constexpr size_t kIndexedBytes = 4;

  static size_t IndexOf(absl::Span<const uint8_t> code);

  std::array<uint8_t, kEntries> lengths_ = {};  // 0: there is none
  // Memory that is not used before it is needed.
  std::unique_ptr<GuestInstruction[]> entries_ =
      std::make_unique_for_overwrite<GuestInstruction[]>(kEntries);
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_GUEST_DECODE_MEMO_H_
