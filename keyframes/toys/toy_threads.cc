#include "keyframes/toys/toy_threads.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "base/check.h"
#include "emulator/cpu/cpu.h"
#include "emulator/cpu/register_patch.h"
#include "tracefmt/trace_writer.h"

// The program of each thread. rbx: kShared, rbp: kRarePage, r12: iterations left, r13: its index.
asm(R"(
.pushsection .rodata
.globl toyt_begin, toyt_end, toyt_loop, toyt_callee, toyt_locked
toyt_begin:
toyt_loop:
  movq (%rbx), %rax
  leaq 1(%rax, %r13), %rax
  movq %rax, (%rbx)
  movl $1, %ecx
toyt_locked:
  lock xaddq %rcx, 128(%rbx)
  testq $7, %r12
  jnz 1f
  movq %rax, 64(%rbx)
1:
  call toyt_callee
  testq $15, %r12
  jnz 2f
  movl $1, %eax
  syscall
2:
  testq $63, %r12
  jnz 3f
  addq %r13, (%rbp)
3:
  decq %r12
  jnz toyt_loop
  hlt
toyt_callee:
  pushq %r12
  popq %rdx
  ret
toyt_end:
.popsection
)");

extern "C" const uint8_t toyt_begin[], toyt_end[], toyt_loop[], toyt_callee[], toyt_locked[];

namespace hindsight {
namespace {

constexpr uint64_t kLines = kPageBytes / kLineBytes;
constexpr uint64_t kStack = 0x800000;  // of the first thread; a page each

using Page = std::array<uint8_t, kPageBytes>;
using Line = std::array<uint8_t, kLineBytes>;
constexpr size_t kVariableCount = ToyThreads::kVariables.size();

uint64_t AddressOf(const uint8_t* label) {
  return ToyThreads::kCode + static_cast<uint64_t>(label - toyt_begin);
}

class ToyProcess;

// A thread being recorded, by stepping: its view is filled from the process's memory.
class ToyThread final : private Pager {
 public:
  ToyThread(ToyProcess* process, int32_t thread, uint64_t index);

  void BeginTurn();
  void Run(uint64_t turn);
  bool done();
  TraceWriter::ThreadState NewSegment();
  void EndSegment();
  // `how`: kThreadExit, or, of a thread that lives on without being recorded, kGap.
  void EndLog(EventKind how);
  bool segment_is_long() const;
  void Finish();

  const int32_t thread;
  std::vector<RegisterFile> states;
  bool ended = false;

 private:
  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override { return true; }

  void Note();
  void Syscall();
  void NoteOrderable(uint64_t count);
  void FlushOrderRun();
  void WriteBack();
  void ImportChanges();
  void Import(PageImport import, const Page& page);
  void Append(RecordBody body, uint64_t count);
  bool holds(uint64_t page) const {
    return std::find(held_.begin(), held_.end(), page) != held_.end();
  }
  uint64_t Value(size_t variable);

  ToyProcess* const process_;
  std::unique_ptr<Cpu> cpu_;
  std::vector<uint64_t> held_;
  uint64_t sync_count_ = 0;   // the state imports are recorded in
  uint64_t sync_moment_ = 0;  // the moment that is
  uint64_t segments_ = 0;
  uint64_t segment_begin_ = 0;
  std::vector<uint64_t> locked_;  // states from which locked instructions were executed
  uint64_t locked_sequence_ = 0;
};

class ToyProcess {
 public:
  ToyProcess(const ToyThreadsOptions& options, TraceWriter* writer)
      : options(options), writer(writer), random(options.seed) {}

  void Record();
  void Event(ProcessEvent event) { CHECK(writer->AppendEvent(event).ok()); }
  void MakeThread(int32_t thread, int32_t creator);
  uint64_t moment() const { return moments.size(); }

  const ToyThreadsOptions options;
  TraceWriter* const writer;
  std::mt19937 random;
  std::map<uint64_t, Page> memory;
  std::map<uint64_t, Line> known;  // lines as some thread knew them last
  ToyThreads::Values values = {};  // of the variables, likewise
  uint64_t sequence = 0;
  uint64_t calls = 0;
  bool repeated = false, misplaced = false;  // the damage is done
  std::vector<ToyThreads::Moment> moments;
  std::map<int32_t, uint64_t> starts, ends;
  std::vector<std::unique_ptr<ToyThread>> threads;

 private:
  void WriteKeyframe();
  uint64_t keyframes_ = 0;
};

ToyThread::ToyThread(ToyProcess* process, int32_t thread, uint64_t index)
    : thread(thread), process_(process), cpu_(*Cpu::Create(this)) {
  process->memory[kStack + index * kPageBytes].fill(0);
  RegisterFile registers;
  registers.rip = ToyThreads::kCode;
  registers.rflags = 0x202;
  registers.gpr[kRbx] = ToyThreads::kShared;
  registers.gpr[kRbp] = ToyThreads::kRarePage;
  registers.gpr[kR12] = process->options.iterations;
  registers.gpr[kR13] = index;
  registers.gpr[kRsp] = kStack + (index + 1) * kPageBytes - 64;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  registers.cs = 0x33;
  registers.ss = 0x2b;
  cpu_->SetRegisters(registers);
  cpu_->set_count(ToyThreads::begin_count(thread));
  states.push_back(registers);
}

void ToyThread::Append(RecordBody body, uint64_t count) {
  CHECK(process_->writer->Append(thread, {count, std::move(body)}).ok());
}

TraceWriter::ThreadState ToyThread::NewSegment() {
  if (segments_ > 0) EndSegment();
  segment_begin_ = sync_count_ = cpu_->count();
  const RegisterWords registers = ToWords(cpu_->registers());
  const uint64_t number = segments_++;
  CHECK(process_->writer->BeginSegment(thread, number, sync_count_, process_->sequence, registers)
            .ok());
  return {thread, sync_count_, number, registers};
}

void ToyThread::EndSegment() {
  cpu_->DropRights(held_);
  held_.clear();
  Append(SegmentEnd{ToWords(cpu_->registers())}, cpu_->count());
}

bool ToyThread::segment_is_long() const {
  return cpu_->count() - segment_begin_ >= process_->options.segment_states;
}

bool ToyThread::done() { return cpu_->next()->policy == Policy::kPrivileged; }

void ToyThread::Finish() {
  ended = true;
  process_->ends[thread] = process_->moment();
  EndLog(EventKind::kThreadExit);
}

void ToyThread::EndLog(EventKind how) {
  EndSegment();
  process_->Event({.kind = how, .thread = thread, .count = cpu_->count()});
}

bool ToyThread::OnMissing(uint64_t page, Access access) {
  auto it = process_->memory.find(page);
  if (it == process_->memory.end()) return false;
  std::memcpy(cpu_->HostPage(page), it->second.data(), kPageBytes);
  cpu_->SetRights(page, PageRights::kReadWrite);
  held_.push_back(page);
  PageImport import{.address = page, .first = true};
  for (uint64_t i = 0; i < kLines; ++i) {
    auto line = it->second.begin() + i * kLineBytes;
    const bool zero = std::all_of(line, line + kLineBytes, [](uint8_t b) { return b == 0; });
    if (!zero) import.line_mask |= uint64_t{1} << i;
  }
  Import(import, it->second);
  return true;
}

// Records lines of `page`, and whether they are new to the process.
void ToyThread::Import(PageImport import, const Page& page) {
  std::vector<uint8_t> lines;
  for (uint64_t i = 0; i < kLines; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (!import.first && (import.line_mask & bit) == 0) continue;
    Line line;
    std::copy_n(page.begin() + i * kLineBytes, kLineBytes, line.begin());
    if ((import.line_mask & bit) != 0) lines.insert(lines.end(), line.begin(), line.end());
    auto it = process_->known.find(import.address + i * kLineBytes);
    if (it != process_->known.end() && it->second == line) import.known_mask |= bit;
    process_->known[import.address + i * kLineBytes] = line;
  }
  import.lines = lines;
  Append(import, sync_count_);
  // What no thread knew has changed by the transition that led to the sync point.
  for (size_t v = 0; v < kVariableCount; ++v) {
    const uint64_t address = ToyThreads::kVariables[v];
    if (PageOf(address) != import.address) continue;
    uint64_t value = 0;
    std::memcpy(&value, page.data() + address % kPageBytes, 8);
    if (value == process_->values[v]) continue;
    process_->values[v] = value;
    for (uint64_t m = sync_moment_; m < process_->moment(); ++m) {
      process_->moments[m].values[v] = value;
    }
    for (uint64_t m = sync_moment_; m-- > 0;) {
      if (process_->moments[m].thread != thread) continue;
      process_->moments[m].changes[v] = true;
      break;
    }
  }
}

// Before a turn, or after a system call: lines of held pages that others, or the kernel, changed.
void ToyThread::ImportChanges() {
  for (uint64_t page : held_) {
    uint8_t* const held = cpu_->HostPage(page);
    const Page& now = process_->memory[page];
    PageImport import{.address = page};
    for (uint64_t i = 0; i < kLines; ++i) {
      if (std::memcmp(now.data() + i * kLineBytes, held + i * kLineBytes, kLineBytes) != 0) {
        import.line_mask |= uint64_t{1} << i;
      }
    }
    if (import.line_mask == 0) continue;
    std::memcpy(held, now.data(), kPageBytes);
    Import(import, now);
  }
}

void ToyThread::WriteBack() {
  for (uint64_t page : held_) {
    const uint8_t* const held = cpu_->HostPage(page);
    Page& memory = process_->memory[page];
    for (uint64_t i = 0; i < kLines; ++i) {
      if (std::memcmp(memory.data() + i * kLineBytes, held + i * kLineBytes, kLineBytes) == 0) {
        continue;
      }
      std::memcpy(memory.data() + i * kLineBytes, held + i * kLineBytes, kLineBytes);
      std::memcpy(process_->known[page + i * kLineBytes].data(), held + i * kLineBytes, kLineBytes);
    }
  }
}

uint64_t ToyThread::Value(size_t variable) {
  const uint64_t address = ToyThreads::kVariables[variable];
  if (!holds(PageOf(address))) return process_->values[variable];
  uint64_t value = 0;
  std::memcpy(&value, cpu_->HostPage(PageOf(address)) + address % kPageBytes, 8);
  return value;
}

// The moment before the next transition.
void ToyThread::Note() {
  ToyThreads::Moment moment = {.thread = thread, .count = cpu_->count(), .pc = cpu_->pc()};
  for (size_t v = 0; v < kVariableCount; ++v) {
    moment.values[v] = process_->values[v] = Value(v);
  }
  process_->moments.push_back(moment);
}

void ToyThread::BeginTurn() {
  uint64_t sequence = ++process_->sequence;
  if (process_->options.repeat_sequence && sequence >= 40 &&
      !std::exchange(process_->repeated, true)) {
    sequence = 20;
  }
  process_->Event({.kind = EventKind::kSlice,
                   .sequence = sequence,
                   .thread = thread,
                   .count = cpu_->count(),
                   .arguments = {process_->moment(), process_->moment(), ~uint64_t{0}}});
}

void ToyThread::Run(uint64_t turn) {
  sync_count_ = cpu_->count();
  sync_moment_ = process_->moment();
  ImportChanges();
  for (uint64_t i = 0; i < turn && !done(); ++i) {
    Note();
    const bool locked = cpu_->pc() == ToyThreads::LockedInstruction();
    if (cpu_->next()->policy == Policy::kSyscall) {
      process_->moments.back().is_syscall = true;
      const uint64_t before = cpu_->count();
      Syscall();
      if (process_->options.misplace_order_run && !std::exchange(process_->misplaced, true)) {
        NoteOrderable(before);
      }
    } else {
      const uint64_t before = cpu_->count();
      CHECK(cpu_->Step().stop == Stop::kLimit);
      if (locked && process_->options.order_runs) NoteOrderable(before);
    }
    // Its first pages may have come in just now.
    ToyThreads::Moment& made = process_->moments.back();
    for (size_t v = 0; v < kVariableCount; ++v) {
      const uint64_t value = Value(v);
      if (value != made.values[v]) made.changes[v] = true;
      process_->values[v] = value;
    }
    states.push_back(cpu_->registers());
  }
  FlushOrderRun();
  WriteBack();
}

void ToyThread::NoteOrderable(uint64_t count) {
  ++process_->sequence;
  if (locked_.empty()) locked_sequence_ = process_->sequence;
  locked_.push_back(count);
}

void ToyThread::FlushOrderRun() {
  if (locked_.empty()) return;
  Append(OrderRun{locked_sequence_, locked_}, cpu_->count());
  locked_.clear();
}

// Writes an answer in every second call; the first calls make threads.
void ToyThread::Syscall() {
  FlushOrderRun();
  const RegisterFile before = cpu_->registers();
  RegisterFile after = before;
  const uint64_t count = cpu_->count();
  const uint64_t call = ++process_->calls;
  WriteBack();
  if (call % 2 == 0 && holds(ToyThreads::kShared)) {
    std::memcpy(process_->memory[ToyThreads::kShared].data() + 192, &call, 8);
  }
  const int32_t made = call == 1 ? ToyThreads::kSecond : call == 6 ? ToyThreads::kThird : 0;
  after.gpr[kRax] = made != 0 ? made : call;
  after.gpr[kRcx] = before.rip + 2;
  after.gpr[kR11] = before.rflags;
  after.rip += 2;
  const uint64_t sequence = ++process_->sequence;
  Append(SideEffect{.kind = SideEffectKind::kSyscall,
                    .sequence = sequence,
                    .register_hash = Hash(before),
                    .registers = Difference(before, after)},
         count);
  cpu_->SetRegisters(after);
  cpu_->set_count(count + 1);
  process_->Event({.kind = EventKind::kSyscall,
                   .sequence = sequence,
                   .thread = thread,
                   .count = count + 1,
                   .number = static_cast<int64_t>(before.gpr[kRax]),
                   .arguments = {before.gpr[kRdi], before.gpr[kRsi], before.gpr[kRdx],
                                 before.gpr[kR10], before.gpr[kR8], before.gpr[kR9]},
                   .result = static_cast<int64_t>(after.gpr[kRax])});
  sync_count_ = count + 1;
  sync_moment_ = process_->moment();
  ImportChanges();
  if (made != 0) process_->MakeThread(made, thread);
}

void ToyProcess::MakeThread(int32_t thread, int32_t creator) {
  starts[thread] = moment();
  Event({.kind = EventKind::kThreadStart,
         .sequence = creator != 0 ? ++sequence : 0,
         .thread = thread,
         .count = ToyThreads::begin_count(thread),
         .number = creator,
         .text = "toy"});
  threads.push_back(std::make_unique<ToyThread>(this, thread, threads.size()));
  if (creator != 0) threads.back()->NewSegment();
}

// Where no thread runs: before the turns, or where one begins.
void ToyProcess::WriteKeyframe() {
  std::vector<TraceWriter::ThreadState> states;
  for (auto& thread : threads) {
    if (!thread->ended) states.push_back(thread->NewSegment());
  }
  const std::vector<MapRegion> maps = {
      {.start = ToyThreads::kCode, .end = kStack + 3 * kPageBytes, .protection = 7}};
  CHECK(writer->BeginFullKeyframe(++keyframes_, sequence, states, maps, {}).ok());
  for (const auto& [address, bytes] : memory) CHECK(writer->AddPage(address, bytes).ok());
  CHECK(writer->FinishFullKeyframe().ok());
  Event({.kind = EventKind::kFullKeyframe, .number = static_cast<int64_t>(keyframes_)});
}

void ToyProcess::Record() {
  Page& code = memory[ToyThreads::kCode];
  code.fill(0);
  std::copy(toyt_begin, toyt_end, code.begin());
  memory[ToyThreads::kShared].fill(0);
  memory[ToyThreads::kRarePage].fill(0);
  MakeThread(ToyThreads::kMain, 0);
  WriteKeyframe();
  for (uint64_t turn = 1;; ++turn) {
    std::vector<ToyThread*> runnable;
    for (auto& thread : threads) {
      if (!thread->ended && !thread->done()) runnable.push_back(thread.get());
    }
    if (runnable.empty()) break;
    ToyThread* const next = runnable[random() % runnable.size()];
    next->BeginTurn();
    if (options.keyframe_turns != 0 && turn % options.keyframe_turns == 0) WriteKeyframe();
    next->Run(1 + random() % options.longest_turn);
    if (next->done() && next->thread != ToyThreads::kMain) next->Finish();
    if (!next->ended && next->segment_is_long()) next->NewSegment();
  }
  ToyThreads::Moment end = moments.back();
  ++end.count;
  end.values = values;
  end.changes = {};
  moments.push_back(end);
  threads.front()->EndLog(EventKind::kGap);
}

}  // namespace

uint64_t ToyThreads::LoopHead() { return AddressOf(toyt_loop); }
uint64_t ToyThreads::Callee() { return AddressOf(toyt_callee); }
uint64_t ToyThreads::LockedInstruction() { return AddressOf(toyt_locked); }

ToyThreads::ToyThreads(const ToyThreadsOptions& options) {
  const char* parent = std::getenv("TEST_TMPDIR");
  directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/toyt_XXXXXX";
  CHECK(mkdtemp(directory_.data()) != nullptr);
  Manifest manifest;
  manifest.uuid = "toy-threads-uuid";  // what fuzzers begin with fits every one made
  manifest.program = "/toy";
  manifest.pid = kMain;
  manifest.engine = "emulate";
  manifest.memory_model = options.order_runs ? "fence" : "kernel";
  manifest.register_layout = kRegisterLayout;
  auto writer = TraceWriter::Create(directory_ + "/trace", manifest);
  CHECK(writer.ok());
  ToyProcess process(options, writer->get());
  process.Record();
  manifest.state = TraceState::kComplete;
  manifest.exit_status = 0;
  manifest.end_sequence = process.sequence;
  manifest.ordered_instructions = options.order_runs ? 1 : 0;
  CHECK((*writer)->Finish(manifest).ok());
  moments_ = std::move(process.moments);
  starts_ = std::move(process.starts);
  ends_ = std::move(process.ends);
  for (auto& thread : process.threads) registers_[thread->thread] = std::move(thread->states);
  auto reader = TraceReader::Open(directory_ + "/trace");
  CHECK(reader.ok());
  reader_ = *std::move(reader);
}

ToyThreads::~ToyThreads() {
  reader_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

uint64_t ToyThreads::CountAt(int32_t thread, uint64_t moment) const {
  for (uint64_t m = std::min(moment, end_moment() - 1) + 1; m-- > 0;) {
    if (moments_[m].thread == thread) return moments_[m].count + (m < moment ? 1 : 0);
  }
  return begin_count(thread);
}

}  // namespace hindsight
