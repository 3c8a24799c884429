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
#include "recorder/translate/stream/map_reads.h"
#include "recorder/translate/stream/thread_stream.h"

namespace hindsight {

class TranslatedProcess final : public StreamedProcess {
 public:
  // What a region is to the program; nullopt: nothing, it is the recorder's.
  using Show = std::function<std::optional<MapRegion>(const MapRegion& region)>;
  // As StreamedProcess::OnChild.
  using OnMade = std::function<bool(MadeProcess* made)>;

  // Of a stop for a snapshot that `thread` has asked for; nullopt: none is wanted any more.
  using OnSnapshot = std::function<std::optional<SnapshotReason>(const Stop& stop, pid_t thread)>;

  // As StreamedProcess::AdjustAt.
  using Adjust = std::function<std::optional<int64_t>(uint64_t host)>;

  // `on_made` may be empty: no process that it makes is recorded. `adjust` as well: nothing that it
  // tells of is of a place in translated code.
  TranslatedProcess(ProcessLog* log, Show show, OnMade on_made = nullptr, Adjust adjust = nullptr);

  // Why its recording has ended although the process goes on; HS_END_EXIT: it has not.
  HsEndReason left() const { return left_; }
  // If that was an instruction: as people read it, and where.
  const std::string& left_before() const { return left_before_; }

  // How it has said that it is about to end, as wait(2) reports it; nullopt: it has not.
  std::optional<int> wait_status() const { return wait_status_; }
  // Processes it has made that are not recorded.
  bool has_children() const { return has_children_; }
  // What it executes from now on. `code` may be null.
  void SetProgram(std::string program, std::shared_ptr<const ExecutedPages> code) {
    needed_ = needed();
    program_ = std::move(program);
    code_ = std::move(code);
  }

  // What its threads have had read. May be null.
  void SetMapReads(std::shared_ptr<MapReads> reads) { map_reads_ = std::move(reads); }
  void SetSnapshots(OnSnapshot on_snapshot) { on_snapshot_ = std::move(on_snapshot); }

  const AddressSpace& space() const override { return space_; }
  const ModuleTable& modules() const override { return log_->modules(); }
  std::shared_ptr<const ExecutedPages> code() const override { return code_; }
  std::optional<int64_t> AdjustAt(uint64_t host) const override {
    return adjust_ == nullptr ? std::nullopt : adjust_(host);
  }
  HostFeatures needed() const override;
  // Of the first thread: reads the map and writes a full keyframe.
  absl::Status OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) override;
  bool OnChild(MadeProcess* made) override;
  absl::Status OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) override;
  absl::Status OnStanding(std::vector<TraceWriter::ThreadState> states, const Stop& stop,
                          ThreadLog* log) override;
  bool ReadPage(pid_t thread, uint64_t address, uint8_t* bytes) const override;
  std::string program() const override { return program_; }
  void OnStatus(int wait_status) override { wait_status_ = wait_status; }
  void OnLeft(HsEndReason reason, uint64_t pc) override;
  bool ReadChange(int64_t number, const uint64_t* arguments, int64_t result,
                  uint64_t map_read) override;
  absl::Status OnCall(uint64_t count, ThreadLog* log) override;

 private:
  MapPart ReadMap(std::optional<AddressSpace::Range> range) const;
  MapPart Shown(MapPart part) const;
  MapPart WithRest(MapPart part) const;
  absl::Status WriteKeyframe(const TraceWriter::ThreadState& state, ThreadLog* log,
                             bool with_memory);
  absl::Status Apply(MapPart part, ThreadLog* log, uint64_t count);

  ProcessLog* const log_;
  std::shared_ptr<const ExecutedPages> code_;
  HostFeatures needed_;  // by what came before code_
  const Show show_;
  const OnMade on_made_;
  const Adjust adjust_;
  OnSnapshot on_snapshot_;  // may be empty
  const std::string maps_path_;
  AddressSpace space_;
  std::shared_ptr<MapReads> map_reads_;
  std::optional<MapRead> change_;  // that ReadChange has read
  HsEndReason left_ = HS_END_EXIT;
  std::string left_before_;
  bool has_children_ = false;
  std::string program_;
  std::optional<int> wait_status_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_TRANSLATED_PROCESS_H_
