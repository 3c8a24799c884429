// The engines, and their names in options and traces.

#ifndef HINDSIGHT_RECORDER_SESSION_ENGINE_KIND_H_
#define HINDSIGHT_RECORDER_SESSION_ENGINE_KIND_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace hindsight {

enum class EngineKind : uint8_t {
  kEmulate,    // threads take turns in the emulator
  kTranslate,  // threads run natively, rewritten
};

std::optional<EngineKind> EngineNamed(absl::string_view name);
const char* NameOf(EngineKind kind);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_ENGINE_KIND_H_
