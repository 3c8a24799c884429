#include "tracefmt/samples/ring_recorder.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

void Check(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

}  // namespace

Recorder::Recorder(const std::string& directory, const RingLimits& ring) {
  auto writer = TraceWriter::Create(directory, SampleManifest(), WriterOptions(), ring);
  EXPECT_TRUE(writer.ok()) << writer.status();
  owned_ = *std::move(writer);
  writer_ = owned_.get();
  Start();
}

Recorder::Recorder(TraceWriter* writer) : writer_(writer) { Start(); }

void Recorder::Start() {
  Begin(SampleManifest().pid);
  Keyframe();
}

void Recorder::Round() {
  for (const auto& [thread, state] : threads_) Execute(thread);
  if (writer_->WantsFullKeyframe()) Keyframe();
}

void Recorder::RoundOfFirst() {
  State& state = threads_.at(SampleManifest().pid);
  for (int i = 0; i < 100; ++i) {
    SideEffect effect;
    effect.registers.index = {0, 1};
    effect.registers.value = {random_(), random_()};
    written_ += 2 * sizeof(uint64_t);
    Check(writer_->Append(SampleManifest().pid, {state.count++, std::move(effect)}));
  }
  if (writer_->WantsFullKeyframe()) Keyframe();
}

void Recorder::Begin(int32_t thread) {
  State& state = threads_[thread];
  Check(writer_->AppendEvent({.kind = EventKind::kThreadStart,
                              .sequence = ++sequence_,
                              .thread = thread,
                              .count = state.count,
                              .text = absl::StrCat("worker ", thread)}));
  BeginSegment(thread, &state);
}

void Recorder::End(int32_t thread) {
  State& state = threads_[thread];
  Check(writer_->Append(thread, {state.count, SegmentEnd{Words(state)}}));
  Check(writer_->AppendEvent(
      {.kind = EventKind::kThreadExit, .thread = thread, .count = state.count}));
  writer_->CloseThread(thread);
  threads_.erase(thread);
}

void Recorder::BeginAgain(int32_t thread) {
  threads_[thread] = {.segment = 0};
  Begin(thread);
}

std::string Recorder::PageWith(uint64_t value) {
  std::string bytes(kPageBytes, '\0');
  std::mt19937_64 random(value);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void Recorder::Keyframe() {
  std::vector<TraceWriter::ThreadState> states;
  for (auto& [thread, state] : threads_) {
    Check(writer_->Append(thread, {state.count, SegmentEnd{Words(state)}}));
    BeginSegment(thread, &state);
    states.push_back({.thread = thread,
                      .count = state.count,
                      .segment = state.segment - 1,
                      .registers = Words(state)});
  }
  Check(writer_->BeginFullKeyframe(++keyframe_, sequence_, states, {}, {}));
  // One page of the keyframe's own, one that stays, and one that changes now and then.
  uint64_t address = kPage;
  for (const uint64_t value : {keyframe_, uint64_t{7}, keyframe_ / 3}) {
    const std::string bytes = PageWith(value);
    Check(writer_->AddPage(
        address, absl::MakeSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())));
    address += kPageBytes;
  }
  Check(writer_->FinishFullKeyframe());
  Check(writer_->AppendEvent({.kind = EventKind::kFullKeyframe,
                              .thread = states.front().thread,
                              .count = states.front().count,
                              .number = static_cast<int64_t>(keyframe_)}));
}

void Recorder::Finish() {
  for (auto& [thread, state] : threads_) {
    Check(writer_->Append(thread, {state.count, SegmentEnd{Words(state)}}));
  }
  Manifest manifest = SampleManifest();
  manifest.state = TraceState::kComplete;
  Check(writer_->Finish(manifest));
}

void Recorder::BeginSegment(int32_t thread, State* state) {
  Check(writer_->BeginSegment(thread, state->segment++, state->count, sequence_, Words(*state)));
}

void Recorder::Execute(int32_t thread) {
  State& state = threads_.at(thread);
  for (int i = 0; i < 20; ++i) {
    SideEffect effect = {.kind = SideEffectKind::kSyscall, .sequence = ++sequence_};
    effect.registers.index = {0};
    effect.registers.value = {random_()};
    written_ += 4 * sizeof(uint64_t);
    Check(writer_->Append(thread, {state.count, std::move(effect)}));
    ++state.count;
    Check(writer_->AppendEvent({.kind = EventKind::kSyscall,
                                .sequence = sequence_,
                                .thread = thread,
                                .count = state.count,
                                .number = 1,
                                .arguments = {random_(), random_(), random_(), 0, 0, 0}}));
  }
}

}  // namespace hindsight
