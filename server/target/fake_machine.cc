#include "server/target/fake_machine.h"

#include <sys/syscall.h>

#include <csignal>
#include <cstring>

#include "absl/strings/match.h"
#include "base/check.h"

namespace hindsight {
namespace {

constexpr uint64_t kZeroFlag = 1 << 6;

// If `code` begins with `bytes`, moves rip past them.
bool Is(absl::string_view code, absl::string_view bytes, RegisterFile* registers) {
  if (!absl::StartsWith(code, bytes)) return false;
  registers->rip += bytes.size();
  return true;
}

uint32_t Immediate(absl::string_view code) {
  uint32_t value = 0;
  std::memcpy(&value, code.data() + 1, sizeof(value));
  return value;
}

}  // namespace

char* FakeMachine::At(uint64_t address, size_t* size_bytes) {
  auto region = memory.upper_bound(address);
  if (region == memory.begin()) return nullptr;
  --region;
  const uint64_t offset = address - region->first;
  if (offset >= region->second.size()) return nullptr;
  *size_bytes = region->second.size() - offset;
  return region->second.data() + offset;
}

uint64_t FakeMachine::Access(uint64_t address, bool write, uint64_t value,
                             FakeTransition* transition) {
  size_t size = 0;
  char* bytes = At(address, &size);
  CHECK(bytes != nullptr && size >= 8);
  transition->address = address;
  transition->write = write;
  std::memcpy(&transition->old_value, bytes, 8);
  transition->new_value = write ? value : transition->old_value;
  std::memcpy(bytes, &transition->new_value, 8);
  return transition->new_value;
}

void FakeMachine::Syscall(RegisterFile* registers, FakeTransition* transition) {
  transition->syscall = static_cast<int64_t>(registers->gpr[kRax]);
  registers->gpr[kRax] = 0;
  if (transition->syscall != SYS_clone) return;
  for (size_t i = 0; i < threads.size() && !transition->starts; ++i) {
    if (!threads[i].alive) transition->starts = i;
  }
  if (transition->starts) threads[*transition->starts].alive = true;
}

bool FakeMachine::Execute(size_t thread, FakeTransition* transition) {
  *transition = FakeTransition{.thread = thread, .before = threads[thread].registers};
  RegisterFile r = threads[thread].registers;
  size_t left = 0;
  const char* at = At(r.rip, &left);
  if (at == nullptr) return false;
  const absl::string_view code(at, left);
  if (Is(code, "\x90", &r)) {
  } else if (Is(code, "\x48\xff\xc0", &r)) {
    ++r.gpr[kRax];
  } else if (Is(code, "\x48\xff\xcb", &r)) {
    r.rflags = --r.gpr[kRbx] == 0 ? r.rflags | kZeroFlag : r.rflags & ~kZeroFlag;
  } else if (Is(code, "\x48\x83\xc7\x08", &r)) {
    r.gpr[kRdi] += 8;
  } else if (Is(code, "\xb8", &r)) {
    r.gpr[kRax] = Immediate(code);
    r.rip += 4;
  } else if (Is(code, "\x48\x89\x07", &r)) {
    Access(r.gpr[kRdi], true, r.gpr[kRax], transition);
  } else if (Is(code, "\x48\x8b\x0e", &r)) {
    r.gpr[kRcx] = Access(r.gpr[kRsi], false, 0, transition);
  } else if (Is(code, "\xeb", &r)) {
    r.rip += 1 + static_cast<int8_t>(code[1]);
  } else if (Is(code, "\x75", &r)) {
    r.rip += 1 + ((r.rflags & kZeroFlag) == 0 ? static_cast<int8_t>(code[1]) : 0);
  } else if (Is(code, "\xe8", &r)) {
    r.rip += 4;
    r.gpr[kRsp] -= 8;
    Access(r.gpr[kRsp], true, r.rip, transition);
    r.rip += static_cast<int32_t>(Immediate(code));
  } else if (Is(code, "\xc3", &r)) {
    r.rip = Access(r.gpr[kRsp], false, 0, transition);
    r.gpr[kRsp] += 8;
  } else if (Is(code, "\x0f\x05", &r)) {
    Syscall(&r, transition);
  } else if (Is(code, "\x0f\x0b", &r)) {
    transition->signal = SIGILL;
  } else if (thread != 0 && absl::StartsWith(code, "\xf4")) {
    transition->ends = true;
    threads[thread].alive = false;
  } else {
    return false;
  }
  threads[thread].registers = r;
  transition->after = r;
  return true;
}

void FakeMachine::Redo(const FakeTransition& transition) {
  size_t size = 0;
  if (transition.write) std::memcpy(At(transition.address, &size), &transition.new_value, 8);
  threads[transition.thread].registers = transition.after;
  if (transition.starts) threads[*transition.starts].alive = true;
  if (transition.ends) threads[transition.thread].alive = false;
}

void FakeMachine::Undo(const FakeTransition& transition) {
  size_t size = 0;
  if (transition.write) std::memcpy(At(transition.address, &size), &transition.old_value, 8);
  threads[transition.thread].registers = transition.before;
  if (transition.starts) threads[*transition.starts].alive = false;
  if (transition.ends) threads[transition.thread].alive = true;
}

}  // namespace hindsight
