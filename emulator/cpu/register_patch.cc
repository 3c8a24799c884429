#include "emulator/cpu/register_patch.h"

#include <cstring>

namespace hindsight {
namespace {

const uint8_t* Bytes(const RegisterFile& registers) {
  return reinterpret_cast<const uint8_t*>(&registers);
}

}  // namespace

RegisterPatch Difference(const RegisterFile& before, const RegisterFile& after) {
  constexpr size_t kBaseBytes = kBaseWords * sizeof(uint64_t);
  const bool extended = std::memcmp(Bytes(before) + kBaseBytes, Bytes(after) + kBaseBytes,
                                    sizeof(before) - kBaseBytes) != 0;
  const size_t words = extended ? kRegisterWords : kBaseWords;
  uint64_t old_words[kRegisterWords], new_words[kRegisterWords];
  std::memcpy(old_words, &before, words * sizeof(uint64_t));
  std::memcpy(new_words, &after, words * sizeof(uint64_t));
  RegisterPatch patch;
  for (size_t i = 0; i < words; ++i) {
    if (old_words[i] == new_words[i]) continue;
    patch.index.push_back(static_cast<uint16_t>(i));
    patch.value.push_back(new_words[i]);
  }
  return patch;
}

bool Apply(const RegisterPatch& patch, RegisterFile* registers) {
  if (patch.index.size() != patch.value.size()) return false;
  for (uint16_t index : patch.index) {
    if (index >= kRegisterWords) return false;
  }
  auto* bytes = reinterpret_cast<uint8_t*>(registers);
  for (size_t i = 0; i < patch.index.size(); ++i) {
    std::memcpy(bytes + patch.index[i] * sizeof(uint64_t), &patch.value[i], sizeof(uint64_t));
  }
  return true;
}

}  // namespace hindsight
