// Code that begins a block whose guest code can be written to without anybody's noticing: it
// compares the bytes with those that were translated, in memory and, where there is one, in the
// thread's view, which is what a replay executes. If they differ it leaves by kHsExitCode.
//
// As long as stores to the code's page are noticed (code_guard.h) the check is not made:
//
//   +0                   a branch to the check, or to what follows the branch
//   +8                   where there is a view: does it show the code's page, as the thread's byte
//                        for the guard says? If not, it leaves by kHsExitGuard
//   ..                   to the block's own code
//   +CheckOffset(view)   the check
//
// r11 and save[0] are used, which are free where a block begins. Flags are preserved: what is there
// in place of the block's code may read them, even if that does not.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_CHECK_H_
#define HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "translator/stubs.h"
#include "translator/translator.h"

namespace hindsight {

// From the block's beginning: rel32 of the branch, and where the check is.
inline constexpr uint32_t kGuardBranchAt = 4;
constexpr uint32_t CheckOffset(bool view) { return view ? 88 : 16; }
// The displacement of the thread's byte, where there is a view; 4-byte aligned.
inline constexpr uint32_t kGuardByteAt = 16;

struct CodeCheck {
  uint64_t guest_pc = 0;
  absl::Span<const uint8_t> bytes;  // that were translated; not empty
  uint64_t host = 0;                // where it will lie; the block's own code follows it
  StubAddresses stubs;
  bool view = false;        // whether the view is compared, too
  bool flags_dead = false;  // the block does not read them
};

// Its code; a multiple of kHostAlignment bytes.
std::vector<uint8_t> EmitCodeCheck(const CodeCheck& check);

// Puts `code`, made for `check`, in front of `block`, which was translated for what follows it.
void PrependCodeCheck(const CodeCheck& check, const std::vector<uint8_t>& code,
                      TranslatedBlock* block);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_CHECK_H_
