// A recorded process for tests: a little machine (fake_machine.h) whose whole run is computed in
// advance, so that it moves both ways.
//
// Its size is that of the Target interface, and of the kinds of stops: it is a simulator of all of
// them. Owns everything. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_FAKE_TARGET_H_
#define HINDSIGHT_SERVER_TARGET_FAKE_TARGET_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/target/fake_machine.h"
#include "server/target/target.h"

namespace hindsight {

// What the fake runs besides its code.
struct FakeOptions {
  uint64_t rbx = 0;  // of all threads
  // Where further threads begin, in the order in which clone makes them.
  std::vector<uint64_t> entries;
  size_t turn = 4;          // instructions of one thread before the next runs
  bool fork_calls = false;  // fork and vfork (system calls) make children
  RegisterSet registers = RegisterSet::kSse;
};

class FakeTarget final : public Target {
 public:
  static constexpr uint64_t kCode = 0x401000;
  static constexpr uint64_t kData = 0x404000;
  static constexpr uint64_t kStack = 0x7fff0000;  // of all threads, 256 bytes each
  static constexpr uint64_t kRegionBytes = 0x1000;
  static constexpr ThreadRef kThread{.pid = 0x1234, .tid = 0x1234};
  static constexpr ThreadRef kChild{.pid = 0x2000, .tid = 0x2000};

  // Code in which a thread begins another; each counts rax up, rbx times, and stores it.
  // 401000 mov eax,56; syscall     clone: begins the second thread, at 401013
  // 401007 inc rax
  // 40100a mov [rdi],rax
  // 40100d dec rbx
  // 401010 jne 401007
  // 401012 hlt
  // 401013 inc rax
  // 401016 mov [rdi],rax
  // 401019 dec rbx
  // 40101c jne 401013
  // 40101e hlt
  static constexpr absl::string_view kTwoThreads{
      "\xb8\x38\x00\x00\x00\x0f\x05"
      "\x48\xff\xc0\x48\x89\x07\x48\xff\xcb\x75\xf5\xf4"
      "\x48\xff\xc0\x48\x89\x07\x48\xff\xcb\x75\xf5\xf4",
      31};

  // Runs `code` from kCode, with rdi and rsi at kData and rsp in the middle of the stack, until its
  // first thread is at its hlt and the others are gone. See fake_machine.h for what it may be.
  // Threads have the tids after kThread's.
  FakeTarget(absl::string_view code, FakeOptions options);
  explicit FakeTarget(absl::string_view code, uint64_t rbx = 0)
      : FakeTarget(code, FakeOptions{.rbx = rbx}) {}

  size_t position() const { return position_; }
  uint64_t pc(size_t thread = 0) { return Present().threads[thread].registers.rip; }

  // Knobs of the fake.
  bool refuse_writes = false;
  bool endless = false;       // runs, not steps, end only by the interrupt
  absl::Status resume_error;  // what Resume answers, unless OK
  std::map<std::string, std::string> files;
  std::string console;  // what TakeConsoleText answers next

  // Target.
  std::vector<ThreadRef> threads() override;
  ThreadRef current_thread() override { return Ref(current_); }
  std::string ThreadName(ThreadRef) override { return "fake<&>"; }
  std::optional<int> ThreadProcessor(ThreadRef thread) override;
  RegisterSet register_set() override { return options_.registers; }
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
  absl::StatusOr<RunStop> Resume(RunRequest request) override;
  RunStop LastStop() override { return last_stop_; }
  bool InDiversion() override { return diversion_ != nullptr; }
  absl::Status WriteRegister(ThreadRef, int number, absl::Span<const uint8_t> bytes) override;
  absl::Status WriteMemory(ThreadRef, uint64_t address, absl::Span<const uint8_t> bytes) override;
  void EndDiversion() override {
    diversion_.reset();
    suspended_.reset();
  }
  void SuspendDiversion() override { suspended_ = std::move(diversion_); }
  bool ResumeDiversion() override {
    diversion_ = std::move(suspended_);
    return diversion_ != nullptr;
  }
  absl::StatusOr<std::string> Monitor(const std::string& command, ThreadRef selected,
                                      const std::atomic<bool>* interrupt, bool* moved) override;
  std::string TakeConsoleText() override { return std::exchange(console, {}); }
  absl::Status GoTo(const std::string& where, const std::atomic<bool>* interrupt) override;

  std::string executable = "/bin/fake";

 private:
  static ThreadRef Ref(size_t thread) {
    return {kThread.pid, kThread.tid + static_cast<int32_t>(thread)};
  }
  static int32_t Tid(size_t thread) { return Ref(thread).tid; }
  static std::optional<size_t> Index(ThreadRef thread);
  static std::optional<size_t> Index(int32_t tid) { return Index(ThreadRef{kThread.pid, tid}); }

  FakeMachine& Present() { return diversion_ != nullptr ? *diversion_ : machine_; }
  // Computes transitions_.
  void RunAll(FakeMachine machine);
  void Forward() { machine_.Redo(transitions_[position_++]); }
  void Backward() { machine_.Undo(transitions_[--position_]); }
  void SetPosition(size_t position);
  // The thread that makes the next transition; the last one at the end.
  size_t Next() const;

  // What stops in the state that the transition led to, or came from. False: nothing.
  bool Stopped(const RunRequest& request, size_t transition, RunStop* event);
  bool AtBreakpoint(const RunRequest& request, size_t thread);
  bool Watched(const RunRequest& request, const FakeTransition& transition, RunStop* event);
  bool AtSignal(const RunRequest& request, RunStop* event) const;
  bool AtSyscall(const RunRequest& request, RunStop* event) const;
  bool Forked(const RunRequest& request, const FakeTransition& transition, RunStop* event) const;
  bool AtThreadEvent(const RunRequest& request, const FakeTransition& transition,
                     RunStop* event) const;
  RunStop RunForward(const RunRequest& request);
  RunStop RunBackward(const RunRequest& request);
  RunStop RunDiversion(const RunRequest& request);
  absl::Status Divert();

  FakeOptions options_;
  FakeMachine machine_;
  std::vector<FakeTransition> transitions_;
  size_t position_ = 0;
  size_t current_ = 0;
  RunStop last_stop_{.kind = StopKind::kBegin, .thread = kThread.tid};
  std::unique_ptr<FakeMachine> diversion_;
  std::unique_ptr<FakeMachine> suspended_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_FAKE_TARGET_H_
