// Code that begins a block whose guest code can be written to without anybody's noticing: it
// compares the bytes with those that were translated, in memory and, where there is one, in the
// thread's view, which is what a replay executes. If they differ it leaves by kHsExitCode.
//
// r11 and save[0] are used, which are free where a block begins. Flags are preserved: what is there
// in place of the block's code may read them, even if that does not.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_
#define HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "translator/stubs.h"
#include "translator/translator.h"

namespace hindsight {

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

#endif  // HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_
