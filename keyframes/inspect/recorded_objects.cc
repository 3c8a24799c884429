#include "keyframes/inspect/recorded_objects.h"

#include <elf.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "keyframes/inspect/proc_files.h"
#include "keyframes/inspect/process_files.h"

namespace hindsight {
namespace {

constexpr size_t kSigInfoBytes = 128;
constexpr size_t kCommandNameBytes = 15;
constexpr uint64_t kMaxProcessor = 1 << 20;  // above any real machine

std::vector<std::string> ReadArguments(uint64_t stack, MemoryReader memory) {
  constexpr uint64_t kMaxArguments = 100'000;
  std::vector<std::string> arguments;
  std::optional<uint64_t> number = ReadWord(memory, stack);
  for (uint64_t i = 1; number && i <= std::min(*number, kMaxArguments); ++i) {
    std::optional<uint64_t> address = ReadWord(memory, stack + i * sizeof(uint64_t));
    if (!address) break;
    arguments.push_back(ReadString(memory, *address));
  }
  return arguments;
}

}  // namespace

absl::Span<const uint64_t> RecordedObjects::AuxvWords(uint64_t moment) const {
  // Each exec is followed by a full keyframe.
  const FullKeyframe* keyframe = process_->KeyframeAt(moment);
  if (keyframe != nullptr && !keyframe->auxv().empty()) return keyframe->auxv();
  return trace_->manifest().auxv;
}

absl::StatusOr<std::string> RecordedObjects::Auxv(uint64_t moment) const {
  absl::Span<const uint64_t> auxv = AuxvWords(moment);
  if (auxv.empty()) return absl::NotFoundError("the trace has no auxiliary vector");
  return RawWords(auxv);
}

std::string RecordedObjects::SigInfo(int32_t thread, uint64_t moment) const {
  std::string bytes;
  const uint64_t count = process_->schedule().CountAt(thread, moment);
  const ThreadState& state = process_->thread(thread);
  const ProcessEvent* signal = state.SignalFrom(count);
  // In the last state of the process the signal that has ended it.
  if (const auto& exit = process_->exit_status(); exit && exit->signal() != 0 && count > 0 &&
                                                  count == state.end_count() &&
                                                  moment == process_->end_moment()) {
    const ProcessEvent* last = state.SignalFrom(count - 1);
    if (last != nullptr && last->number == exit->signal()) signal = last;
  }
  if (signal != nullptr) {
    bytes = signal->text;
    if (bytes.empty()) {
      siginfo_t info = {};
      info.si_signo = static_cast<int>(signal->number);
      bytes.assign(reinterpret_cast<const char*>(&info), sizeof(info));
    }
  } else {
    siginfo_t info = {};
    info.si_signo = SIGTRAP;
    info.si_code = TRAP_BRKPT;
    bytes.assign(reinterpret_cast<const char*>(&info), sizeof(info));
  }
  bytes.resize(kSigInfoBytes, '\0');
  return bytes;
}

std::string RecordedObjects::ExecutablePath(uint64_t moment) const {
  const ProcessEvent* exec = process_->LastExec(moment);
  return exec != nullptr && !exec->text.empty() ? exec->text : trace_->manifest().program;
}

std::string RecordedObjects::ThreadName(int32_t thread, uint64_t moment) const {
  std::string name = process_->threads().NameAt(thread, moment);
  if (name.empty()) {
    const std::string program = ExecutablePath(moment);
    name = program.substr(program.rfind('/') + 1);
  }
  return name.substr(0, kCommandNameBytes);
}

std::optional<int> RecordedObjects::ThreadProcessor(int32_t thread, uint64_t moment) {
  if (!placements_) {
    placements_.emplace();
    for (const ProcessEvent& event : trace_->events()) {
      // arguments: when the thread was resumed, when the slice before ended, processor or ~0.
      if (event.kind != EventKind::kSlice || event.arguments.size() < 3) continue;
      if (event.arguments[2] > kMaxProcessor) continue;
      (*placements_)[event.thread].push_back(
          {event.sequence, static_cast<int>(event.arguments[2])});
    }
  }
  const std::vector<Placement>& placements = (*placements_)[thread];
  const uint64_t sequence =
      process_->schedule().slices()[process_->schedule().SliceAt(moment)].sequence;
  auto next = std::partition_point(placements.begin(), placements.end(),
                                   [=](const Placement& p) { return p.sequence <= sequence; });
  if (next == placements.begin()) return std::nullopt;
  return std::prev(next)->processor;
}

LinkMap RecordedObjects::Libraries(uint64_t moment, MemoryReader memory) const {
  return ReadLinkMap(AuxvWords(moment), memory);
}

std::string RecordedObjects::CommandLine(uint64_t moment, MemoryReader memory) const {
  uint64_t begin = 0;
  int32_t thread = process_->threads().first();
  for (const TimelineEvent& exec : process_->execs()) {
    if (exec.moment > moment) break;
    begin = exec.moment;
    thread = exec.event->thread;
  }
  std::vector<std::string> arguments;
  // In the program's first state the stack pointer points at the number of arguments, and the
  // pointers to them. (A forked child does not begin in the first state of a program.)
  const FullKeyframe* keyframe = process_->KeyframeAt(begin);
  const bool is_first = begin > 0 || trace_->manifest().start_kind.empty() ||
                        trace_->manifest().start_kind == "launch";
  if (keyframe != nullptr && is_first) {
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      RegisterFile registers;
      if (state.thread != thread || state.count != process_->schedule().CountAt(thread, begin) ||
          !FromWords(state.registers, &registers)) {
        continue;
      }
      arguments = ReadArguments(registers.gpr[kRsp], memory);
    }
  }
  return ZeroTerminated(arguments.empty() ? trace_->manifest().arguments : arguments);
}

class RecordedObjects::FactsAt final : public ProcessFacts {
 public:
  FactsAt(const RecordedObjects* objects, uint64_t moment) : objects_(objects), moment_(moment) {}

  absl::Span<const uint64_t> AuxvWords() const override { return objects_->AuxvWords(moment_); }
  std::string ExecutablePath() const override { return objects_->ExecutablePath(moment_); }
  std::string CommandLine(MemoryReader memory) const override {
    return objects_->CommandLine(moment_, memory);
  }
  std::vector<int32_t> Threads() const override {
    return objects_->process_->threads().AliveAt(moment_);
  }
  bool IsAlive(int32_t thread) const override {
    return objects_->process_->threads().IsAlive(thread, moment_);
  }
  std::string ThreadName(int32_t thread) const override {
    return objects_->ThreadName(thread, moment_);
  }
  std::vector<MapRegion> Regions() const override {
    return objects_->process_->maps().CopyAt(moment_);
  }
  int32_t ModuleAt(uint64_t address) const override {
    const MapRegion* region = objects_->process_->maps().FindWithStackGrowth(moment_, address);
    return region == nullptr ? -1 : region->module;
  }

 private:
  const RecordedObjects* objects_;
  uint64_t moment_;
};

absl::StatusOr<std::string> RecordedObjects::ReadLink(const std::string& path, uint64_t moment,
                                                      MemoryReader memory) {
  return files_.ReadLink(path, FactsAt(this, moment), memory);
}

absl::StatusOr<std::string> RecordedObjects::FileContents(const std::string& path, uint64_t moment,
                                                          MemoryReader memory) {
  return files_.FileContents(path, FactsAt(this, moment), memory);
}

absl::StatusOr<uint64_t> RecordedObjects::TlsAddress(uint64_t fs_base, uint64_t offset,
                                                     uint64_t link_map, MemoryReader memory) {
  return files_.TlsAddress(fs_base, offset, link_map, memory);
}

}  // namespace hindsight
