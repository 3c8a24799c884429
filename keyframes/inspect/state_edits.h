// What a debugger has changed in a throw-away copy of a snapshot, as a text file:
//
//   snapshot 000102030405060708090a0b0c0d0e0f 17       the trace's uuid, the snapshot's number
//   memory 0x7ffe12345678 2a000000                     address, bytes in the order of addresses
//   register 4711 rax 0x2a                             thread, name, value
//
// A register's name is that of a word of the register file (isa/registers.h): rax, rip, rflags,
// xmm0.lo, ymm0.2, zmm0.4, k1. Numbers after 0x are hexadecimal, most significant digit first. An
// edit after another of the same bytes or register counts.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_STATE_EDITS_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_STATE_EDITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "isa/registers.h"

namespace hindsight {

struct MemoryEdit {
  uint64_t address = 0;
  std::string bytes;  // not empty; they do not go beyond the last address
  bool operator==(const MemoryEdit&) const = default;
};

struct RegisterEdit {
  int32_t thread = 0;
  size_t word = 0;  // of the register file, below kRegisterWords
  uint64_t value = 0;
  bool operator==(const RegisterEdit&) const = default;
};

struct StateEdits {
  std::string uuid;       // of the trace: 16 bytes, as in its manifest
  uint64_t snapshot = 0;  // its number
  std::vector<MemoryEdit> memory;
  std::vector<RegisterEdit> registers;
  bool empty() const { return memory.empty() && registers.empty(); }
};

// The file's text; and that of the edits alone, a line each.
std::string EditsFile(const StateEdits& edits);
std::string EditLines(const StateEdits& edits);

// kInvalidArgument, naming the line: it is no such file. Empty lines and those that begin with '#'
// are passed over.
absl::StatusOr<StateEdits> ParseEdits(absl::string_view text);

// The words in which `now` differs from `before`.
std::vector<RegisterEdit> RegisterDifferences(int32_t thread, const RegisterFile& before,
                                              const RegisterFile& now);
// Requires: edit.word is below kRegisterWords.
void Apply(const RegisterEdit& edit, RegisterFile* registers);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_STATE_EDITS_H_
