// All recorded processes of a recording: the program, what it makes, what they execute.
//
//   services --Announce--> (queue) --Advance--> recordings ---> traces
//
// Borrows the session. Not copyable. One host thread, but for Announce.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_RECORDED_FAMILY_H_
#define HINDSIGHT_RECORDER_TRANSLATE_RECORDED_FAMILY_H_

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/session/recording_session.h"
#include "recorder/translate/attention.h"
#include "recorder/translate/memo/guest_places.h"
#include "recorder/translate/recorded_birth.h"
#include "recorder/translate/stream/stream_merger.h"
#include "recorder/translate/translated_recording.h"

namespace hindsight {

class RecordedFamily {
 public:
  // `places` are of all code that is executed. `with_children`: what the program makes is recorded
  // as well.
  RecordedFamily(RecordingSession* session, const GuestPlaces* places, bool with_children)
      : session_(session), places_(places), with_children_(with_children) {}
  RecordedFamily(const RecordedFamily&) = delete;
  RecordedFamily& operator=(const RecordedFamily&) = delete;

  // Any host thread.
  void Announce(RecordedBirth birth);

  // The program, whose trace `log` is.
  absl::Status Begin(ProcessLog* log, RecordedMemory memory, uint64_t ring);
  // Logs what there is, closes the traces of children that have ended. True if there was something.
  bool Advance();
  // Notes who may ask the recorder to look.
  void Listen(Attention* attention) const;
  bool ProgramIsGone() const { return recordings_.front().IsGone(); }
  // The program has ended, as wait(2) reports it.
  void FinishProgram(int wait_status);
  // Recording is over: what still runs goes on unrecorded.
  void Abandon(const std::string& reason);

  // Of processes whose trace is open.
  uint64_t instructions() const;
  // That have not ended.
  uint64_t living() const;

 private:
  // The call by which a process was made: its thread, and the state before.
  using Maker = std::pair<pid_t, uint64_t>;

  void TakeBirths();
  void OnBirth(RecordedBirth birth);
  void OnMadeProcess(RecordedBirth birth);
  void OnExecuted(RecordedBirth birth);
  bool OnMade(TranslatedRecording* parent, MadeProcess* made);
  pid_t NumberOf(const TranslatedRecording& parent, const MadeProcess& made);
  absl::StatusOr<TranslatedRecording*> Open(TranslatedRecording* parent, const MadeProcess& made);
  TranslatedRecording* Add(ProcessLog* log);
  TranslatedRecording* Find(pid_t process);
  RecordedMemory MemoryOf(const RecordedBirth& birth, const TranslatedRecording& parent) const;
  void LetGo(RecordedMemory memory);
  void SettleAll();
  void EndWhoLeft(TranslatedRecording* recording);
  void FinishChildren();
  void CloseFinished();
  void Report(const TranslatedRecording& recording, const std::string& reason) const;
  void ReportChildren(const TranslatedRecording& recording);

  RecordingSession* const session_;
  const GuestPlaces* const places_;
  const bool with_children_;
  std::mutex mutex_;
  std::vector<RecordedBirth> births_;  // guarded by mutex_
  StreamMerger merger_;
  std::list<TranslatedRecording> recordings_;  // the program's first
  std::map<Maker, pid_t> born_;                // recorded, but the call that made it is to come
  std::set<Maker> ended_unborn_;               // killed, and gone, before it asked to be recorded
  std::vector<RecordedMemory> unread_;         // of processes that are not recorded
  bool reported_children_ = false;
  uint64_t settle_ns_ = 0;  // when it is time to look at all recordings again
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_RECORDED_FAMILY_H_
