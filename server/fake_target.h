// A recorded process for tests: a little machine with a dozen amd64 instructions, whose whole run
// is computed in advance, so that it moves both ways.
//
// Owns everything. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_FAKE_TARGET_H_
#define HINDSIGHT_SERVER_FAKE_TARGET_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/registers.h"
#include "server/target.h"

namespace hindsight {

class FakeTarget final : public Target {
 public:
  static constexpr uint64_t kCode = 0x401000;
  static constexpr uint64_t kData = 0x404000;
  static constexpr uint64_t kStack = 0x7fff0000;
  static constexpr uint64_t kRegionBytes = 0x1000;
  static constexpr ThreadRef kThread{.pid = 0x1234, .tid = 0x1234};

  // Runs `code` from kCode, with rdi and rsi at kData and rsp in the middle of the stack, to its
  // hlt. It may consist of: nop, inc rax, dec rbx, add rdi 8, mov [rdi] rax, mov rcx [rsi], jmp,
  // jne, call, ret, syscall (sets rax to 0), ud2 (raises SIGILL and goes on), hlt (the end).
  explicit FakeTarget(absl::string_view code, uint64_t rbx = 0);

  size_t position() const { return position_; }
  size_t last_position() const { return transitions_.size(); }
  uint64_t pc() { return Present().registers.rip; }

  // Knobs of the fake.
  bool refuse_writes = false;
  bool endless = false;       // runs, not steps, end only by the interrupt
  absl::Status resume_error;  // what Resume answers, unless OK
  std::map<std::string, std::string> files;
  std::string console;  // what TakeConsoleText answers next

  // Target.
  std::vector<ThreadRef> threads() override { return {kThread}; }
  ThreadRef current_thread() override { return kThread; }
  absl::Status SelectThread(ThreadRef) override { return absl::OkStatus(); }
  std::string ThreadName(ThreadRef) override { return "fake<&>"; }
  absl::StatusOr<std::string> ReadRegister(ThreadRef thread, int number) override;
  absl::StatusOr<size_t> ReadMemory(ThreadRef thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  std::vector<MemoryRegion> Regions() override;
  absl::StatusOr<std::string> Auxv() override { return std::string("auxv*}#$\0end", 12); }
  absl::StatusOr<std::string> SigInfo(ThreadRef) override;
  std::string ExecutablePath() override { return executable; }
  absl::StatusOr<std::vector<Library>> Libraries(uint64_t* main_link_map) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> FileContents(const std::string& path) override;
  absl::StatusOr<uint64_t> TlsAddress(ThreadRef, uint64_t offset, uint64_t link_map) override;
  absl::StatusOr<StopEvent> Resume(const ResumeRequest& request) override;
  StopEvent LastStop() override { return last_stop_; }
  bool InDiversion() override { return diversion_ != nullptr; }
  absl::Status WriteRegister(ThreadRef, int number, absl::Span<const uint8_t> bytes) override;
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) override;
  void EndDiversion() override {
    diversion_.reset();
    suspended_.reset();
  }
  void SuspendDiversion() override { suspended_ = std::move(diversion_); }
  bool ResumeDiversion() override {
    diversion_ = std::move(suspended_);
    return diversion_ != nullptr;
  }
  absl::StatusOr<std::string> Monitor(const std::string& command, bool* moved) override;
  std::string TakeConsoleText() override { return std::exchange(console, {}); }
  absl::Status GoTo(const std::string& where) override;

  std::string executable = "/bin/fake";

 private:
  struct Machine {
    RegisterFile registers;
    std::map<uint64_t, std::string> memory;  // by the start of the region

    // The bytes at `address` up to the end of its region; nullptr if there are none.
    char* At(uint64_t address, size_t* size_bytes);
  };

  // From one position to the next.
  struct Transition {
    RegisterFile before;
    int signal = 0;        // raised here
    int64_t syscall = -1;  // made here
    uint64_t address = 0;  // of the eight bytes accessed; 0: none
    bool write = false;
    uint64_t old_value = 0, new_value = 0;
  };

  Machine& Present() { return diversion_ != nullptr ? *diversion_ : machine_; }
  // Executes one instruction. False at hlt and what is none.
  static bool Execute(Machine* machine, Transition* transition);
  void Forward();
  void Backward();
  void SetPosition(size_t position);
  bool AtBreakpoint(const ResumeRequest& request);
  bool Watched(const ResumeRequest& request, const Transition& transition, StopEvent* event);
  bool AtSignal(const ResumeRequest& request, StopEvent* event) const;
  bool AtSyscall(const ResumeRequest& request, StopEvent* event) const;
  StopEvent RunForward(const ResumeRequest& request);
  StopEvent RunBackward(const ResumeRequest& request);
  StopEvent RunDiversion(const ResumeRequest& request);

  Machine machine_;
  std::vector<Transition> transitions_;
  RegisterFile final_registers_;
  size_t position_ = 0;
  StopEvent last_stop_{.kind = StopKind::kBegin, .thread = kThread};
  std::unique_ptr<Machine> diversion_;
  std::unique_ptr<Machine> suspended_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_FAKE_TARGET_H_
