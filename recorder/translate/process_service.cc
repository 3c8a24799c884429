#include "recorder/translate/process_service.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "recorder/process/process_facts.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/injection.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// How many blocks one request translates: what can be reached from it will be asked for next.
constexpr size_t kBlocksAhead = 16;

// A service that has just answered is likely to be asked again; sleeping and waking takes longer.
constexpr std::chrono::microseconds kSpinTime(50);
// Until it is looked again whether the process is still there.
constexpr timespec kSleepTime = {0, 20'000'000};
// The same while a program is being executed, which nobody else tells of.
constexpr timespec kShortSleepTime = {0, 50'000};

// Of code for one block, at most: a bound for the room that is needed before its size is known.
constexpr uint64_t kLargestBlock = 64 * 1024;

long Futex(uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// The asking thread takes all pages in between into its view.
constexpr uint64_t kFar = 64 * 1024;
bool IsFarFrom(uint64_t guest_pc, uint64_t pc) { return pc - guest_pc + kFar > 2 * kFar; }

// What follows the block's last instruction is executed as well, sooner or later.
bool EndsInCall(absl::Span<const uint8_t> code) {
  const size_t n = code.size();
  return (n >= 5 && code[n - 5] == 0xe8) ||
         (n >= 2 && code[n - 2] == 0x0f && (code[n - 1] == 0x05 || code[n - 1] == 0xa2)) ||
         (n >= 2 && code[n - 2] == 0xff && (code[n - 1] & 0xf8) == 0xd0) ||
         (n >= 6 && code[n - 6] == 0xff && code[n - 5] == 0x15);
}

}  // namespace

ProcessService::ProcessService(pid_t process, MemoryFile file, const TranslationOptions& options,
                               OnChild on_child)
    : process_(process),
      options_(options),
      on_child_(std::move(on_child)),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))),
      file_(std::move(file)),
      cache_(&file_, kArenaBytes),
      source_(process, [this](uint64_t start, uint64_t end) { PublishRange(start, end); }),
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

bool ProcessService::HasWork() {
  const uint32_t* doorbell = &file_.control()->doorbell;
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (__atomic_load_n(doorbell, __ATOMIC_ACQUIRE) != seen_doorbell_) return true;
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
  counts_.blocks = cache_.block_count();
  counts_.code_bytes = cache_.code_bytes();
}

void ProcessService::Answer(RequestSlot* slot) {
  std::memset(slot->results, 0, sizeof(slot->results));
  const uint64_t* arguments = slot->arguments;
  switch (slot->kind) {
    case RequestKind::kTranslate:
      slot->results[0] = Translate(arguments[0]);
      slot->results[1] = pages_.start;
      slot->results[2] = pages_.end;
      break;
    case RequestKind::kInvalidate:
      Invalidate(arguments[0], arguments[1]);
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

uint64_t ProcessService::Translate(uint64_t guest_pc) {
  FlushAtRandom();
  pages_ = {};
  if (const uint64_t host = cache_.Find(guest_pc)) return host;
  source_.ForgetWritable();
  pages_ = {PageOf(guest_pc), PageOf(guest_pc) + kPageBytes};
  std::deque<uint64_t> wanted = {guest_pc};
  for (size_t done = 0; done < kBlocksAhead && !wanted.empty();) {
    const uint64_t pc = wanted.front();
    wanted.pop_front();
    if (cache_.Find(pc) != 0 || IsFarFrom(guest_pc, pc)) continue;
    std::vector<uint64_t> reachable;
    if (TranslateOne(pc, &reachable)) ++done;
    wanted.insert(wanted.end(), reachable.begin(), reachable.end());
  }
  return cache_.Find(guest_pc);
}

bool ProcessService::TranslateOne(uint64_t guest_pc, std::vector<uint64_t>* reachable) {
  const absl::Span<const uint8_t> bytes = source_.At(guest_pc);
  if (bytes.empty() || !cache_.HasRoom(guest_pc, kLargestBlock)) return false;
  auto block = hindsight::Translate({
      .guest_pc = guest_pc,
      .bytes = bytes,
      .host_address = cache_.PlaceFor(guest_pc),
      .flavour = options_.flavour,
      .stubs = cache_.StubsFor(guest_pc),
      .max_instructions = options_.block_instructions,
      .code_at = [this](uint64_t pc) { return source_.At(pc); },
  });
  if (!block.ok()) return false;
  pages_.start = std::min(pages_.start, PageOf(guest_pc));
  pages_.end = std::max(pages_.end, PageOf(guest_pc + block->guest_bytes - 1) + kPageBytes);
  for (const Link& link : block->links) reachable->push_back(link.guest_target);
  if (EndsInCall(bytes.first(block->guest_bytes))) {
    reachable->push_back(guest_pc + block->guest_bytes);
  }
  cache_.Add(guest_pc, *std::move(block));
  return true;
}

void ProcessService::Invalidate(uint64_t start, uint64_t end) {
  source_.Forget(start, end);
  if (cache_.Invalidate(start, end)) {
    __atomic_fetch_add(&file_.control()->epoch, 1, __ATOMIC_SEQ_CST);
  }
}

void ProcessService::FlushAtRandom() {
  if (options_.flush_every == 0 || random_() % options_.flush_every != 0) return;
  cache_.Invalidate(0, ~uint64_t{0} - 4096);
  __atomic_fetch_add(&file_.control()->epoch, 1, __ATOMIC_SEQ_CST);
}

void ProcessService::Recover(RequestSlot* slot) const {
  const auto place = cache_.Recover(slot->arguments[0]);
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

bool ProcessService::Fork(pid_t child, int fd) {
  auto file = MemoryFile::Open(child, fd);
  if (!file.ok()) return false;
  ControlBlock* control = file->control();
  const ControlBlock* own = file_.control();
  control->boot_state = static_cast<uint32_t>(BootState::kRunning);
  control->epoch = own->epoch;
  auto service = std::make_unique<ProcessService>(child, *std::move(file), options_, on_child_);
  control = service->file_.control();
  control->executed_range_count = own->executed_range_count;
  std::memcpy(control->executed_ranges, own->executed_ranges, sizeof(own->executed_ranges));
  cache_.CopyTo(&service->cache_);
  on_child_(std::move(service));
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
  on_child_(std::make_unique<ProcessService>(process, *std::move(file), options_, on_child_));
}

void ProcessService::PublishRange(uint64_t start, uint64_t end) {
  ControlBlock* control = file_.control();
  for (uint32_t i = 0; i < control->executed_range_count && i < kMaxExecutedRanges; ++i) {
    if (control->executed_ranges[i].start <= start && end <= control->executed_ranges[i].end)
      return;
  }
  const uint32_t count = control->executed_range_count;
  if (count >= kMaxExecutedRanges) return;  // the agent takes it that not all are told
  control->executed_ranges[count] = {start, end};
  __atomic_store_n(&control->executed_range_count, count + 1, __ATOMIC_RELEASE);
}

}  // namespace hindsight
