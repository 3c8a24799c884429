// The recording of one translated process: what its agent tells, on the way into its trace.
//
// Borrows the session and the log that that has opened. Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/log/process_log.h"
#include "recorder/session/recording_session.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/stream/executed_pages.h"
#include "recorder/translate/stream/thread_table.h"
#include "recorder/translate/stream/translated_process.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

class TranslatedRecording {
 public:
  // Prepares the rings in `file`, which nobody must have begun to use, and stays mapped.
  // `code`: what was translated of the process's code.
  TranslatedRecording(RecordingSession* session, ProcessLog* log, const MemoryFile& file,
                      std::shared_ptr<const ExecutedPages> code);
  TranslatedRecording(const TranslatedRecording&) = delete;
  TranslatedRecording& operator=(const TranslatedRecording&) = delete;

  // Logs what the agent has written so far. True if that was something.
  absl::StatusOr<bool> Drain();
  // The process is gone: logs what is left, and its end, as wait(2) reports it.
  absl::Status Finish(int wait_status);
  // Recording ends although the process goes on: what it tells from now on is drained and lost.
  void Abandon(const std::string& reason);

  uint64_t instructions() const { return threads_.instructions(); }
  // It has made processes.
  bool has_children() const { return process_.has_children(); }
  // Why recording has ended, while the process goes on; empty: it has not.
  std::string ReasonLeft() const;

 private:
  RecordingSession* const session_;
  ProcessLog* const log_;
  TranslatedProcess process_;
  TscClock clock_;
  ThreadTable threads_;
  bool closed_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
