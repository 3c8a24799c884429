// The engine that translates: the program runs natively, in its own process, rewritten so that it
// tells what it could not have known.
//
// Not copyable, not movable. One host thread, the program's parent; the services that translate
// have theirs.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATE_ENGINE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATE_ENGINE_H_

#include <memory>

#include "recorder/session/engine.h"
#include "recorder/session/recording_session.h"
#include "recorder/translate/attention.h"
#include "recorder/translate/memo/translation_memo.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/recorded_family.h"
#include "recorder/translate/running_services.h"

namespace hindsight {

class TranslateEngine final : public Engine {
 public:
  // Empty: it can record what these ask for. Else what it cannot do.
  static std::string ReasonNotToRecord(const RecordOptions& options);

  explicit TranslateEngine(RecordingSession* session);

  // Requires: ReasonNotToRecord is empty; the program was launched with AddressLayout::kUpward.
  absl::Status Record(pid_t process, absl::Span<const StoppedThread> threads) override;
  uint64_t open_instructions() const override { return running_ ? family_.instructions() : 0; }
  uint64_t living_processes() const override { return family_.living(); }

 private:
  absl::Status Begin(pid_t process, pid_t thread);
  void Loop();
  void CheckProgram();
  void EndIfWanted();
  void CheckBoot(int wait_status);

  RecordingSession* const session_;
  ProcessLog* log_ = nullptr;         // the program's
  std::shared_ptr<MemoryFile> file_;  // likewise
  Attention attention_;
  const std::shared_ptr<TranslationMemo> memo_;
  RecordedFamily family_;
  RunningServices services_;
  bool running_ = false;  // the program
  bool ended_ = false;    // recording, before the processes did
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATE_ENGINE_H_
