// Code that begins a block whose guest code can be written to without anybody's noticing: it
// compares the bytes with those that were translated, and leaves as for a branch to the block if
// they differ.
//
// Flags stay as they are; r11 and save[0] are used, which are free where a block begins.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_
#define HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "translator/stubs.h"
#include "translator/translator.h"

namespace hindsight {

// How long it is for so many bytes; a multiple of kHostAlignment. The block's own code follows.
uint64_t CodeCheckBytes(uint64_t guest_bytes);

// Puts it in front of `block`, which was translated for `host` + CodeCheckBytes(bytes.size()).
// `bytes`: block.guest_bytes at guest_pc.
void PrependCodeCheck(uint64_t guest_pc, absl::Span<const uint8_t> bytes, uint64_t host,
                      const StubAddresses& stubs, TranslatedBlock* block);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_CODE_CHECK_H_
