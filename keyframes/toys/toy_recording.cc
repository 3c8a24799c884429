#include "keyframes/toys/toy_recording.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/check.h"
#include "emulator/cpu/cpu.h"
#include "emulator/cpu/register_patch.h"
#include "tracefmt/trace_writer.h"

// The program. rbx: kData, r12: iterations left, rbp: kBuffer.
asm(R"(
.pushsection .rodata
.globl toy_begin, toy_end, toy_loop, toy_callee, toy_handler, toy_syscall, toy_store
toy_begin:
toy_loop:
  movq (%rbx), %rax
  leaq 3(%rax, %r12, 2), %rax
  movq %rax, (%rbx)
  movq $42, 16(%rbx)
  call toy_callee
  testq $31, %r12
  jnz 1f
  incq 8(%rbx)
1:
  movl %r12d, %eax
  leaq 0x80(%rbx), %rdi
  movl $24, %ecx
  cld
  rep stosb
  cvtsi2sdq %r12, %xmm0
  addsd %xmm0, %xmm1
toy_store:
  movapd %xmm1, 0x40(%rbx)
  fildq (%rbx)
  fstpt 0x60(%rbx)
  testq $15, %r12
  jnz 2f
  movl $1, %eax
toy_syscall:
  syscall
2:
  testq $127, %r12
  jnz 3f
  movq (%rbp), %rdx
  addq %rdx, 32(%rbx)
3:
  decq %r12
  jnz toy_loop
  hlt
toy_callee:
  pushq %r12
  imulq $7, (%rsp), %rsi
  xorq %rsi, 24(%rbx)
  popq %r12
  ret
toy_handler:
  addq $1, 48(%rbx)
  popq %rax
  popq %r10
  jmp *%r10
toy_end:
.popsection
)");

extern "C" const uint8_t toy_begin[], toy_end[], toy_loop[], toy_callee[], toy_handler[],
    toy_syscall[], toy_store[];

namespace hindsight {
namespace {

constexpr int32_t kThread = ToyRecording::kThread;
constexpr uint64_t kLines = kPageBytes / kLineBytes;

using Page = std::array<uint8_t, kPageBytes>;

// Records by stepping: the Cpu's view is filled from `memory`, which plays the real process.
class ToyRecorder final : private Pager {
 public:
  ToyRecorder(const ToyOptions& options, TraceWriter* writer)
      : options_(options), writer_(writer), cpu_(*Cpu::Create(this)) {}

  std::vector<ToyRecording::State> states;
  std::vector<uint64_t> syscalls, signals;

  void Record(uint64_t count);

 private:
  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override { return true; }

  void SetUp(uint64_t count);
  void NoteState();
  void MakeTransition();
  void BeginSegment();
  void EndSegment();
  void WriteKeyframe();
  void Syscall();
  void Deliver();
  void WriteBack();
  void ImportChanges();
  void Append(RecordBody body) { CHECK(writer_->Append(kThread, {count_, std::move(body)}).ok()); }
  void Event(ProcessEvent event);
  void Poke(uint64_t address, uint64_t value);
  uint64_t Peek(uint64_t address);
  bool SignalIsDue() const;

  const ToyOptions options_;
  TraceWriter* const writer_;
  std::unique_ptr<Cpu> cpu_;
  std::map<uint64_t, Page> memory_;
  std::vector<uint64_t> held_;
  uint64_t count_ = 0;  // of the last sync point: what imports are recorded at
  uint64_t segment_ = 0;
  uint64_t segment_begin_ = 0;
  uint64_t sequence_ = 0;
  uint64_t keyframes_ = 0;
  uint64_t calls_ = 0;
  uint64_t last_signal_at_ = 0;
};

bool ToyRecorder::OnMissing(uint64_t page, Access access) {
  auto it = memory_.find(page);
  if (it == memory_.end()) return false;
  std::memcpy(cpu_->HostPage(page), it->second.data(), kPageBytes);
  cpu_->SetRights(page, PageRights::kReadWrite);
  held_.push_back(page);
  if (options_.drop_imports && segment_ == 2 && page == ToyRecording::kData) return true;
  PageImport import{.address = page, .first = true};
  std::vector<uint8_t> lines;
  for (uint64_t i = 0; i < kLines; ++i) {
    auto line = it->second.begin() + i * kLineBytes;
    if (std::all_of(line, line + kLineBytes, [](uint8_t b) { return b == 0; })) continue;
    import.line_mask |= uint64_t{1} << i;
    lines.insert(lines.end(), line, line + kLineBytes);
  }
  import.lines = lines;
  CHECK(writer_->Append(kThread, {count_, import}).ok());
  return true;
}

void ToyRecorder::SetUp(uint64_t count) {
  Page& code = memory_[ToyRecording::kCode];
  code.fill(0);
  std::copy(toy_begin, toy_end, code.begin());
  if (options_.avx) {
    // The prefixes 66 0f become c5 f9: vmovapd, as long as movapd.
    code[toy_store - toy_begin] = 0xc5;
    code[toy_store - toy_begin + 1] = 0xf9;
  }
  memory_[ToyRecording::kData].fill(0);
  memory_[ToyRecording::kBuffer].fill(0);
  memory_[ToyRecording::kStackTop - kPageBytes].fill(0);
  RegisterFile registers;
  registers.rip = ToyRecording::kCode;
  registers.rflags = 0x202;
  registers.gpr[kRbx] = ToyRecording::kData;
  registers.gpr[kRbp] = ToyRecording::kBuffer;
  registers.gpr[kR12] = options_.iterations;
  registers.gpr[kRsp] = ToyRecording::kStackTop - 64;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  registers.cs = 0x33;
  registers.ss = 0x2b;
  cpu_->SetRegisters(registers);
  cpu_->set_count(count);
  count_ = count;
}

void ToyRecorder::Record(uint64_t count) {
  SetUp(count);
  BeginSegment();
  Event({.kind = EventKind::kThreadStart});
  NoteState();
  for (;;) {
    const std::optional<Instruction> next = cpu_->next();
    CHECK(next.has_value());
    if (next->policy == Policy::kPrivileged) break;  // the hlt
    if (SignalIsDue()) {
      states.back().signal_next = true;
      Deliver();
    } else if (next->policy == Policy::kSyscall) {
      Syscall();
    } else {
      CHECK(cpu_->Step().stop == Stop::kLimit);
    }
    if (cpu_->count() - segment_begin_ >= options_.segment_states) {
      EndSegment();
      BeginSegment();
    }
    NoteState();
  }
  EndSegment();
  Event({.kind = EventKind::kThreadExit});
}

void ToyRecorder::BeginSegment() {
  segment_begin_ = count_ = cpu_->count();
  if (options_.full_keyframes && segment_ % 3 == 0) WriteKeyframe();
  CHECK(writer_->BeginSegment(kThread, segment_++, count_, sequence_, ToWords(cpu_->registers()))
            .ok());
}

void ToyRecorder::EndSegment() {
  WriteBack();
  cpu_->DropRights(held_);
  held_.clear();
  count_ = cpu_->count();
  RegisterFile registers = cpu_->registers();
  if (options_.spoil_end && segment_ == 2) registers.gpr[kR14] ^= 5;
  Append(SegmentEnd{ToWords(registers)});
}

void ToyRecorder::WriteKeyframe() {
  const std::vector<MapRegion> maps = {
      {.start = ToyRecording::kCode, .end = ToyRecording::kStackTop, .protection = 7}};
  CHECK(writer_
            ->BeginFullKeyframe(++keyframes_, sequence_,
                                {{kThread, count_, segment_, ToWords(cpu_->registers())}}, maps, {})
            .ok());
  for (const auto& [address, bytes] : memory_) CHECK(writer_->AddPage(address, bytes).ok());
  CHECK(writer_->FinishFullKeyframe().ok());
  Event({.kind = EventKind::kFullKeyframe, .number = static_cast<int64_t>(keyframes_)});
}

void ToyRecorder::WriteBack() {
  for (uint64_t page : held_) {
    std::memcpy(memory_[page].data(), cpu_->HostPage(page), kPageBytes);
  }
}

// Imports, at the present sync point, the lines of held pages that the toy kernel changed.
void ToyRecorder::ImportChanges() {
  for (uint64_t page : held_) {
    uint8_t* const held = cpu_->HostPage(page);
    PageImport import{.address = page};
    std::vector<uint8_t> lines;
    for (uint64_t i = 0; i < kLines; ++i) {
      const uint8_t* line = memory_[page].data() + i * kLineBytes;
      if (std::memcmp(line, held + i * kLineBytes, kLineBytes) == 0) continue;
      import.line_mask |= uint64_t{1} << i;
      lines.insert(lines.end(), line, line + kLineBytes);
    }
    if (import.line_mask == 0) continue;
    std::memcpy(held, memory_[page].data(), kPageBytes);
    import.lines = lines;
    CHECK(writer_->Append(kThread, {count_, import}).ok());
  }
}

// Fills in where.
void ToyRecorder::Event(ProcessEvent event) {
  event.thread = kThread;
  event.count = count_;
  CHECK(writer_->AppendEvent(event).ok());
}

void ToyRecorder::Poke(uint64_t address, uint64_t value) {
  std::memcpy(memory_[PageOf(address)].data() + address % kPageBytes, &value, 8);
}

uint64_t ToyRecorder::Peek(uint64_t address) {
  uint64_t value = 0;
  const uint64_t page = PageOf(address);
  const bool held = std::find(held_.begin(), held_.end(), page) != held_.end();
  const uint8_t* bytes = held ? cpu_->HostPage(page) : memory_[page].data();
  std::memcpy(&value, bytes + address % kPageBytes, 8);
  return value;
}

// Writes an answer in every second call, and one into a buffer that is read much later.
void ToyRecorder::Syscall() {
  const RegisterFile before = cpu_->registers();
  RegisterFile after = before;
  syscalls.push_back(cpu_->count());
  count_ = cpu_->count();
  ++calls_;
  WriteBack();
  if (calls_ % 2 == 0) Poke(ToyRecording::kAnswer, calls_);
  if (calls_ % 8 == 0) Poke(ToyRecording::kBuffer, calls_ * 3);
  after.gpr[kRax] = calls_;
  after.gpr[kRcx] = before.rip + 2;
  after.gpr[kR11] = before.rflags;
  after.rip += 2;
  uint64_t hash = Hash(before);
  if (options_.spoil_hash && syscalls.size() == 5) hash ^= 1;
  Append(SideEffect{.kind = SideEffectKind::kSyscall,
                    .sequence = ++sequence_,
                    .register_hash = hash,
                    .registers = Difference(before, after)});
  cpu_->SetRegisters(after);
  cpu_->set_count(++count_);
  Event({.kind = EventKind::kSyscall,
         .sequence = sequence_,
         .number = static_cast<int64_t>(before.gpr[kRax]),
         .arguments = {before.gpr[kRdi], before.gpr[kRsi], before.gpr[kRdx], before.gpr[kR10],
                       before.gpr[kR8], before.gpr[kR9]},
         .result = static_cast<int64_t>(after.gpr[kRax])});
  ImportChanges();
}

bool ToyRecorder::SignalIsDue() const {
  if (options_.signal_every == 0) return false;
  const uint64_t left = cpu_->registers().gpr[kR12];
  return left % options_.signal_every == 1 && left != last_signal_at_ &&
         cpu_->pc() == ToyRecording::LoopHead();
}

// The toy kernel's frame: a word to drop and the address to return to.
void ToyRecorder::Deliver() {
  const RegisterFile before = cpu_->registers();
  last_signal_at_ = before.gpr[kR12];
  signals.push_back(cpu_->count());
  count_ = cpu_->count();
  WriteBack();
  RegisterFile after = before;
  after.gpr[kRsp] -= 16;
  Poke(after.gpr[kRsp], 0x1234);
  Poke(after.gpr[kRsp] + 8, before.rip);
  after.rip = ToyRecording::Handler();
  Append(Discontinuity{.kind = DiscontinuityKind::kSignal,
                       .sequence = ++sequence_,
                       .register_hash = Hash(before),
                       .signal = ToyRecording::kSignal,
                       .siginfo = std::string(128, '\1'),
                       .registers = Difference(before, after)});
  cpu_->SetRegisters(after);
  cpu_->set_count(++count_);
  Event({.kind = EventKind::kSignal,
         .sequence = sequence_,
         .number = ToyRecording::kSignal,
         .text = std::string(128, '\1')});
  ImportChanges();
}

void ToyRecorder::NoteState() {
  states.push_back({.registers = cpu_->registers(),
                    .sum = Peek(ToyRecording::kSum),
                    .rare = Peek(ToyRecording::kRare),
                    .same = Peek(ToyRecording::kSame),
                    .answer = Peek(ToyRecording::kAnswer),
                    .buffer = Peek(ToyRecording::kBuffer),
                    .string = Peek(ToyRecording::kString)});
}

uint64_t AddressOf(const uint8_t* label) {
  return ToyRecording::kCode + static_cast<uint64_t>(label - toy_begin);
}

}  // namespace

uint64_t ToyRecording::LoopHead() { return AddressOf(toy_loop); }
uint64_t ToyRecording::Callee() { return AddressOf(toy_callee); }
uint64_t ToyRecording::Handler() { return AddressOf(toy_handler); }
uint64_t ToyRecording::SyscallInstruction() { return AddressOf(toy_syscall); }

ToyRecording::ToyRecording(const ToyOptions& options) {
  const char* parent = std::getenv("TEST_TMPDIR");
  directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/toy_XXXXXX";
  CHECK(mkdtemp(directory_.data()) != nullptr);
  Manifest manifest;
  manifest.program = "/toy";
  manifest.engine = options.threads_at_once ? "translate" : "emulate";
  manifest.memory_model = "kernel";
  manifest.register_layout = kRegisterLayout;
  auto writer = TraceWriter::Create(directory_ + "/trace", manifest);
  CHECK(writer.ok());
  ToyRecorder recorder(options, writer->get());
  recorder.Record(begin_count());
  manifest.state = TraceState::kComplete;
  manifest.exit_status = 0;
  CHECK((*writer)->Finish(manifest).ok());
  states_ = std::move(recorder.states);
  syscalls_ = std::move(recorder.syscalls);
  signals_ = std::move(recorder.signals);
  auto reader = TraceReader::Open(directory_ + "/trace");
  CHECK(reader.ok());
  reader_ = *std::move(reader);
}

ToyRecording::~ToyRecording() {
  reader_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace hindsight
