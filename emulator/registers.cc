#include "emulator/registers.h"

#include <xxhash.h>

#include <string>

#include "base/check.h"

namespace hindsight {
namespace {

using Names = std::array<std::string, kRegisterWords>;

Names MakeNames() {
  static constexpr const char* kFixed[] = {
      "rax", "rcx", "rdx", "rbx", "rsp",   "rbp", "rsi",    "rdi",     "r8",      "r9",  "r10",
      "r11", "r12", "r13", "r14", "r15",   "rip", "rflags", "fs_base", "gs_base", "cs",  "ss",
      "ds",  "es",  "fs",  "gs",  "mxcsr", "fcw", "fsw",    "ftw",     "fop",     "fip", "fdp"};
  static_assert(std::size(kFixed) * sizeof(uint64_t) == offsetof(RegisterFile, st));
  Names names;
  size_t at = 0;
  for (const char* name : kFixed) names[at++] = name;
  for (int i = 0; i < 8; ++i) {
    names[at++] = "st" + std::to_string(i) + ".lo";
    names[at++] = "st" + std::to_string(i) + ".hi";
  }
  for (int i = 0; i < 16; ++i) {
    names[at++] = "xmm" + std::to_string(i) + ".lo";
    names[at++] = "xmm" + std::to_string(i) + ".hi";
  }
  CHECK(at == kRegisterWords);
  return names;
}

}  // namespace

const char* RegisterWordName(size_t index) {
  static const Names* const names = new Names(MakeNames());
  return index < kRegisterWords ? (*names)[index].c_str() : "?";
}

bool FromWords(absl::Span<const uint64_t> words, RegisterFile* out) {
  if (words.size() != kRegisterWords) return false;
  std::memcpy(static_cast<void*>(out), words.data(), sizeof(*out));
  return true;
}

RegisterPatch Difference(const RegisterFile& before, const RegisterFile& after) {
  uint64_t old_words[kRegisterWords], new_words[kRegisterWords];
  std::memcpy(old_words, &before, sizeof(before));
  std::memcpy(new_words, &after, sizeof(after));
  RegisterPatch patch;
  for (size_t i = 0; i < kRegisterWords; ++i) {
    if (old_words[i] == new_words[i]) continue;
    patch.index.push_back(static_cast<uint16_t>(i));
    patch.value.push_back(new_words[i]);
  }
  return patch;
}

bool Apply(const RegisterPatch& patch, RegisterFile* registers) {
  if (patch.index.size() != patch.value.size()) return false;
  uint64_t words[kRegisterWords];
  std::memcpy(words, registers, sizeof(words));
  for (size_t i = 0; i < patch.index.size(); ++i) {
    if (patch.index[i] >= kRegisterWords) return false;
    words[patch.index[i]] = patch.value[i];
  }
  std::memcpy(registers, words, sizeof(words));
  return true;
}

uint64_t Hash(const RegisterFile& registers) {
  const uint64_t hash = XXH3_64bits(&registers, sizeof(registers));
  return hash != 0 ? hash : 1;
}

}  // namespace hindsight
