// A translated process as the trace knows it: its memory map without what is the recorder's own,
// the files it maps, its keyframes.
//
// Borrows the session's log. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_TRANSLATED_PROCESS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_TRANSLATED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "recorder/log/process_log.h"
#include "recorder/translate/stream/thread_stream.h"

namespace hindsight {

class TranslatedProcess final : public StreamedProcess {
 public:
  // What a region is to the program; nullopt: nothing, it is the recorder's.
  using Show = std::function<std::optional<MapRegion>(const MapRegion& region)>;

  // `code` may be null.
  TranslatedProcess(ProcessLog* log, std::shared_ptr<const ExecutedPages> code, Show show);

  // Why its recording has ended although the process goes on; HS_END_EXIT: it has not.
  HsEndReason left() const { return left_; }

  // How it has said that it is about to end, as wait(2) reports it; nullopt: it has not.
  std::optional<int> wait_status() const { return wait_status_; }
  bool has_children() const { return has_children_; }

  const AddressSpace& space() const override { return space_; }
  const ModuleTable& modules() const override { return log_->modules(); }
  const ExecutedPages* code() const override { return code_.get(); }
  // Of the first thread: reads the map and writes a full keyframe.
  absl::Status OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) override;
  void OnChild(pid_t) override { has_children_ = true; }
  void OnStatus(int wait_status) override { wait_status_ = wait_status; }
  void OnLeft(HsEndReason reason, uint64_t count) override { left_ = reason; }
  absl::Status OnCall(int64_t number, const uint64_t* arguments, int64_t result, uint64_t count,
                      ThreadLog* log) override;

 private:
  MapPart ReadMap(std::optional<AddressSpace::Range> range) const;
  absl::Status Apply(MapPart part, ThreadLog* log, uint64_t count);

  ProcessLog* const log_;
  const std::shared_ptr<const ExecutedPages> code_;
  const Show show_;
  const std::string maps_path_;
  AddressSpace space_;
  HsEndReason left_ = HS_END_EXIT;
  bool has_children_ = false;
  std::optional<int> wait_status_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_TRANSLATED_PROCESS_H_
