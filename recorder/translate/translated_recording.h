// The recording of one translated process: what its agent tells, on the way into its trace.
//
// Borrows the session and the log that that has opened. Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/scheduling.h"
#include "recorder/session/recording_session.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/stream/ring_reader.h"
#include "recorder/translate/stream/stream_merger.h"
#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/translated_process.h"

namespace hindsight {

class TranslatedRecording {
 public:
  // Prepares the ring of the process's first thread, which must not have begun to use it.
  TranslatedRecording(RecordingSession* session, ProcessLog* log, HsRing* ring);
  TranslatedRecording(const TranslatedRecording&) = delete;
  TranslatedRecording& operator=(const TranslatedRecording&) = delete;

  // Logs what the agent has written so far. True if that was something.
  absl::StatusOr<bool> Drain();
  // The process is gone: logs what is left, and its end, as wait(2) reports it.
  absl::Status Finish(int wait_status);
  // Recording ends although the process goes on: what it tells from now on is drained and lost.
  void Abandon(const std::string& reason);

  uint64_t instructions() const { return stream_.count(); }
  // It has made processes.
  bool has_children() const { return process_.has_children(); }
  // Why recording has ended, while the process goes on; empty: it has not.
  std::string ReasonLeft() const;

 private:
  void Close(const std::string& reason);

  RecordingSession* const session_;
  ProcessLog* const log_;
  TranslatedProcess process_;
  RingReader reader_;
  ThreadLog thread_log_;
  ThreadScheduling scheduling_;
  ThreadNotes notes_;
  ThreadStream stream_;
  StreamMerger merger_;
  bool closed_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
