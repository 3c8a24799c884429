#include "server/fake_target.h"

#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "server/target_description.h"

namespace hindsight {
namespace {

constexpr uint64_t kZeroFlag = 1 << 6;
constexpr size_t kMaxTransitions = 100'000;

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

FakeTarget::FakeTarget(absl::string_view code, uint64_t rbx) {
  CHECK(code.size() <= kRegionBytes);
  for (const uint64_t start : {kCode, kData, kStack}) {
    machine_.memory[start] = std::string(kRegionBytes, '\0');
  }
  code.copy(machine_.memory[kCode].data(), code.size());
  RegisterFile& registers = machine_.registers;
  registers.rip = kCode;
  registers.rflags = 0x202;
  registers.gpr[kRdi] = registers.gpr[kRsi] = kData;
  registers.gpr[kRsp] = kStack + kRegionBytes / 2;
  registers.gpr[kRbx] = rbx;
  registers.cs = 0x33;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  Machine machine = machine_;
  Transition transition;
  while (transitions_.size() < kMaxTransitions && Execute(&machine, &transition)) {
    transitions_.push_back(transition);
  }
  final_registers_ = machine.registers;
}

char* FakeTarget::Machine::At(uint64_t address, size_t* size_bytes) {
  auto region = memory.upper_bound(address);
  if (region == memory.begin()) return nullptr;
  --region;
  const uint64_t offset = address - region->first;
  if (offset >= region->second.size()) return nullptr;
  *size_bytes = region->second.size() - offset;
  return region->second.data() + offset;
}

bool FakeTarget::Execute(Machine* machine, Transition* transition) {
  *transition = Transition{.before = machine->registers};
  RegisterFile& r = machine->registers;
  size_t left = 0;
  const char* at = machine->At(r.rip, &left);
  if (at == nullptr) return false;
  const absl::string_view code(at, left);
  const auto access = [&](uint64_t address, bool write, uint64_t value) {
    size_t size = 0;
    char* bytes = machine->At(address, &size);
    CHECK(bytes != nullptr && size >= 8);
    transition->address = address;
    transition->write = write;
    std::memcpy(&transition->old_value, bytes, 8);
    transition->new_value = write ? value : transition->old_value;
    std::memcpy(bytes, &transition->new_value, 8);
    return transition->new_value;
  };
  const auto is = [&](absl::string_view bytes) {
    const bool same = code.substr(0, bytes.size()) == bytes;
    if (same) r.rip += bytes.size();
    return same;
  };
  if (is("\x90")) {
  } else if (is("\x48\xff\xc0")) {
    ++r.gpr[kRax];
  } else if (is("\x48\xff\xcb")) {
    r.rflags = --r.gpr[kRbx] == 0 ? r.rflags | kZeroFlag : r.rflags & ~kZeroFlag;
  } else if (is("\x48\x83\xc7\x08")) {
    r.gpr[kRdi] += 8;
  } else if (is("\x48\x89\x07")) {
    access(r.gpr[kRdi], true, r.gpr[kRax]);
  } else if (is("\x48\x8b\x0e")) {
    r.gpr[kRcx] = access(r.gpr[kRsi], false, 0);
  } else if (is("\xeb")) {
    r.rip += 1 + static_cast<int8_t>(code[1]);
  } else if (is("\x75")) {
    r.rip += 1 + ((r.rflags & kZeroFlag) == 0 ? static_cast<int8_t>(code[1]) : 0);
  } else if (is("\xe8")) {
    int32_t distance = 0;
    std::memcpy(&distance, code.data() + 1, 4);
    r.rip += 4;
    r.gpr[kRsp] -= 8;
    access(r.gpr[kRsp], true, r.rip);
    r.rip += distance;
  } else if (is("\xc3")) {
    r.rip = access(r.gpr[kRsp], false, 0);
    r.gpr[kRsp] += 8;
  } else if (is("\x0f\x05")) {
    transition->syscall = static_cast<int64_t>(r.gpr[kRax]);
    r.gpr[kRax] = 0;
  } else if (is("\x0f\x0b")) {
    transition->signal = SIGILL;
  } else {
    return false;
  }
  return true;
}

absl::StatusOr<std::string> FakeTarget::ReadRegister(ThreadRef, int number) {
  return EncodeRegister(Present().registers, number);
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

absl::StatusOr<std::string> FakeTarget::SigInfo(ThreadRef) {
  std::string info(128, '\0');
  info[0] = SIGILL;
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

absl::StatusOr<uint64_t> FakeTarget::TlsAddress(ThreadRef, uint64_t offset, uint64_t link_map) {
  return 0x10000 * link_map + offset;
}

void FakeTarget::Forward() {
  const Transition& transition = transitions_[position_];
  if (transition.write) {
    size_t size = 0;
    std::memcpy(machine_.At(transition.address, &size), &transition.new_value, 8);
  }
  ++position_;
  machine_.registers =
      position_ < transitions_.size() ? transitions_[position_].before : final_registers_;
}

void FakeTarget::Backward() {
  const Transition& transition = transitions_[--position_];
  if (transition.write) {
    size_t size = 0;
    std::memcpy(machine_.At(transition.address, &size), &transition.old_value, 8);
  }
  machine_.registers = transition.before;
}

void FakeTarget::SetPosition(size_t position) {
  EndDiversion();
  while (position_ < position) Forward();
  while (position_ > position) Backward();
}

bool FakeTarget::AtBreakpoint(const ResumeRequest& request) {
  return std::any_of(request.breakpoints->begin(), request.breakpoints->end(),
                     [&](const BreakpointSpec& spec) {
                       return spec.address == pc() && (!spec.condition || spec.condition());
                     });
}

bool FakeTarget::Watched(const ResumeRequest& request, const Transition& transition,
                         StopEvent* event) {
  if (transition.address == 0) return false;
  for (const WatchpointSpec& watch : *request.watchpoints) {
    if (!Overlaps(watch, transition.address)) continue;
    const bool hit =
        watch.kind == WatchKind::kAccess || (watch.kind == WatchKind::kRead && !transition.write) ||
        (watch.kind == WatchKind::kWrite &&
         Changes(watch, transition.address, transition.old_value, transition.new_value));
    if (!hit || (watch.condition && !watch.condition())) continue;
    event->kind = StopKind::kWatchpoint;
    event->address = watch.address;
    event->watch = watch.kind;
    return true;
  }
  return false;
}

bool FakeTarget::AtSignal(const ResumeRequest& request, StopEvent* event) const {
  if (position_ == transitions_.size() || transitions_[position_].signal == 0) return false;
  event->kind = StopKind::kSignal;
  event->signal = transitions_[position_].signal;
  return !request.pass_signal || !request.pass_signal(event->signal);
}

bool FakeTarget::AtSyscall(const ResumeRequest& request, StopEvent* event) const {
  const auto caught = [&](int64_t number) {
    return number >= 0 &&
           (request.syscalls.empty() || std::find(request.syscalls.begin(), request.syscalls.end(),
                                                  number) != request.syscalls.end());
  };
  if (!request.catch_syscalls) return false;
  if (position_ < transitions_.size() && caught(transitions_[position_].syscall)) {
    event->kind = StopKind::kSyscallEntry;
    event->syscall = transitions_[position_].syscall;
    return true;
  }
  if (position_ > 0 && caught(transitions_[position_ - 1].syscall)) {
    event->kind = StopKind::kSyscallReturn;
    event->syscall = transitions_[position_ - 1].syscall;
    return true;
  }
  return false;
}

StopEvent FakeTarget::RunForward(const ResumeRequest& request) {
  StopEvent event{.thread = kThread};
  const auto stop = [&](StopKind kind) {
    event.kind = kind;
    return event;
  };
  if (!request.step && AtBreakpoint(request)) return stop(StopKind::kBreakpoint);
  while (position_ < transitions_.size()) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return stop(StopKind::kInterrupted);
    }
    Forward();
    if (Watched(request, transitions_[position_ - 1], &event)) return event;
    if (AtSignal(request, &event) || AtSyscall(request, &event)) return event;
    if (request.step) {
      if (pc() < request.range_start || pc() >= request.range_end) return stop(StopKind::kStep);
    }
    // Behind the check of the range: a breakpoint in it must stop a range step, too.
    if (AtBreakpoint(request)) return stop(StopKind::kBreakpoint);
  }
  console = "The program exited with code 0.\n";
  return stop(StopKind::kEnd);
}

StopEvent FakeTarget::RunBackward(const ResumeRequest& request) {
  StopEvent event{.thread = kThread};
  const auto stop = [&](StopKind kind) {
    event.kind = kind;
    return event;
  };
  while (position_ > 0) {
    if (request.interrupt != nullptr && request.interrupt->load()) {
      return stop(StopKind::kInterrupted);
    }
    Backward();
    if (Watched(request, transitions_[position_], &event)) return event;
    if (AtSignal(request, &event) || AtSyscall(request, &event)) return event;
    if (request.step) return stop(StopKind::kStep);
    if (AtBreakpoint(request)) return stop(StopKind::kBreakpoint);
  }
  return stop(StopKind::kBegin);
}

StopEvent FakeTarget::RunDiversion(const ResumeRequest& request) {
  Transition transition;
  do {
    if (!request.step && AtBreakpoint(request)) {
      return {.kind = StopKind::kBreakpoint, .thread = kThread};
    }
    if (!Execute(diversion_.get(), &transition)) return {.kind = StopKind::kEnd, .thread = kThread};
  } while (!request.step);
  return {.kind = StopKind::kStep, .thread = kThread};
}

absl::StatusOr<StopEvent> FakeTarget::Resume(const ResumeRequest& request) {
  if (!resume_error.ok()) return resume_error;
  if (endless && !request.step) {
    while (!request.interrupt->load()) std::this_thread::yield();
    last_stop_ = {.kind = StopKind::kInterrupted, .thread = kThread};
  } else if (diversion_ != nullptr) {
    CHECK(request.direction == Direction::kForward);
    last_stop_ = RunDiversion(request);
  } else {
    last_stop_ =
        request.direction == Direction::kForward ? RunForward(request) : RunBackward(request);
  }
  return last_stop_;
}

absl::Status FakeTarget::WriteRegister(ThreadRef, int number, absl::Span<const uint8_t> bytes) {
  if (refuse_writes) return absl::UnimplementedError("read-only");
  if (diversion_ == nullptr) diversion_ = std::make_unique<Machine>(machine_);
  return DecodeRegister(bytes, number, &diversion_->registers)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("no such register");
}

absl::Status FakeTarget::WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (refuse_writes) return absl::UnimplementedError("read-only");
  size_t size = 0;
  if (machine_.At(address, &size) == nullptr || size < bytes.size()) {
    return absl::NotFoundError("no such memory");
  }
  if (diversion_ == nullptr) diversion_ = std::make_unique<Machine>(machine_);
  std::memcpy(diversion_->At(address, &size), bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeTarget::Monitor(const std::string& command, bool* moved) {
  if (command == "when") return absl::StrCat("position ", position_);
  if (absl::string_view where = command; absl::ConsumePrefix(&where, "goto ")) {
    const absl::Status status = GoTo(std::string(where));
    if (!status.ok()) return status;
    *moved = true;
    return absl::StrCat("position ", position_);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown command: ", command));
}

absl::Status FakeTarget::GoTo(const std::string& where) {
  size_t position = 0;
  if (where == "end") {
    position = transitions_.size();
  } else if (where != "start" &&
             (!absl::SimpleAtoi(where, &position) || position > transitions_.size())) {
    return absl::OutOfRangeError("no such position");
  }
  SetPosition(position);
  last_stop_ = {.kind = StopKind::kStep, .thread = kThread};
  return absl::OkStatus();
}

}  // namespace hindsight
