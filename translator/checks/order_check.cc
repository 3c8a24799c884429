#include "translator/checks/order_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

MemoryUse OrderCheck::UseAt(uint64_t pc) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(pc);
  GuestInstruction at;
  return DecodeGuest(pc, absl::MakeConstSpan(bytes, code_end_ - pc), &at)
             ? MemoryUseOf(at.decoded, at.operands)
             : MemoryUse{};
}

std::string OrderCheck::Compare(const std::vector<uint64_t>& counts,
                                const std::vector<uint64_t>& pcs, uint64_t executed) {
  uint64_t next = 0;
  std::vector<uint64_t> others, expected;
  for (const uint64_t count : counts) {
    if (count < next || count >= pcs.size()) return absl::StrCat("ordered in state ", count);
    next = count + 1;
    const MemoryUse use = UseAt(pcs[count]);
    if (!IsOrderable(use, model_)) {
      return absl::StrCat("not to be ordered: the instruction executed from state ", count);
    }
    if (IsFence(use)) {
      ++locked_;
    } else {
      others.push_back(count);
    }
  }
  for (uint64_t count = 0; count < executed; ++count) {
    const MemoryUse use = UseAt(pcs[count]);
    if (IsOrderable(use, model_) && !IsFence(use)) expected.push_back(count);
  }
  others_ += others.size();
  if (others == expected) return "";
  return absl::StrCat("ordered ", absl::StrJoin(others, " "), " in place of ",
                      absl::StrJoin(expected, " "));
}

}  // namespace hindsight
