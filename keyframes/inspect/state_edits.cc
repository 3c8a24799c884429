#include "keyframes/inspect/state_edits.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr size_t kUuidBytes = 16;

using Words = std::vector<absl::string_view>;

bool ParseHexBytes(absl::string_view text, std::string* bytes) {
  const bool digits = std::all_of(text.begin(), text.end(),
                                  [](unsigned char c) { return absl::ascii_isxdigit(c) != 0; });
  if (text.empty() || text.size() % 2 != 0 || !digits) return false;
  *bytes = absl::HexStringToBytes(text);
  return true;
}

bool ParseAddress(absl::string_view text, uint64_t* address) {
  return absl::StartsWith(text, "0x") && absl::SimpleHexAtoi(text, address);
}

std::optional<size_t> WordNamed(absl::string_view name) {
  for (size_t word = 0; word < kRegisterWords; ++word) {
    if (name == RegisterWordName(word)) return word;
  }
  return std::nullopt;
}

bool ParseHeader(const Words& words, StateEdits* edits) {
  return words.size() == 3 && words[0] == "snapshot" && ParseHexBytes(words[1], &edits->uuid) &&
         edits->uuid.size() == kUuidBytes && absl::SimpleAtoi(words[2], &edits->snapshot);
}

bool ParseMemory(const Words& words, StateEdits* edits) {
  MemoryEdit edit;
  if (words.size() != 3 || !ParseAddress(words[1], &edit.address) ||
      !ParseHexBytes(words[2], &edit.bytes) ||
      edit.address + edit.bytes.size() - 1 < edit.address) {
    return false;
  }
  edits->memory.push_back(std::move(edit));
  return true;
}

bool ParseRegister(const Words& words, StateEdits* edits) {
  RegisterEdit edit;
  if (words.size() != 4 || !absl::SimpleAtoi(words[1], &edit.thread) ||
      !ParseAddress(words[3], &edit.value)) {
    return false;
  }
  const std::optional<size_t> word = WordNamed(words[2]);
  if (!word.has_value()) return false;
  edit.word = *word;
  edits->registers.push_back(edit);
  return true;
}

}  // namespace

std::string EditLines(const StateEdits& edits) {
  std::string out;
  for (const MemoryEdit& edit : edits.memory) {
    absl::StrAppend(&out, "memory 0x", absl::Hex(edit.address), " ",
                    absl::BytesToHexString(edit.bytes), "\n");
  }
  for (const RegisterEdit& edit : edits.registers) {
    absl::StrAppend(&out, "register ", edit.thread, " ", RegisterWordName(edit.word), " 0x",
                    absl::Hex(edit.value), "\n");
  }
  return out;
}

std::string EditsFile(const StateEdits& edits) {
  return absl::StrCat("snapshot ", absl::BytesToHexString(edits.uuid), " ", edits.snapshot, "\n",
                      EditLines(edits));
}

absl::StatusOr<StateEdits> ParseEdits(absl::string_view text) {
  StateEdits edits;
  bool has_header = false;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const Words words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || absl::StartsWith(words[0], "#")) continue;
    const bool understood = !has_header              ? ParseHeader(words, &edits)
                            : words[0] == "memory"   ? ParseMemory(words, &edits)
                            : words[0] == "register" ? ParseRegister(words, &edits)
                                                     : false;
    if (!understood) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": expected ",
                       has_header ? "'memory 0xADDRESS BYTES' or 'register THREAD NAME 0xVALUE'"
                                  : "'snapshot UUID NUMBER'"));
    }
    has_header = true;
  }
  if (!has_header) return absl::InvalidArgumentError("an empty file, without 'snapshot UUID N'");
  return edits;
}

std::vector<RegisterEdit> RegisterDifferences(int32_t thread, const RegisterFile& before,
                                              const RegisterFile& now) {
  const std::vector<uint64_t> old_words = ToWords(before), words = ToWords(now);
  std::vector<RegisterEdit> edits;
  for (size_t word = 0; word < words.size(); ++word) {
    if (words[word] != old_words[word]) edits.push_back({thread, word, words[word]});
  }
  return edits;
}

void Apply(const RegisterEdit& edit, RegisterFile* registers) {
  std::memcpy(reinterpret_cast<char*>(registers) + edit.word * sizeof(edit.value), &edit.value,
              sizeof(edit.value));
}

}  // namespace hindsight
