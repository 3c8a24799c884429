// A little machine with a dozen amd64 instructions and several threads, for FakeTarget.
//
// A value: copies are independent. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_FAKE_MACHINE_H_
#define HINDSIGHT_SERVER_TARGET_FAKE_MACHINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "isa/registers.h"

namespace hindsight {

// What one step of a thread does to the machine: enough to do it again and to undo it.
struct FakeTransition {
  size_t thread = 0;
  RegisterFile before, after;
  int signal = 0;        // raised here
  int64_t syscall = -1;  // made here
  uint64_t address = 0;  // of the eight bytes accessed; 0: none
  bool write = false;
  uint64_t old_value = 0, new_value = 0;
  std::optional<size_t> starts;  // the thread made here
  bool ends = false;             // the thread is gone after it
};

struct FakeMachine {
  struct Thread {
    RegisterFile registers;
    bool alive = false;
  };

  std::map<uint64_t, std::string> memory;
  std::vector<Thread> threads;  // the first is alive from the start

  // The byte at `address`, and how many follow it up to the end of the region; nullptr if none.
  char* At(uint64_t address, size_t* size_bytes);

  // Executes one instruction of `thread`. False, and nothing done, at the hlt of the first thread
  // and at what is no instruction. It may be: nop, inc rax, dec rbx, add rdi 8, mov eax imm,
  // mov [rdi] rax, mov rcx [rsi], jmp, jne, call, ret, syscall (sets rax to 0; clone makes the next
  // thread that is not alive), ud2 (raises SIGILL and goes on), hlt (ends other threads).
  bool Execute(size_t thread, FakeTransition* transition);

  // Does again what Execute did, and undoes it.
  void Redo(const FakeTransition& transition);
  void Undo(const FakeTransition& transition);

 private:
  uint64_t Access(uint64_t address, bool write, uint64_t value, FakeTransition* transition);
  void Syscall(RegisterFile* registers, FakeTransition* transition);
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_FAKE_MACHINE_H_
