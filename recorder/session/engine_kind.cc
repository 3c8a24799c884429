#include "recorder/session/engine_kind.h"

namespace hindsight {

std::optional<EngineKind> EngineNamed(absl::string_view name) {
  for (const EngineKind kind : {EngineKind::kEmulate, EngineKind::kTranslate}) {
    if (name == NameOf(kind)) return kind;
  }
  return std::nullopt;
}

const char* NameOf(EngineKind kind) {
  switch (kind) {
    case EngineKind::kEmulate:
      return "emulate";
    case EngineKind::kTranslate:
      return "translate";
  }
  return "";
}

}  // namespace hindsight
