// What tests of ThreadTable begin with: rings that agents write into, and the table that they are
// merged into a trace by.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_FIXTURE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_FIXTURE_H_

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/translate/stream/fake_agent.h"
#include "recorder/translate/stream/thread_table.h"

namespace hindsight {

inline constexpr uint64_t kCapacity = 1 << 20;
inline constexpr size_t kRings = 5;
inline constexpr uint64_t kCode = FakeAgent::kCode, kData = 0x2000;

// A process of which nothing is known but its program.
class NoProcess final : public StreamedProcess {
 public:
  explicit NoProcess(ProcessLog* log) : log_(log) {}
  const AddressSpace& space() const override { return space_; }
  const ModuleTable& modules() const override { return log_->modules(); }
  std::shared_ptr<const ExecutedPages> code() const override {
    return {std::shared_ptr<void>(), &executed_pages};
  }
  absl::Status OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) override {
    if (log_->full_keyframes() != 0) return absl::OkStatus();
    return log_->WriteFullKeyframe({.sequence = log->sequence(), .threads = {state}}, state.thread,
                                   state.count, MemoryMap(std::vector<MapRegion>()),
                                   /*with_memory=*/false);
  }
  bool OnChild(MadeProcess*) override { return false; }
  absl::Status OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) override {
    return absl::OkStatus();
  }
  std::string program() const override { return "/bin/new"; }
  void OnStatus(int) override {}
  void OnLeft(HsEndReason, uint64_t) override { left = true; }
  bool ReadChange(int64_t, const uint64_t*, int64_t, uint64_t) override { return false; }
  absl::Status OnCall(uint64_t, ThreadLog*) override { return absl::OkStatus(); }

  absl::Status OnStanding(std::vector<TraceWriter::ThreadState> states, const Stop&,
                          ThreadLog* log) override {
    stood.push_back({log->thread(), std::move(states)});
    return absl::OkStatus();
  }

  bool left = false;
  ExecutedPages executed_pages;
  // By whom it was stopped, and where all stood.
  std::vector<std::pair<pid_t, std::vector<TraceWriter::ThreadState>>> stood;

 private:
  ProcessLog* const log_;
  AddressSpace space_;
};

using Agent = FakeAgent;

// A table of threads, the first of which writes into ring 1.
class ThreadTableTest : public testing::Test {
 protected:
  ThreadTableTest() {
    for (size_t i = 0; i < kRings; ++i) {
      memory_.emplace_back(HS_RING_HEADER_BYTES + kCapacity);
      if (i > 0) rings_.push_back(reinterpret_cast<HsRing*>(memory_[i].data()));
      if (i == 0) rings_.push_back(nullptr);
      if (i > 0) rings_[i]->capacity = kCapacity;
    }
    auto writer = std::make_unique<FakeTraceWriter>();
    writer_ = writer.get();
    Open(std::move(writer));
  }

  void Open(std::unique_ptr<TraceWriter> writer) {
    Manifest manifest;
    manifest.pid = getpid();
    manifest.register_layout = kRegisterLayout;
    log_ = std::make_unique<ProcessLog>(std::move(writer), std::move(manifest), "",
                                        /*max_module_bytes=*/1, nullptr);
    process_.emplace(log_.get());
    table_.emplace(&*process_, log_.get(), &sequence_, &clock_, &merger_, /*has_maker=*/false);
    ASSERT_TRUE(table_->OpenFirst(std::make_shared<RingSet>(rings_, kCapacity), 1).ok());
  }
  absl::StatusOr<bool> Drain() {
    absl::StatusOr<bool> some = merger_.Drain();
    table_->Settle();
    return some;
  }
  Agent AgentOf(size_t ring) { return Agent(rings_[ring]); }

  std::vector<ProcessEvent> Events(EventKind kind) const {
    std::vector<ProcessEvent> events;
    for (const ProcessEvent& event : writer_->events) {
      if (event.kind == kind) events.push_back(event);
    }
    return events;
  }
  // Thread 1 begins, and makes another one, in ring 2.
  void BeginTwo(Agent* first, Agent* second) {
    first->State(HS_ENTRY_BEGIN, 10);
    first->Call(20, SYS_clone, 4711, 2);
    second->State(HS_ENTRY_BEGIN, 30);
    ASSERT_TRUE(Drain().ok());
  }

  std::vector<std::vector<uint8_t>> memory_;
  std::vector<HsRing*> rings_;
  FakeTraceWriter* writer_ = nullptr;
  Sequence sequence_;
  TscClock clock_{0, 0};
  std::unique_ptr<ProcessLog> log_;
  std::optional<NoProcess> process_;
  // No time passes, however busy the machine is.
  StreamMerger merger_{[] { return uint64_t{1} << 40; }};
  std::optional<ThreadTable> table_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_FIXTURE_H_
