#include "recorder/choice/engine_choice.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "recorder/choice/suitability.h"
#include "recorder/process/process_facts.h"
#include "recorder/translate/translate_engine.h"

namespace hindsight {
namespace {

void UseEngine(EngineKind engine, RecordOptions* options) {
  options->engine = engine;
  if (!options->any_cpu) return;
  options->cpu = engine == EngineKind::kTranslate ? CpuModel::kPortable : CpuModel::kHost;
}

void UseEmulator(const std::string& reason, RecordOptions* options) {
  UseEngine(EngineKind::kEmulate, options);
  if (options->remark) {
    options->remark(
        absl::StrCat("recording in the emulator, more slowly: engine translate cannot ", reason));
  }
}

absl::Status Refusal(const std::string& reason) {
  return absl::InvalidArgumentError(absl::StrCat("engine translate cannot ", reason));
}

// What the emulator does better, since its threads take turns: every turn can be short and every
// thread be held back at will; and of two accesses it is known which came first. Empty: nothing.
std::string ReasonToEmulate(const RecordOptions& options) {
  if (options.chaos) return "which finds more with --chaos";
  if (options.memory_model <= MemoryModel::kFence) return "";
  return absl::StrCat("which knows the order of accesses for certain (--memory-model=",
                      MemoryModelName(options.memory_model), ")");
}

}  // namespace

absl::Status ChooseEngine(RecordOptions* options) {
  const std::string better = ReasonToEmulate(*options);
  if (options->any_engine && !better.empty()) {
    UseEngine(EngineKind::kEmulate, options);
    if (options->remark) options->remark(absl::StrCat("recording in the emulator, ", better));
    return absl::OkStatus();
  }
  UseEngine(options->any_engine ? EngineKind::kTranslate : options->engine, options);
  if (options->engine != EngineKind::kTranslate) return absl::OkStatus();
  std::string reason = TranslateEngine::ReasonNotToRecord(*options);
  const bool turns = options->quantum != RecordOptions().quantum;
  if (turns && reason.empty() && options->any_engine)
    reason = "have threads take turns (--quantum)";
  if (turns && !options->any_engine && options->remark) {
    options->remark("--quantum has no effect with engine translate: threads run at once");
  }
  if (reason.empty()) return absl::OkStatus();
  if (!options->any_engine) return Refusal(reason);
  UseEmulator(reason, options);
  return absl::OkStatus();
}

absl::StatusOr<bool> SuitsEngine(pid_t process, RecordOptions* options) {
  if (options->engine != EngineKind::kTranslate) return true;
  std::string reason = ReasonNotToTranslate(process);
  if (!reason.empty() && !options->any_engine) return Refusal(reason);
  const ExecutableFacts facts = FactsOf(ExecutablePath(process));
  // What may never happen keeps nobody from trying.
  if (reason.empty() && options->any_engine) reason = ReasonToDoubt(facts);
  if (reason.empty()) {
    // It would only tell that the processor is too old.
    if (options->any_cpu && facts.needs_avx) options->cpu = CpuModel::kHost;
    return true;
  }
  UseEmulator(reason, options);
  return false;
}

}  // namespace hindsight
