// A stream of a thread, and what it tells of it to.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_FIXTURE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_FIXTURE_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/process/scheduling.h"
#include "recorder/translate/stream/thread_stream.h"

namespace hindsight {

class FakeProcess final : public StreamedProcess {
 public:
  explicit FakeProcess(TraceWriter* writer) : modules_(writer, "", 1 << 20) {}
  const AddressSpace& space() const override { return space_; }
  const ModuleTable& modules() const override { return modules_; }
  std::shared_ptr<const ExecutedPages> code() const override {
    return {std::shared_ptr<void>(), &executed_pages};
  }
  // Translated code, at places from 1000 on.
  std::optional<int64_t> AdjustAt(uint64_t host) const override {
    return host < 1000 ? std::nullopt : std::optional(1000 - static_cast<int64_t>(host));
  }
  absl::Status OnBegin(const TraceWriter::ThreadState& state, ThreadLog* log) override {
    begun.push_back(state);
    return absl::OkStatus();
  }
  bool OnChild(MadeProcess* made) override {
    children.push_back(made->process);
    return made->kind == ForkKind::kVfork;
  }
  absl::Status OnExec(const TraceWriter::ThreadState& state, ThreadLog* log) override {
    begun.push_back(state);
    return absl::OkStatus();
  }
  std::string program() const override { return "/bin/new"; }
  void OnStatus(int wait_status) override { status = wait_status; }
  void OnLeft(HsEndReason reason, uint64_t pc) override { left.push_back(reason); }
  bool ReadChange(int64_t number, const uint64_t*, int64_t, uint64_t) override {
    calls.push_back(number);
    return false;
  }
  absl::Status OnCall(uint64_t count, ThreadLog* log) override {
    counts.push_back(count);
    return absl::OkStatus();
  }

  ExecutedPages executed_pages;
  std::vector<TraceWriter::ThreadState> begun;
  std::vector<HsEndReason> left;
  std::vector<pid_t> children;
  int status = -1;
  std::vector<int64_t> calls;
  std::vector<uint64_t> counts;

 private:
  AddressSpace space_;
  ModuleTable modules_;
};

class FakeThreads final : public StreamedThreads {
 public:
  absl::Status OnThread(int32_t maker, pid_t thread, uint64_t ring) override {
    threads.push_back({maker, thread, static_cast<int32_t>(ring)});
    return absl::OkStatus();
  }
  void BeforeTurn(ThreadStream* stream, uint64_t time) override { times.push_back(time); }
  void BeginTurn(ThreadStream* stream, uint64_t time) override { begun.push_back(time); }
  bool IsOnly(const ThreadStream& stream) const override { return only; }

  int32_t ThreadOf(uint64_t ring) const override {
    const auto writer = writers.find(ring);
    return writer == writers.end() ? 0 : writer->second;
  }

  bool only = true;
  std::map<uint64_t, int32_t> writers;  // by ring
  std::vector<uint64_t> begun;          // turns, anew

  std::vector<std::vector<int32_t>> threads;  // maker, thread, ring
  std::vector<uint64_t> times;
};

// An entry with `extra` bytes after the fixed fields of T.
template <typename T>
class Entry {
 public:
  Entry(uint16_t kind, uint64_t count, size_t extra = 0) : words_((sizeof(T) + extra + 7) / 8) {
    base()->size = static_cast<uint32_t>(words_.size() * 8);
    base()->kind = kind;
    base()->count = count;
  }
  T* operator->() { return reinterpret_cast<T*>(words_.data()); }
  HsEntry* base() { return reinterpret_cast<HsEntry*>(words_.data()); }

 private:
  std::vector<uint64_t> words_;
};

// The words of a state, beyond those that every one has.
template <typename T>
uint64_t* WordsOf(Entry<T>& entry) {
  return reinterpret_cast<uint64_t*>(entry.base()) + offsetof(T, words) / sizeof(uint64_t);
}

class ThreadStreamTest : public testing::Test {
 protected:
  absl::Status State(uint16_t kind, uint64_t count, uint64_t rax) {
    Entry<HsState> state(kind, count);
    state->words[0] = rax;
    return stream_.Consume(state.base());
  }
  absl::Status Bare(uint16_t kind, uint64_t count) {
    return stream_.Consume(Entry<HsEntry>(kind, count).base());
  }
  // A call that stands where it began is next.
  absl::Status Reached(uint64_t count, uint64_t time) {
    Entry<HsEntry> reached(HS_ENTRY_REACHED, count);
    reached->time = time;
    return stream_.Consume(reached.base());
  }
  absl::Status Call(uint64_t count, uint64_t number, uint64_t result, uint16_t ring = 0) {
    Entry<HsCall> call(HS_ENTRY_CALL, count, 2 * sizeof(HsChange));
    call->entry.flags = ring;
    call->number = number;
    call->size = 2;
    call->changes[0] = {0, result};
    call->changes[1] = {HS_WORD_RIP, 0x4000};
    return stream_.Consume(call.base());
  }
  template <typename T>
  const T& LastRecord() const {
    return std::get<T>(writer_.records.back().body);
  }

  FakeTraceWriter writer_;
  FakeProcess process_{&writer_};
  FakeThreads threads_;
  Sequence sequence_;
  ThreadLog log_{&writer_, 7, &sequence_};
  ThreadScheduling scheduling_{getpid(), gettid()};
  ThreadNotes notes_{&log_, &scheduling_};
  ThreadStream stream_{&process_, &threads_, &log_, &notes_, 0, false};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_STREAM_FIXTURE_H_
