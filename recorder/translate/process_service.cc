#include "recorder/translate/process_service.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "isa/cpuid.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/pid_namespace.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/guard/store_watch.h"
#include "recorder/translate/injection.h"

namespace hindsight {
namespace {

static_assert(sizeof(pthread_mutex_t) == sizeof(Lifeline));

// Held as long as there is one who answers.
class HeldLifeline {
 public:
  explicit HeldLifeline(Lifeline* lifeline) : mutex_(reinterpret_cast<pthread_mutex_t*>(lifeline)) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(mutex_);
  }
  HeldLifeline(const HeldLifeline&) = delete;
  HeldLifeline& operator=(const HeldLifeline&) = delete;
  ~HeldLifeline() { pthread_mutex_unlock(mutex_); }

 private:
  pthread_mutex_t* const mutex_;
};

// A service that has just answered is likely to be asked again; sleeping and waking takes longer.
constexpr std::chrono::microseconds kSpinTime(30);
// Until it is looked again whether the process is still there, or whether it has executed a
// program: nobody else tells of that. Longer each time that nothing has happened: where there are a
// thousand processes, those who look are many.
struct SleepTime {
  long first_ns, longest_ns;
  uint32_t constant;  // so often the first one
};
constexpr SleepTime kSleep = {20'000'000, 160'000'000, 4};
constexpr SleepTime kExecSleep = {50'000, 5'000'000, 20};

timespec SleepTimeAfter(uint32_t sleeps, const SleepTime& time) {
  constexpr uint32_t kMostDoublings = 10;
  const uint32_t more = sleeps < time.constant ? 0 : sleeps - time.constant + 1;
  const long ns = time.first_ns << std::min(more, kMostDoublings);
  return {0, std::min(ns, time.longest_ns)};
}

long Futex(uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// Whoever executes cpuid anew may wait for its hypervisor, some 10 us each time.
std::vector<CpuidEntry> CpuidTable(CpuModel model) {
  struct Leaf {
    uint32_t number, subleaves;  // 0: it has none
  };
  // What the C library and its loader ask for.
  constexpr Leaf kLeaves[] = {{0, 0},          {1, 0},          {2, 0},          {4, 5},
                              {7, 2},          {0x80000000, 0}, {0x80000001, 0}, {0x80000005, 0},
                              {0x80000006, 0}, {0x80000007, 0}, {0x80000008, 0}, {0x8000001d, 5}};
  std::vector<CpuidEntry> table;
  for (const Leaf& leaf : kLeaves) {
    for (uint32_t i = 0; i < std::max<uint32_t>(leaf.subleaves, 1); ++i) {
      const CpuidResult result = AnswerCpuid(model, leaf.number, i);
      table.push_back({leaf.number, leaf.subleaves == 0 ? kAnySubleaf : i, result.eax, result.ebx,
                       result.ecx, result.edx});
    }
  }
  CHECK(table.size() <= kMaxCpuidEntries);
  return table;
}

const std::vector<CpuidEntry>& KnownCpuidTable(CpuModel model) {
  if (model == CpuModel::kHost) {
    static const auto* const host = new std::vector<CpuidEntry>(CpuidTable(model));
    return *host;
  }
  static const auto* const portable = new std::vector<CpuidEntry>(CpuidTable(model));
  return *portable;
}

void TellCpuid(CpuModel model, ControlBlock* control) {
  const std::vector<CpuidEntry>& table = KnownCpuidTable(model);
  std::copy(table.begin(), table.end(), control->cpuid);
  __atomic_store_n(&control->cpuid_count, static_cast<uint32_t>(table.size()), __ATOMIC_RELEASE);
}

// Children share it.
TranslationOptions WithShared(TranslationOptions options) {
  if (options.guards == nullptr) options.guards = std::make_shared<CodeGuards>();
  if (options.code_files == nullptr) options.code_files = std::make_shared<CodeFiles>();
  if (options.page_pool == nullptr) options.page_pool = std::make_shared<ExecutedPagePool>();
  if (options.memo == nullptr) options.memo = std::make_shared<TranslationMemo>();
  return options;
}

}  // namespace

ProcessService::ProcessService(pid_t process, MemoryFile file, const TranslationOptions& options,
                               OnChild on_child)
    : process_(process),
      options_(WithShared(options)),
      on_child_(std::move(on_child)),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))),
      file_(std::make_shared<MemoryFile>(std::move(file))),
      code_(process, options_, file_.get()),
      asked_(std::make_shared<AskedCode>()),
      random_(options.seed) {
  TellCpuid(options_.cpu, file_->control());
}

void ProcessService::ShareMemoryIfUsual() {
  const auto map = MemoryMap::OfProcess(absl::StrCat("/proc/", process_, "/maps"));
  std::error_code error;
  const std::string program =
      std::filesystem::read_symlink(absl::StrCat("/proc/", process_, "/exe"), error).string();
  for (const MapRegion& region : map.regions()) {
    if ((region.protection & PROT_EXEC) == 0 || region.name != program) continue;
    if (options_.memo->SharesUsually(region)) code_.ShareMemory();
    return;
  }
}

void ProcessService::Run() {
  const HeldLifeline lifeline(&file_->control()->lifeline);
  while (true) {
    if (HasWork()) {
      AnswerAll();
      continue;
    }
    PollExecs();
    if (stop_ || ((left_ || HasEnded()) && !HasChildrenToCome())) return;
    Sleep();
  }
}

void ProcessService::RequestStop() {
  stop_ = true;
  Futex(&file_->control()->doorbell, FUTEX_WAKE, INT_MAX, nullptr);
}

bool ProcessService::HasEnded() const {
  pollfd poll_entry = {.fd = pidfd_.get(), .events = POLLIN};
  return !pidfd_.valid() || poll(&poll_entry, 1, 0) > 0;
}

// Which nobody else would answer.
bool ProcessService::HasChildrenToCome() const {
  return __atomic_load_n(&file_->control()->unborn, __ATOMIC_ACQUIRE) != 0;
}

bool ProcessService::IsAsked() const {
  return __atomic_load_n(&file_->control()->doorbell, __ATOMIC_ACQUIRE) != seen_doorbell_;
}

bool ProcessService::HasWork() {
  while (!IsAsked() && !stop_ && code_.GuardSettledPage()) {
  }
  // Who executes a program has to be looked at, and is done with this one.
  while (!IsAsked() && execs_.empty() && !stop_ && code_.TranslateAhead()) {
  }
  // After a pause in vain there is no reason to expect a request just now.
  if (!std::exchange(has_answered_, false)) return IsAsked();
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (IsAsked()) return true;
      __builtin_ia32_pause();
    }
    sched_yield();  // who has been answered may be waiting for this processor
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// Of those that were killed while they had one. A process that is ending has no memory any more.
// What they are known by is their numbers in their own namespaces.
void ProcessService::FreeSlotsOfTheDead() {
  constexpr uint32_t kNobody = ~uint32_t{0};
  ControlBlock* control = file_->control();
  if (__atomic_exchange_n(&control->strangers_wait, 0, __ATOMIC_SEQ_CST) == 0) return;
  for (uint32_t i = kFirstStranger; i < kSlotCount; ++i) {
    RequestSlot& slot = control->slots[i];
    uint32_t taker = __atomic_load_n(&slot.taken, __ATOMIC_ACQUIRE);
    if (taker == 0) continue;
    const auto number = static_cast<pid_t>(taker);
    const auto lives = [=](pid_t process) {
      return HasOwnNumber(process, number) && HasMemory(process);
    };
    if (FindProcess(number, process_, lives) != 0) continue;
    // Unless it has given it back before it ended: it may be another's by now.
    if (__atomic_compare_exchange_n(&slot.taken, &taker, kNobody, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      __atomic_store_n(&slot.state, SlotState::kIdle, __ATOMIC_RELAXED);
      __atomic_store_n(&slot.taken, 0, __ATOMIC_RELEASE);
    }
  }
}

void ProcessService::Sleep() {
  FreeSlotsOfTheDead();
  ControlBlock* control = file_->control();
  __atomic_store_n(&control->service_sleeps, 1, __ATOMIC_SEQ_CST);
  timespec time = SleepTimeAfter(sleeps_++, execs_.empty() ? kSleep : kExecSleep);
  if (const auto left = code_.UntilSettledPage()) {
    constexpr long kLeastSleep = 10'000'000;
    const long ns = std::chrono::nanoseconds(*left).count();
    time.tv_nsec = std::min(time.tv_nsec, std::max(ns, kLeastSleep));
  }
  Futex(&control->doorbell, FUTEX_WAIT, seen_doorbell_, &time);
  __atomic_store_n(&control->service_sleeps, 0, __ATOMIC_SEQ_CST);
}

void ProcessService::AnswerAll() {
  ControlBlock* control = file_->control();
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
  has_answered_ = true;
  sleeps_ = 0;
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
    case RequestKind::kTranslateIndirect:
      slot->results[0] = code_.TranslateIndirectTo(arguments[0]);
      break;
    case RequestKind::kInvalidate:
      code_.Invalidate(arguments[0], arguments[1]);
      break;
    case RequestKind::kShareMemory:
      code_.ShareMemory();
      break;
    case RequestKind::kRecover:
      Recover(slot);
      break;
    case RequestKind::kCpuid:
      AnswerCpuidFor(slot);
      break;
    case RequestKind::kFork:
      Fork(slot);
      break;
    case RequestKind::kNumber:
      slot->results[0] = static_cast<uint64_t>(
          FindThread(static_cast<pid_t>(arguments[1]), static_cast<pid_t>(arguments[0])));
      break;
    case RequestKind::kExec:
      slot->results[0] = HoldForExec(slot->thread_id, arguments[1] != 0);
      break;
    case RequestKind::kGuard:
      slot->results[0] =
          code_.OpenGuard(TakeUserfaultfd(pidfd_.get(), static_cast<int>(arguments[0])));
      break;
    case RequestKind::kEndGuards:
      ExpectForeignStores();
      break;
    case RequestKind::kTraces:
      AnnounceTracing(static_cast<pid_t>(arguments[0]));
      break;
    case RequestKind::kReadMap:
      ReadMap(arguments[0], arguments[1], slot->results);
      break;
    case RequestKind::kExit:
      counts_.instructions += arguments[0];
      if (arguments[1] != 0) code_.StopAhead();
      break;
    default:
      break;
  }
}

void ProcessService::Translate(RequestSlot* slot) {
  const uint32_t flush_every = options_.trials.flush_every;
  if (flush_every != 0 && random_() % flush_every == 0) code_.InvalidateAll();
  slot->results[0] = code_.Translate(slot->arguments[0]);
  if (makers_asked_ != nullptr) makers_asked_->Add(slot->arguments[0]);
}

void ProcessService::ReadMap(uint64_t start, uint64_t end, uint64_t* results) const {
  if (options_.recording == nullptr) return;
  OpenedModules* const modules = options_.recording->modules.get();
  const auto read = file_->map_reads()->Read(process_, start, end, modules);
  results[0] = read.id;
  results[1] = read.executable ? 1 : 0;
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
  options.executed_pages =
      options.recording == nullptr ? nullptr : std::make_shared<ExecutedPages>(options.page_pool);
  return options;
}

void ProcessService::Fork(RequestSlot* slot) {
  const uint64_t* arguments = slot->arguments;
  const AskingChild child = {.own_number = static_cast<pid_t>(arguments[0]),
                             .parent = static_cast<pid_t>(static_cast<uint32_t>(arguments[5])),
                             .fd = static_cast<int>(arguments[1]),
                             .inode = arguments[6]};
  const pid_t process = child.Find();
  if (process == 0) return;
  RecordedBirth birth = {.process = process,
                         .ring = arguments[2],
                         .parent = child.parent,
                         .maker = static_cast<pid_t>(arguments[3]),
                         .maker_count = arguments[4]};
  // Its maker may have run on.
  const bool same_code = file_->control()->epoch == arguments[5] >> 32;
  slot->results[0] = child.fd == kParentsMemory ? ShareWith(std::move(birth))
                                                : Serve(std::move(birth), child.fd, same_code);
  slot->results[1] = static_cast<uint64_t>(process);
  slot->results[2] = IsInOurPidNamespace(process) ? 0 : 1;
}

// A process with memory of its own: enum ForkAnswer. `same_code`: it executes the same as this one.
uint64_t ProcessService::Serve(RecordedBirth birth, int fd, bool same_code) {
  const pid_t child = birth.process;
  auto file = MemoryFile::Open(child, fd);
  if (!file.ok()) {
    birth.kind = RecordedBirth::Kind::kNative;
    // One that was killed meanwhile has no memory, and runs nowhere.
    const bool runs = HasMemory(child);
    if (runs && options_.recording != nullptr) options_.recording->on_birth(std::move(birth));
    return kForkNative;
  }
  // Its code is that of the parent, and comes from the memo. Its thread, which is in the agent,
  // drops what it knows of the parent's.
  file->control()->boot_state = static_cast<uint32_t>(BootState::kRunning);
  file->control()->epoch = file_->control()->epoch + 1;
  const TranslationOptions options = OptionsOfOthers();
  auto service = std::make_unique<ProcessService>(child, *std::move(file), options, on_child_);
  // What the parent shares the child does; and it executes the same code.
  if (file_->control()->exclusive == 0) {
    service->code_.ShareMemory();
  } else if (same_code) {
    code_.TakeAsked(asked_->Take());
    service->code_.Inherit(&code_);
    service->makers_asked_ = asked_;
  }
  birth.file = service->file();
  birth.code = options.executed_pages;
  on_child_(std::move(service));
  if (options_.recording == nullptr) return kForkTranslated;
  options_.recording->on_birth(std::move(birth));
  return kForkRecorded;
}

uint64_t ProcessService::ShareWith(RecordedBirth birth) {
  if (options_.recording == nullptr) return kForkNative;
  birth.kind = RecordedBirth::Kind::kSharing;
  birth.file = file_;
  birth.code = options_.executed_pages;
  options_.recording->on_birth(std::move(birth));
  return kForkRecorded;
}

// Of several threads of a process that execute programs only one gets that far.
bool ProcessService::HoldForExec(pid_t thread, bool release) {
  if (release) {
    execs_.erase(std::remove_if(execs_.begin(), execs_.end(),
                                [=](const auto& exec) { return exec->thread() == thread; }),
                 execs_.end());
    return true;
  }
  const pid_t process = ProcessOf(thread);
  // The number comes from the program.
  if (process == 0) return false;
  if (process != process_ && !SharesMemory(process, process_, /*otherwise=*/true)) return false;
  for (const auto& exec : execs_) {
    if (exec->process() == process) return false;
  }
  std::unique_ptr<ExecHold> exec = ExecHold::Take(process, thread);
  if (exec == nullptr) return false;
  execs_.push_back(std::move(exec));
  return true;
}

// From processes that may store to what another one cannot write to itself.
void ProcessService::ExpectForeignStores() {
  options_.guards->EndAll();
  options_.code_files->EndAll();
}

void ProcessService::AnnounceTracing(pid_t task) {
  const pid_t traced = ProcessOf(task);
  // The number comes from the program. Nobody traces his own process.
  if (options_.recording == nullptr || traced == 0 || traced == process_) return;
  ExpectForeignStores();
  options_.recording->on_traced(traced);
}

void ProcessService::PollExecs() {
  for (auto it = execs_.begin(); it != execs_.end();) {
    it = PollExec(it->get()) ? execs_.erase(it) : it + 1;
  }
}

// True if that is over.
bool ProcessService::PollExec(ExecHold* exec) {
  const ExecHold::State state = exec->Poll();
  if (state == ExecHold::State::kNotYet) return false;
  exec->Release();
  if (state == ExecHold::State::kAtStart) {
    StartNewProgram(exec->process());
    // Not if it was a child that had this memory for a while (vfork).
    left_ |= exec->process() == process_;
  }
  return true;
}

// A program that the agent cannot be in runs without it.
void ProcessService::StartNewProgram(pid_t process) {
  const std::shared_ptr<const ServiceRecording>& recording = options_.recording;
  const std::unique_ptr<Tracee> tracee = Tracee::Adopt(process, process);
  auto file =
      Inject(recording == nullptr ? InjectionOptions() : recording->injection, tracee.get());
  if (!file.ok()) {
    // Not of one that was killed meanwhile.
    RegisterFile registers;
    tracee->ForgetRegisters();
    if (recording != nullptr && tracee->GetRegisters(/*vectors=*/false, &registers)) {
      recording->on_birth({.kind = RecordedBirth::Kind::kLost, .process = process});
    }
    DetachOrTakeEnd(process);
    return;
  }
  const TranslationOptions options = OptionsOfOthers();
  auto service = std::make_unique<ProcessService>(process, *std::move(file), options, on_child_);
  service->ShareMemoryIfUsual();
  RecordedBirth birth = {.kind = RecordedBirth::Kind::kExecuted,
                         .process = process,
                         .ring = kFirstThread,
                         .file = service->file(),
                         .code = options.executed_pages};
  on_child_(std::move(service));
  if (recording != nullptr) recording->on_birth(std::move(birth));
}

}  // namespace hindsight
