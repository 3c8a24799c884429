#include "isa/registers.h"

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
  CHECK(at == kBaseWords);
  // The words of ymm and zmm count from the register's lowest.
  auto add = [&](const char* name, int index, int first, int end) {
    for (int word = first; word < end; ++word) {
      names[at++] = name + std::to_string(index) + "." + std::to_string(word);
    }
  };
  for (int i = 0; i < 16; ++i) add("ymm", i, 2, 4);
  for (int i = 0; i < 16; ++i) add("zmm", i, 4, 8);
  for (int i = 16; i < 32; ++i) add("zmm", i, 0, 8);
  for (int i = 0; i < 8; ++i) names[at++] = "k" + std::to_string(i);
  CHECK(at == kRegisterWords);
  return names;
}

constexpr size_t kBaseBytes = kBaseWords * sizeof(uint64_t);

const uint8_t* Extended(const RegisterFile& registers) {
  return reinterpret_cast<const uint8_t*>(&registers) + kBaseBytes;
}

}  // namespace

bool HasExtended(const RegisterFile& registers) {
  // A byte that is zero, followed by its like: then all are.
  const uint8_t* const bytes = Extended(registers);
  return bytes[0] != 0 || std::memcmp(bytes, bytes + 1, sizeof(registers) - kBaseBytes - 1) != 0;
}

const char* RegisterWordName(size_t index) {
  static const Names* const names = new Names(MakeNames());
  return index < kRegisterWords ? (*names)[index].c_str() : "?";
}

bool FromWords(absl::Span<const uint64_t> words, RegisterFile* out) {
  if (words.size() != kRegisterWords && words.size() != kBaseWords) return false;
  *out = RegisterFile();
  std::memcpy(static_cast<void*>(out), words.data(), words.size() * sizeof(uint64_t));
  return true;
}

uint64_t Hash(const RegisterFile& registers) {
  const uint64_t hash =
      XXH3_64bits(&registers, HasExtended(registers) ? sizeof(registers) : kBaseBytes);
  return hash != 0 ? hash : 1;
}

}  // namespace hindsight
