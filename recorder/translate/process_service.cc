#include "recorder/translate/process_service.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "recorder/process/process_facts.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/injection.h"

namespace hindsight {
namespace {

// A service that has just answered is likely to be asked again; sleeping and waking takes longer.
constexpr std::chrono::microseconds kSpinTime(50);
// Until it is looked again whether the process is still there.
constexpr timespec kSleepTime = {0, 20'000'000};
// The same while a program is being executed, which nobody else tells of.
constexpr timespec kShortSleepTime = {0, 50'000};

long Futex(uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// Children share it.
TranslationOptions WithMemo(TranslationOptions options) {
  if (options.memo == nullptr) options.memo = std::make_shared<TranslationMemo>();
  return options;
}

}  // namespace

ProcessService::ProcessService(pid_t process, MemoryFile file, const TranslationOptions& options,
                               OnChild on_child)
    : process_(process),
      options_(WithMemo(options)),
      on_child_(std::move(on_child)),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))),
      file_(std::move(file)),
      code_(process, options_, &file_),
      random_(options.seed) {
  file_.control()->recorder_process = getpid();
}

void ProcessService::Run() {
  while (true) {
    if (HasWork()) {
      AnswerAll();
      continue;
    }
    if (exec_ != nullptr) PollExec();
    if (stop_ || HasEnded()) return;
    Sleep();
  }
}

void ProcessService::RequestStop() {
  stop_ = true;
  Futex(&file_.control()->doorbell, FUTEX_WAKE, INT_MAX, nullptr);
}

bool ProcessService::HasEnded() const {
  pollfd poll_entry = {.fd = pidfd_.get(), .events = POLLIN};
  return !pidfd_.valid() || poll(&poll_entry, 1, 0) > 0;
}

bool ProcessService::IsAsked() const {
  return __atomic_load_n(&file_.control()->doorbell, __ATOMIC_ACQUIRE) != seen_doorbell_;
}

bool ProcessService::HasWork() {
  while (!IsAsked() && code_.TranslateAhead()) {
  }
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (IsAsked()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

void ProcessService::Sleep() {
  ControlBlock* control = file_.control();
  __atomic_store_n(&control->service_sleeps, 1, __ATOMIC_SEQ_CST);
  Futex(&control->doorbell, FUTEX_WAIT, seen_doorbell_,
        exec_ == nullptr ? &kSleepTime : &kShortSleepTime);
  __atomic_store_n(&control->service_sleeps, 0, __ATOMIC_SEQ_CST);
}

void ProcessService::AnswerAll() {
  ControlBlock* control = file_.control();
  seen_doorbell_ = __atomic_load_n(&control->doorbell, __ATOMIC_ACQUIRE);
  for (RequestSlot& slot : control->slots) {
    const SlotState state = __atomic_load_n(&slot.state, __ATOMIC_ACQUIRE);
    if (state != SlotState::kPosted && state != SlotState::kAwaited) continue;
    ++counts_.requests;
    Answer(&slot);
    if (__atomic_exchange_n(&slot.state, SlotState::kAnswered, __ATOMIC_SEQ_CST) ==
        SlotState::kAwaited) {
      Futex(reinterpret_cast<uint32_t*>(&slot.state), FUTEX_WAKE, 1, nullptr);
    }
  }
  counts_.blocks = code_.block_count();
  counts_.code_bytes = code_.code_bytes();
}

void ProcessService::Answer(RequestSlot* slot) {
  std::memset(slot->results, 0, sizeof(slot->results));
  const uint64_t* arguments = slot->arguments;
  switch (slot->kind) {
    case RequestKind::kTranslate:
      Translate(slot);
      break;
    case RequestKind::kTranslateOne:
      slot->results[0] = code_.TranslateOne(arguments[0]);
      break;
    case RequestKind::kInvalidate:
      code_.Invalidate(arguments[0], arguments[1]);
      break;
    case RequestKind::kRecover:
      Recover(slot);
      break;
    case RequestKind::kCpuid:
      AnswerCpuidFor(slot);
      break;
    case RequestKind::kFork:
      slot->results[0] = Fork(static_cast<pid_t>(arguments[0]), static_cast<int>(arguments[1]));
      break;
    case RequestKind::kExec:
      slot->results[0] = HoldForExec(slot->thread_id, arguments[1] != 0);
      break;
    case RequestKind::kExit:
      counts_.instructions += arguments[0];
      break;
    default:
      break;
  }
}

void ProcessService::Translate(RequestSlot* slot) {
  if (options_.flush_every != 0 && random_() % options_.flush_every == 0) code_.InvalidateAll();
  slot->results[0] = code_.Translate(slot->arguments[0]);
  slot->results[1] = code_.made().start;
  slot->results[2] = code_.made().end;
}

void ProcessService::Recover(RequestSlot* slot) const {
  const auto place = code_.Recover(slot->arguments[0]);
  if (!place.has_value()) return;
  slot->results[0] = 1;
  slot->results[1] = place->guest_pc;
  slot->results[2] = static_cast<uint64_t>(place->adjust);
  std::memcpy(&slot->results[3], place->saved.data(), place->saved.size());
}

void ProcessService::AnswerCpuidFor(RequestSlot* slot) const {
  const CpuidResult result = AnswerCpuid(options_.cpu, static_cast<uint32_t>(slot->arguments[0]),
                                         static_cast<uint32_t>(slot->arguments[1]));
  const uint64_t words[] = {result.eax, result.ebx, result.ecx, result.edx};
  std::memcpy(slot->results, words, sizeof(words));
}

TranslationOptions ProcessService::OptionsOfOthers() const {
  TranslationOptions options = options_;
  options.executed_pages = nullptr;
  return options;
}

bool ProcessService::Fork(pid_t child, int fd) {
  auto file = MemoryFile::Open(child, fd);
  if (!file.ok()) return false;
  // Its code is that of the parent, and comes from the memo. Its thread, which is in the agent,
  // drops what it knows of the parent's.
  file->control()->boot_state = static_cast<uint32_t>(BootState::kRunning);
  file->control()->epoch = file_.control()->epoch + 1;
  on_child_(
      std::make_unique<ProcessService>(child, *std::move(file), OptionsOfOthers(), on_child_));
  return true;
}

// One at a time: of several threads of a process that execute programs only one gets that far.
bool ProcessService::HoldForExec(pid_t thread, bool release) {
  if (release) {
    if (exec_ != nullptr && exec_->thread() == thread) exec_ = nullptr;
    return true;
  }
  if (exec_ != nullptr) return false;
  exec_ = ExecHold::Take(ProcessOf(thread), thread);
  return exec_ != nullptr;
}

void ProcessService::PollExec() {
  const pid_t process = exec_->process();
  switch (exec_->Poll()) {
    case ExecHold::State::kNotYet:
      return;
    case ExecHold::State::kAtStart:
      exec_->Release();
      StartNewProgram(process);
      // Not if it was a child that had this memory for a while (vfork).
      if (process == process_) stop_ = true;
      break;
    case ExecHold::State::kGone:
      exec_->Release();
      break;
  }
  exec_ = nullptr;
}

// A program that the agent cannot be in runs without it.
void ProcessService::StartNewProgram(pid_t process) {
  const std::unique_ptr<Tracee> tracee = Tracee::Adopt(process, process);
  auto file = Inject({}, tracee.get());
  if (!file.ok()) {
    Detach(process);
    return;
  }
  on_child_(
      std::make_unique<ProcessService>(process, *std::move(file), OptionsOfOthers(), on_child_));
}

}  // namespace hindsight
