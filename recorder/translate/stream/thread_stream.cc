#include "recorder/translate/stream/thread_stream.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/syscalls/call_order.h"

namespace hindsight {
namespace {

absl::Status Malformed(const HsEntry& entry) {
  return absl::DataLossError(absl::StrCat("an entry of kind ", entry.kind, " and ", entry.size,
                                          " bytes cannot be understood"));
}

// Whether the entry has all of the fixed fields of T.
template <typename T>
const T* As(const HsEntry* entry) {
  return entry->size >= sizeof(T) ? reinterpret_cast<const T*>(entry) : nullptr;
}

// Whether `size` elements follow the fixed fields.
template <typename T>
bool HasElements(const T& entry, uint64_t size, size_t element_bytes) {
  return size <= (entry.entry.size - sizeof(T)) / element_bytes;
}

// What is kept back is lost if the recorder is killed.
constexpr size_t kLongestRun = 4096;

// More than a process has that uses memory directly.
constexpr uint64_t kLongestPageRun = uint64_t{1} << 31;

// Of an entry that ends with a state; `fixed` bytes of it are not the extended registers.
RegisterFile RegistersOf(const HsEntry& entry, const uint64_t* words, size_t fixed) {
  const bool all = entry.size >= fixed + sizeof(uint64_t[HS_EXTENDED_WORDS]);
  RegisterFile registers;
  FromWords({words, all ? kRegisterWords : kBaseWords}, &registers);
  return registers;
}

RegisterFile RegistersOf(const HsState& state) {
  return RegistersOf(state.entry, state.words, sizeof(state));
}

RegisterFile RegistersOf(const HsStanding& standing) {
  return RegistersOf(standing.entry, standing.words, sizeof(standing));
}

std::optional<RegisterPatch> PatchOf(const HsChange* changes, uint64_t size) {
  RegisterPatch patch;
  for (uint64_t i = 0; i < size; ++i) {
    const bool ascends = i == 0 || changes[i].word > changes[i - 1].word;
    if (!ascends || changes[i].word >= kRegisterWords) return std::nullopt;
    patch.index.push_back(static_cast<uint16_t>(changes[i].word));
    patch.value.push_back(changes[i].value);
  }
  return patch;
}

static_assert(HS_STATE_WORDS == kBaseWords && HS_ALL_STATE_WORDS == kRegisterWords);
static_assert(offsetof(RegisterFile, ymm_high) == 8 * HS_WORD_YMM_HIGH);
static_assert(offsetof(RegisterFile, zmm_high) == 8 * HS_WORD_ZMM_HIGH);
static_assert(offsetof(RegisterFile, zmm16) == 8 * HS_WORD_ZMM16);
static_assert(offsetof(RegisterFile, k) == 8 * HS_WORD_K);
static_assert(offsetof(RegisterFile, rip) == 8 * HS_WORD_RIP);
static_assert(offsetof(RegisterFile, fs_base) == 8 * HS_WORD_FS_BASE);
static_assert(offsetof(RegisterFile, cs) == 8 * HS_WORD_CS);
static_assert(offsetof(RegisterFile, mxcsr) == 8 * HS_WORD_MXCSR);
static_assert(offsetof(RegisterFile, fdp) == 8 * HS_WORD_FDP);
static_assert(offsetof(RegisterFile, st) == 8 * HS_WORD_ST);
static_assert(offsetof(RegisterFile, xmm) == 8 * HS_WORD_XMM);

// Between the beginning of a call and its own entry; the first of a new program is that of a call.
bool MayComeBeforeCall(const HsEntry& entry) {
  return entry.kind == HS_ENTRY_PAGE || entry.kind == HS_ENTRY_LINES ||
         entry.kind == HS_ENTRY_USED || entry.kind == HS_ENTRY_EXEC ||
         entry.kind == HS_ENTRY_CALL || entry.kind == HS_ENTRY_BEGIN ||
         entry.kind == HS_ENTRY_HASH || entry.kind == HS_ENTRY_SHARED;
}

// As the kernel reads it.
int64_t NumberOf(const HsCall& call) { return static_cast<int32_t>(call.number); }

}  // namespace

// nullopt: it is of no state.
std::optional<uint64_t> ThreadStream::CountOf(const HsEntry& entry) const {
  uint64_t host = 0;
  if (entry.kind == HS_ENTRY_PAGE && entry.size >= sizeof(HsPage)) {
    host = As<HsPage>(&entry)->host;
  } else if (entry.kind == HS_ENTRY_LINES && entry.size >= sizeof(HsLines)) {
    host = As<HsLines>(&entry)->host;
  }
  if (host == 0) return first_count_ + entry.count;
  const std::optional<int64_t> adjust = process_->AdjustAt(host);
  if (!adjust.has_value()) return std::nullopt;
  return first_count_ + entry.count + static_cast<uint64_t>(*adjust);
}

absl::Status ThreadStream::Consume(const HsEntry* entry, RingReader* reader) {
  const std::optional<uint64_t> count = CountOf(*entry);
  const bool begins = entry->kind == HS_ENTRY_BEGIN;
  if (ended_ || !count.has_value() || *count < count_ || !Accepts(*entry)) {
    return Malformed(*entry);
  }
  if (!expects_program_) exec_.reset();  // whatever comes next: it has not
  if (!MayComeBeforeCall(*entry)) reserved_ = 0;
  if (begun_ && !begins && pages_.HasNewCode()) {
    // It may have been executed between the last entry and this one.
    FlushRun();
    pages_.AddNewCode(count_);
  }
  // While it stood, others did, and what it does from here on comes after that.
  if (standing_.has_value()) threads_->BeforeTurn(this, entry->time);
  count_ = *count;
  standing_.reset();
  if (entry->kind == HS_ENTRY_LOCKED) {
    AddLocked(entry->time);
    return log_->status();
  }
  FlushRun();
  if (begins) {
    const auto* state = As<HsState>(entry);
    if (state == nullptr) return Malformed(*entry);
    return begun_ ? BeginProgram(*state) : Begin(*state);
  }
  RETURN_IF_ERROR(ConsumeRunning(entry, reader));
  return log_->status();
}

absl::Status ThreadStream::ConsumeRunning(const HsEntry* entry, RingReader* reader) {
  switch (entry->kind) {
    case HS_ENTRY_PAGE:
      if (const auto* page = As<HsPage>(entry)) return AddPage(*page);
      break;
    case HS_ENTRY_LINES:
      if (const auto* lines = As<HsLines>(entry)) return AddLines(*lines);
      break;
    case HS_ENTRY_REFRESH:
      threads_->BeginTurn(this, entry->time);
      return absl::OkStatus();
    case HS_ENTRY_CALL:
      if (const auto* call = As<HsCall>(entry)) return AddCall(*call, reader);
      break;
    case HS_ENTRY_EXEC:
      if (const auto* call = As<HsCall>(entry)) return AddExec(*call);
      break;
    case HS_ENTRY_INSTRUCTION:
    case HS_ENTRY_CORRECTION:
      if (const auto* patch = As<HsPatch>(entry)) return AddPatch(*patch);
      break;
    case HS_ENTRY_SIGNAL:
      if (const auto* signal = As<HsSignal>(entry)) return AddSignal(*signal);
      break;
    case HS_ENTRY_REACHED:
      if (entry->time != 0) Reserve(entry->time);
      return absl::OkStatus();
    case HS_ENTRY_STATUS:
      if (const auto* status = As<HsStatus>(entry)) return AddStatus(*status);
      break;
    case HS_ENTRY_STANDING:
      if (const auto* standing = As<HsStanding>(entry)) return Stand(*standing);
      break;
    case HS_ENTRY_MAPPED:
      if (const auto* mapped = As<HsMapped>(entry)) return AddMapped(*mapped);
      break;
    case HS_ENTRY_USED:
      if (const auto* used = As<HsUsed>(entry)) return AddUsed(*used);
      break;
    case HS_ENTRY_SHARED:
      pages_.Share();
      return absl::OkStatus();
    case HS_ENTRY_HASH:
      if (const auto* hash = As<HsHash>(entry)) {
        log_->Append(count_, MemoryHash{hash->address, hash->bytes, hash->hash});
        return absl::OkStatus();
      }
      break;
    case HS_ENTRY_SEGMENT:
    case HS_ENTRY_END:
      if (const auto* state = As<HsState>(entry)) return EndSegment(*state);
      break;
  }
  return Malformed(*entry);
}

absl::Status ThreadStream::Begin(const HsState& state) {
  begun_ = true;
  threads_->BeforeTurn(this, state.entry.time);
  notes_->Start(count_, maker_, orderable_);
  const RegisterFile registers = RegistersOf(state);
  BeginSegment(registers);
  pages_.Begin(state.entry.time, process_->code());
  RETURN_IF_ERROR(log_->status());
  return process_->OnBegin({.thread = log_->thread(),
                            .count = count_,
                            .segment = log_->segments() - 1,
                            .registers = ToWords(registers)},
                           log_);
}

// What the thread sees there others have stored before: its turn begins here. Between the beginning
// of a call, which has a number, and its end it does not.
uint8_t ThreadStream::See(const HsEntry& entry) {
  if (entry.time == 0 || reserved_ != 0) return PageImport::kFirstTurn;
  threads_->BeforeTurn(this, entry.time);
  return turns_.In(count_);
}

absl::Status ThreadStream::AddPage(const HsPage& page) {
  if (page.address % kPageBytes != 0) return Malformed(page.entry);
  pages_.Add(count_, page.address, page.bytes, See(page.entry));
  return absl::OkStatus();
}

absl::Status ThreadStream::AddLines(const HsLines& lines) {
  const auto count = static_cast<size_t>(std::popcount(lines.mask));
  if (lines.address % kPageBytes != 0 || !HasElements(lines, count, kLineBytes)) {
    return Malformed(lines.entry);
  }
  PageImport import;
  import.turn = See(lines.entry);
  import.address = lines.address;
  import.line_mask = lines.mask;
  import.known_mask = lines.known & lines.mask;
  import.lines = absl::MakeConstSpan(lines.bytes, count * kLineBytes);
  for (const HsShown& shown : lines.shown) {
    const uint64_t known = shown.lines & import.known_mask;
    const int32_t by = shown.ring == 0 || known == 0 ? 0 : threads_->ThreadOf(shown.ring);
    if (by != 0) import.shown.push_back({by, known});
  }
  pages_.AddLines(count_, import);
  return absl::OkStatus();
}

absl::Status ThreadStream::AddMapped(const HsMapped& mapped) {
  if (mapped.start % kPageBytes != 0 || mapped.end % kPageBytes != 0) {
    return Malformed(mapped.entry);
  }
  const bool begins = (mapped.entry.flags & HS_MAPPED_BEGINS) != 0;
  pages_.AddMapped(count_, mapped.start, mapped.end, begins);
  return absl::OkStatus();
}

absl::Status ThreadStream::AddUsed(const HsUsed& used) {
  if (!HasElements(used, used.size, sizeof(HsPageRun))) return Malformed(used.entry);
  std::vector<uint64_t> pages;
  for (uint64_t i = 0; i < used.size; ++i) {
    const HsPageRun& run = used.runs[i];
    if (run.end - run.start > kLongestPageRun) return Malformed(used.entry);
    for (uint64_t page = run.start; page < run.end; page += kPageBytes) pages.push_back(page);
  }
  pages_.AddUsed(count_, pages, (used.entry.flags & HS_USED_ALL) != 0);
  return absl::OkStatus();
}

// The call that is made in this state stands here.
void ThreadStream::Reserve(uint64_t time) {
  threads_->BeforeTurn(this, time);
  reserved_ = log_->ReserveSequence();
}

// The number of a call with this result, if it was reserved; 0: the call stands where it returned.
uint64_t ThreadStream::TakeReserved(int64_t result) {
  const uint64_t reserved = std::exchange(reserved_, 0);
  if (reserved == 0) return 0;
  // Where nothing has come in between, both are the same.
  if (ChangedNothing(result) && reserved != log_->sequence()) return 0;
  return log_->UseReserved(reserved);
}

absl::Status ThreadStream::AddCall(const HsCall& call, RingReader* reader) {
  if (!HasElements(call, call.size, sizeof(HsChange))) return Malformed(call.entry);
  const std::optional<RegisterPatch> patch = PatchOf(call.changes, call.size);
  if (!patch.has_value() || patch->index.empty() || patch->index[0] != kRax) {
    return Malformed(call.entry);
  }
  const auto number = NumberOf(call);
  const auto result = static_cast<int64_t>(patch->value[0]);
  const bool read = process_->ReadChange(number, call.arguments, result, call.map_read);
  if (read && reader != nullptr) reader->LetGo();
  const uint64_t reserved = TakeReserved(result);
  if (reserved == 0) threads_->BeforeTurn(this, call.entry.time);
  SideEffect effect = {.kind = SideEffectKind::kSyscall, .registers = *patch};
  const uint64_t sequence = effect.sequence = notes_->SystemCall(
      count_, static_cast<int64_t>(call.number), call.arguments, result, reserved);
  log_->Append(count_, std::move(effect));
  ++count_;
  // What it does now comes after what others did during the call.
  if (reserved != 0) threads_->BeforeTurn(this, call.entry.time);
  if (number == SYS_prctl && call.arguments[0] == PR_SET_NAME) notes_->Name(count_);
  if (result > 0 && call.entry.flags != 0) {
    RETURN_IF_ERROR(threads_->OnThread(thread(), static_cast<pid_t>(result), call.entry.flags));
  } else if (result > 0) {
    NoteChild(call, result, sequence);
  }
  return process_->OnCall(count_, log_);
}

// If the call has made a process.
void ThreadStream::NoteChild(const HsCall& call, int64_t result, uint64_t sequence) {
  const auto number = NumberOf(call);
  if (number != SYS_vfork && number != SYS_fork && number != SYS_clone && number != SYS_clone3) {
    return;
  }
  const uint64_t flags = number == SYS_clone ? call.arguments[0] : call.clone_flags;
  ForkKind kind = ForkKind::kClone;
  if (number == SYS_vfork || (flags & CLONE_VFORK) != 0) {
    kind = ForkKind::kVfork;
  } else if (number == SYS_fork || (flags & CSIGNAL) == SIGCHLD) {
    kind = ForkKind::kFork;
  }
  MadeProcess made = {.process = static_cast<pid_t>(result),
                      .maker = thread(),
                      .maker_count = count_ - 1,
                      .kind = kind,
                      .sequence = sequence};
  const bool recorded = process_->OnChild(&made);
  notes_->Fork(count_, number, kind, flags, made.process, recorded);
}

absl::Status ThreadStream::AddExec(const HsCall& call) {
  exec_.emplace();
  exec_->number = static_cast<int64_t>(call.number);
  exec_->arguments.assign(call.arguments, call.arguments + 6);
  return absl::OkStatus();
}

void ThreadStream::ExpectProgram(const ThreadStream& by) {
  FlushRun();
  if (&by != this || !threads_->IsOnly(*this)) reserved_ = 0;
  if (std::exchange(ended_, false)) {
    // It goes on in the state in which it had ended.
    notes_->ForgetExit();
    BeginSegment(end_registers_);
  }
  exec_ = by.exec_.value_or(Exec{SYS_execve, std::vector<uint64_t>(6)});
  left_ = false;
  expects_program_ = true;
  first_count_ = count_;
}

absl::Status ThreadStream::BeginProgram(const HsState& state) {
  expects_program_ = false;
  const RegisterFile registers = RegistersOf(state);
  RegisterPatch patch;
  const RegisterWords words = ToWords(registers);
  for (size_t i = 0; i < words.size(); ++i) {
    patch.index.push_back(static_cast<uint16_t>(i));
    patch.value.push_back(words[i]);
  }
  const uint64_t reserved = TakeReserved(/*result=*/0);
  if (reserved == 0) threads_->BeforeTurn(this, state.entry.time);
  threads_->OnProgram();
  Discontinuity exec = {.kind = DiscontinuityKind::kExec, .registers = std::move(patch)};
  exec.sequence =
      notes_->Exec(count_, exec_->number, exec_->arguments, process_->program(), reserved);
  exec_.reset();
  log_->Append(count_, std::move(exec));
  ++count_;
  first_count_ = count_;
  log_->EndSegment(count_, registers);
  BeginSegment(registers);
  pages_.Begin(state.entry.time, process_->code());
  notes_->Name(count_);
  RETURN_IF_ERROR(log_->status());
  return process_->OnExec(
      {.thread = thread(), .count = count_, .segment = log_->segments() - 1, .registers = words},
      log_);
}

absl::Status ThreadStream::AddPatch(const HsPatch& patch) {
  if (!HasElements(patch, patch.size, sizeof(HsChange))) return Malformed(patch.entry);
  std::optional<RegisterPatch> registers = PatchOf(patch.changes, patch.size);
  if (!registers.has_value()) return Malformed(patch.entry);
  log_->Append(count_, SideEffect{.kind = SideEffectKind::kInstruction,
                                  .retired = patch.entry.kind == HS_ENTRY_INSTRUCTION,
                                  .registers = *std::move(registers)});
  ++count_;
  return absl::OkStatus();
}

absl::Status ThreadStream::AddSignal(const HsSignal& signal) {
  if (!HasElements(signal, signal.size, sizeof(HsChange))) return Malformed(signal.entry);
  std::optional<RegisterPatch> registers = PatchOf(signal.changes, signal.size);
  if (!registers.has_value()) return Malformed(signal.entry);
  threads_->BeforeTurn(this, signal.entry.time);
  Discontinuity delivery = {.kind = DiscontinuityKind::kSignal,
                            .signal = static_cast<int32_t>(signal.signal),
                            .registers = *std::move(registers)};
  delivery.siginfo.assign(reinterpret_cast<const char*>(signal.siginfo), sizeof(signal.siginfo));
  delivery.sequence = notes_->Signal(count_, delivery.signal, delivery.siginfo);
  log_->Append(count_, std::move(delivery));
  ++count_;
  return absl::OkStatus();
}

void ThreadStream::AddLocked(uint64_t time) {
  threads_->BeforeTurn(this, time);
  const uint64_t sequence = log_->NextInstruction();
  // The last one may be of another process by now.
  if (sequence != run_sequence_ + run_.size() || run_.size() == kLongestRun) FlushRun();
  if (run_.empty()) run_sequence_ = sequence;
  run_.push_back(count_);
  ++count_;
}

void ThreadStream::FlushRun() {
  if (run_.empty()) return;
  log_->OrderRun(run_.back() + 1, run_sequence_, run_);
  run_.clear();
}

void ThreadStream::BeginSegment(const RegisterFile& registers) {
  log_->BeginSegment(count_, registers);
  segment_count_ = count_;
}

absl::Status ThreadStream::EndSegment(const HsState& state) {
  const RegisterFile registers = RegistersOf(state);
  log_->EndSegment(count_, registers);
  if (state.entry.kind == HS_ENTRY_SEGMENT) {
    // What it begins with is what memory has by now.
    threads_->BeforeTurn(this, state.entry.time);
    BeginSegment(registers);
    pages_.Begin(state.entry.time, process_->code());
    return absl::OkStatus();
  }
  ended_ = true;
  end_registers_ = registers;
  if (state.entry.flags == HS_END_EXIT) {
    threads_->BeforeTurn(this, state.entry.time);
    notes_->Exit(count_);
  } else {
    left_ = true;
    process_->OnLeft(static_cast<HsEndReason>(state.entry.flags), registers.rip);
  }
  return absl::OkStatus();
}

absl::Status ThreadStream::Stand(const HsStanding& entry) {
  const RegisterFile registers = RegistersOf(entry);
  // What others executed until then comes before what it executes afterwards.
  threads_->BeforeTurn(this, entry.entry.time);
  FlushRun();
  const auto read = [this](uint64_t address, uint8_t* bytes) {
    return process_->ReadPage(thread(), address, bytes);
  };
  pages_.AddCodeAsItIs(count_, read);
  log_->EndSegment(count_, registers);
  BeginSegment(registers);
  pages_.Begin(entry.entry.time, process_->code());
  pages_.AddCodeAsItIs(count_, read);
  RETURN_IF_ERROR(log_->status());
  standing_ = {.thread = thread(),
               .count = count_,
               .segment = log_->segments() - 1,
               .registers = ToWords(registers)};
  if (entry.began == 0) return absl::OkStatus();
  return process_->OnStanding(threads_->StandingStates(),
                              {threads_->NsSince(entry.began), entry.trigger, entry.detail}, log_);
}

std::optional<TraceWriter::ThreadState> ThreadStream::standing() const { return standing_; }

absl::Status ThreadStream::AddStatus(const HsStatus& status) {
  process_->OnStatus(static_cast<int>(status.status));
  return absl::OkStatus();
}

void ThreadStream::Leave(const std::string& reason) {
  if (!begun_) return;
  FlushRun();
  if (!std::exchange(ended_, true)) log_->Append(count_, Gap{reason});
  left_ = true;
  notes_->Gap(count_, reason);
}

void ThreadStream::OnGone() {
  if (!begun_ || std::exchange(ended_, true)) return;
  FlushRun();
  // What its registers were nobody knows.
  log_->Append(count_, Gap{"the thread was killed"});
  notes_->Exit(count_);
}

}  // namespace hindsight
