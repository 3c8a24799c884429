#include "server/target/fake_target.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

constexpr size_t kMaxTransitions = 100'000;
constexpr uint64_t kStackBytes = 256;  // between the stacks of two threads

bool Overlaps(const WatchpointSpec& watch, uint64_t address) {
  return address < watch.address + watch.length && watch.address < address + 8;
}

// True if a watched byte differs between the two values of the eight bytes at `address`.
bool Changes(const WatchpointSpec& watch, uint64_t address, uint64_t old_value,
             uint64_t new_value) {
  for (uint64_t i = 0; i < 8; ++i) {
    const bool watched = address + i >= watch.address && address + i < watch.address + watch.length;
    if (watched && (old_value >> (8 * i) & 0xff) != (new_value >> (8 * i) & 0xff)) return true;
  }
  return false;
}

}  // namespace

FakeTarget::FakeTarget(absl::string_view code, FakeOptions options) : options_(std::move(options)) {
  CHECK(code.size() <= kRegionBytes);
  for (const uint64_t start : {kCode, kData, kStack}) {
    machine_.memory[start] = std::string(kRegionBytes, '\0');
  }
  code.copy(machine_.memory[kCode].data(), code.size());
  RegisterFile registers;
  registers.rip = kCode;
  registers.rflags = 0x202;
  registers.gpr[kRdi] = registers.gpr[kRsi] = kData;
  registers.gpr[kRsp] = kStack + kRegionBytes / 2;
  registers.gpr[kRbx] = options_.rbx;
  registers.cs = 0x33;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  machine_.threads.push_back({registers, /*alive=*/true});
  for (const uint64_t entry : options_.entries) {
    registers.rip = entry;
    registers.gpr[kRsp] += kStackBytes;
    machine_.threads.push_back({registers, /*alive=*/false});
  }
  RunAll(machine_);
}

void FakeTarget::RunAll(FakeMachine machine) {
  size_t thread = 0;
  size_t left = options_.turn;
  // Gives up when no thread in a row could do anything.
  for (size_t idle = 0; idle <= machine.threads.size() && transitions_.size() < kMaxTransitions;) {
    FakeTransition transition;
    if (left-- > 0 && machine.threads[thread].alive && machine.Execute(thread, &transition)) {
      transitions_.push_back(transition);
      idle = 0;
      continue;
    }
    thread = (thread + 1) % machine.threads.size();
    left = options_.turn;
    ++idle;
  }
}

std::optional<size_t> FakeTarget::Index(ThreadRef thread) {
  const int32_t index = thread.tid - kThread.tid;
  if (thread.pid != kThread.pid || index < 0) return std::nullopt;
  return static_cast<size_t>(index);
}

std::vector<ThreadRef> FakeTarget::threads() {
  std::vector<ThreadRef> alive;
  for (size_t i = 0; i < machine_.threads.size(); ++i) {
    if (machine_.threads[i].alive) alive.push_back(Ref(i));
  }
  return alive;
}

std::optional<int> FakeTarget::ThreadProcessor(ThreadRef thread) {
  if (thread == kThread) return std::nullopt;
  return thread.tid & 3;
}

absl::StatusOr<std::string> FakeTarget::ReadRegister(ThreadRef thread, int number) {
  const std::optional<size_t> index = Index(thread);
  if (!index || *index >= machine_.threads.size()) return absl::NotFoundError("no such thread");
  return EncodeRegister(Present().threads[*index].registers, number);
}

absl::StatusOr<size_t> FakeTarget::ReadMemory(ThreadRef, uint64_t address,
                                              absl::Span<uint8_t> out) {
  size_t size = 0;
  const char* bytes = Present().At(address, &size);
  if (bytes == nullptr) return absl::NotFoundError("no such memory");
  size = std::min(size, out.size());
  std::memcpy(out.data(), bytes, size);
  return size;
}

std::vector<MemoryRegion> FakeTarget::Regions() {
  return {{kCode, kCode + kRegionBytes, PROT_READ | PROT_EXEC, "/bin/fake"},
          {kData, kData + kRegionBytes, PROT_READ | PROT_WRITE, ""},
          {kStack, kStack + kRegionBytes, PROT_READ | PROT_WRITE, "[stack]"}};
}

absl::StatusOr<std::string> FakeTarget::SigInfo(ThreadRef thread) {
  std::string info(128, '\0');
  info[0] = SIGILL;
  info[20] = static_cast<char>(thread.tid);
  return info;
}

absl::StatusOr<std::vector<Library>> FakeTarget::Libraries(uint64_t* main_link_map) {
  *main_link_map = 0x1000;
  return std::vector<Library>{{"/lib/a<b>.so", 0x2000, 0x7000000, 0x7001000}};
}

absl::StatusOr<std::string> FakeTarget::ReadLink(const std::string& path) {
  if (path == "/proc/4660/exe") return executable;
  return absl::NotFoundError(path);
}

absl::StatusOr<std::string> FakeTarget::FileContents(const std::string& path) {
  const auto file = files.find(path);
  if (file == files.end()) return absl::NotFoundError(path);
  return file->second;
}

absl::StatusOr<uint64_t> FakeTarget::TlsAddress(ThreadRef thread, uint64_t offset,
                                                uint64_t link_map) {
  const uint64_t index = static_cast<uint64_t>(thread.tid - kThread.tid);
  return 0x10000 * link_map + 0x1000 * index + offset;
}

void FakeTarget::SetPosition(size_t position) {
  EndDiversion();
  while (position_ < position) Forward();
  while (position_ > position) Backward();
}

size_t FakeTarget::Next() const {
  if (transitions_.empty()) return 0;
  const FakeTransition& last = transitions_.back();
  if (position_ < transitions_.size()) return transitions_[position_].thread;
  return last.ends ? 0 : last.thread;
}

bool FakeTarget::AtBreakpoint(const RunRequest& request, size_t thread) {
  if (!machine_.threads[thread].alive) return false;
  return std::any_of(
      request.breakpoints.begin(), request.breakpoints.end(), [&](const BreakpointSpec& spec) {
        return spec.address == pc(thread) && (!spec.condition || spec.condition(Tid(thread)));
      });
}

bool FakeTarget::Watched(const RunRequest& request, const FakeTransition& transition,
                         RunStop* event) {
  if (transition.address == 0) return false;
  for (const WatchpointSpec& watch : request.watchpoints) {
    if (!Overlaps(watch, transition.address)) continue;
    const bool hit =
        watch.kind == WatchKind::kAccess || (watch.kind == WatchKind::kRead && !transition.write) ||
        (watch.kind == WatchKind::kWrite &&
         Changes(watch, transition.address, transition.old_value, transition.new_value));
    if (!hit || (watch.condition && !watch.condition(Tid(transition.thread)))) continue;
    event->kind = StopKind::kWatchpoint;
    event->thread = Tid(transition.thread);
    event->address = watch.address;
    event->watch = watch.kind;
    return true;
  }
  return false;
}

bool FakeTarget::AtSignal(const RunRequest& request, RunStop* event) const {
  if (position_ == transitions_.size() || transitions_[position_].signal == 0) return false;
  event->kind = StopKind::kSignal;
  event->thread = Tid(transitions_[position_].thread);
  event->signal = transitions_[position_].signal;
  return !request.stop_for_signal || request.stop_for_signal(event->signal);
}

bool FakeTarget::AtSyscall(const RunRequest& request, RunStop* event) const {
  const auto caught = [&](const FakeTransition& transition, StopKind kind) {
    const int64_t number = transition.syscall;
    if (number < 0) return false;
    if (!request.stop_for_syscall(number)) return false;
    event->kind = kind;
    event->thread = Tid(transition.thread);
    event->syscall = number;
    return true;
  };
  if (!request.stop_for_syscall) return false;
  return (position_ < transitions_.size() &&
          caught(transitions_[position_], StopKind::kSyscallEntry)) ||
         (position_ > 0 && caught(transitions_[position_ - 1], StopKind::kSyscallReturn));
}

bool FakeTarget::Forked(const RunRequest& request, const FakeTransition& transition,
                        RunStop* event) const {
  if (!request.stop_for_fork || !options_.fork_calls) return false;
  if (transition.syscall != SYS_fork && transition.syscall != SYS_vfork) return false;
  event->kind = transition.syscall == SYS_fork ? StopKind::kFork : StopKind::kVfork;
  event->thread = Tid(transition.thread);
  event->child = kChild.pid;
  return true;
}

bool FakeTarget::AtThreadEvent(const RunRequest& request, const FakeTransition& transition,
                               RunStop* event) const {
  if (!request.stop_for_threads || (!transition.starts && !transition.ends)) return false;
  event->kind = transition.starts ? StopKind::kThreadStart : StopKind::kThreadExit;
  event->thread = Tid(transition.starts ? *transition.starts : transition.thread);
  return true;
}

bool FakeTarget::Stopped(const RunRequest& request, size_t index, RunStop* event) {
  const FakeTransition& transition = transitions_[index];
  const bool wanted = Watched(request, transition, event) || AtSignal(request, event) ||
                      AtSyscall(request, event) || Forked(request, transition, event) ||
                      AtThreadEvent(request, transition, event);
  return wanted && (!request.only_thread || event->thread == request.thread);
}

RunStop FakeTarget::RunForward(const RunRequest& request) {
  const size_t stepping = Index(request.thread).value_or(current_);
  RunStop event{.thread = Tid(stepping)};
  const auto stop = [&event](StopKind kind, size_t thread) {
    event = {.kind = kind, .thread = Tid(thread)};
    return event;
  };
  if (!request.step && AtBreakpoint(request, stepping))
    return stop(StopKind::kBreakpoint, stepping);
  const auto steps = [stepping](const FakeTransition& t) { return t.thread == stepping; };
  if (request.step && std::none_of(transitions_.begin() + position_, transitions_.end(), steps)) {
    return stop(StopKind::kEnd, stepping);
  }
  while (position_ < transitions_.size()) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return stop(StopKind::kInterrupted, Next());
    }
    Forward();
    const FakeTransition& transition = transitions_[position_ - 1];
    const size_t moved = transition.thread;
    if (Stopped(request, position_ - 1, &event)) return event;
    if (request.step && moved == stepping &&
        (pc(moved) < request.range_start || pc(moved) >= request.range_end)) {
      return stop(StopKind::kStep, moved);
    }
    // After the check of the range: a breakpoint in it must stop a range step, too.
    for (const size_t thread : {moved, transition.starts.value_or(moved)}) {
      if (request.only_thread && thread != stepping) continue;
      if (AtBreakpoint(request, thread)) return stop(StopKind::kBreakpoint, thread);
    }
  }
  console = "The program exited with code 0.\n";
  return stop(StopKind::kEnd, Next());
}

RunStop FakeTarget::RunBackward(const RunRequest& request) {
  const size_t stepping = Index(request.thread).value_or(current_);
  RunStop event{.thread = Tid(stepping)};
  const auto stop = [&event](StopKind kind, size_t thread) {
    event = {.kind = kind, .thread = Tid(thread)};
    return event;
  };
  const auto steps = [stepping](const FakeTransition& t) { return t.thread == stepping; };
  if (request.step && std::none_of(transitions_.begin(), transitions_.begin() + position_, steps)) {
    return stop(StopKind::kBegin, stepping);
  }
  while (position_ > 0) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return stop(StopKind::kInterrupted, Next());
    }
    Backward();
    const size_t moved = transitions_[position_].thread;
    if (Stopped(request, position_, &event)) return event;
    if (request.step && moved == stepping) return stop(StopKind::kStep, moved);
    if (request.only_thread && moved != stepping) continue;
    if (AtBreakpoint(request, moved)) return stop(StopKind::kBreakpoint, moved);
  }
  return stop(StopKind::kBegin, Next());
}

RunStop FakeTarget::RunDiversion(const RunRequest& request) {
  const size_t thread = Index(request.thread).value_or(0);
  FakeTransition transition;
  do {
    if (!request.step && AtBreakpoint(request, thread)) {
      return {.kind = StopKind::kBreakpoint, .thread = Tid(thread)};
    }
    if (!diversion_->Execute(thread, &transition)) {
      return {.kind = StopKind::kEnd, .thread = Tid(thread)};
    }
  } while (!request.step);
  return {.kind = StopKind::kStep, .thread = Tid(thread)};
}

absl::StatusOr<RunStop> FakeTarget::Resume(RunRequest request) {
  if (!resume_error.ok()) return resume_error;
  if (endless && !request.step) {
    while (!request.interrupt->load()) std::this_thread::yield();
    last_stop_ = {.kind = StopKind::kInterrupted, .thread = Tid(current_)};
  } else if (diversion_ != nullptr) {
    CHECK(request.direction == Direction::kForward);
    last_stop_ = RunDiversion(request);
  } else {
    last_stop_ =
        request.direction == Direction::kForward ? RunForward(request) : RunBackward(request);
  }
  current_ = Index(last_stop_.thread).value_or(0);
  // A thread that has ended is not the current one.
  if (!machine_.threads[current_].alive) current_ = 0;
  return last_stop_;
}

absl::Status FakeTarget::Divert() {
  if (refuse_writes) return absl::UnimplementedError("read-only");
  if (diversion_ != nullptr) return absl::OkStatus();
  diversion_ = std::make_unique<FakeMachine>(machine_);
  return absl::OkStatus();
}

absl::Status FakeTarget::WriteRegister(ThreadRef thread, int number,
                                       absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(Divert());
  return DecodeRegister(bytes, number, &diversion_->threads[Index(thread).value_or(0)].registers)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("no such register");
}

absl::Status FakeTarget::WriteMemory(ThreadRef, uint64_t address, absl::Span<const uint8_t> bytes) {
  size_t size = 0;
  if (!refuse_writes && (machine_.At(address, &size) == nullptr || size < bytes.size())) {
    return absl::NotFoundError("no such memory");
  }
  RETURN_IF_ERROR(Divert());
  std::memcpy(diversion_->At(address, &size), bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeTarget::Monitor(const std::string& command, ThreadRef selected,
                                                const std::atomic<bool>* interrupt, bool* moved) {
  if (absl::StartsWith(command, "when"))
    return absl::StrCat("position ", position_, ", thread ", selected.tid);
  if (absl::string_view where = command; absl::ConsumePrefix(&where, "goto ")) {
    const absl::Status status = GoTo(std::string(where), interrupt);
    if (!status.ok()) return status;
    *moved = true;
    return absl::StrCat("position ", position_, ", thread ", Ref(current_).tid);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown command: ", command));
}

absl::Status FakeTarget::GoTo(const std::string& where, const std::atomic<bool>*) {
  size_t position = 0;
  if (where == "end") {
    position = transitions_.size();
  } else if (where != "start" &&
             (!absl::SimpleAtoi(where, &position) || position > transitions_.size())) {
    return absl::OutOfRangeError("no such position");
  }
  SetPosition(position);
  current_ = Next();
  last_stop_ = {.kind = StopKind::kStep, .thread = Tid(current_)};
  return absl::OkStatus();
}

}  // namespace hindsight
