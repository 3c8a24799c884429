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
#include "recorder/translate/running_services.h"
#include "recorder/translate/translated_recording.h"

namespace hindsight {

class TranslateEngine final : public Engine {
 public:
  // Empty: it can record what these ask for. Else what it cannot do.
  static std::string ReasonNotToRecord(const RecordOptions& options);

  explicit TranslateEngine(RecordingSession* session) : session_(session) {}

  // Requires: ReasonNotToRecord is empty; the program was launched with AddressLayout::kUpward.
  absl::Status Record(pid_t process, absl::Span<const StoppedThread> threads) override;
  uint64_t open_instructions() const override;
  uint64_t living_processes() const override { return running_ ? 1 : 0; }

 private:
  absl::Status Begin(pid_t process, pid_t thread);
  void Loop(pid_t process);
  void Advance();
  void ReportChildren();
  void Report(const std::string& reason);
  void CheckBoot(int wait_status);

  RecordingSession* const session_;
  ProcessLog* log_ = nullptr;
  std::unique_ptr<TranslatedRecording> recording_;
  RunningServices services_;
  const ProcessService* service_ = nullptr;
  bool running_ = false;
  bool reported_children_ = false;
  bool reported_ = false;  // that recording ends before the process does
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATE_ENGINE_H_
