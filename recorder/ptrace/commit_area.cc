#include "recorder/ptrace/commit_area.h"

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/ptrace/wait_status.h"

// What a parked thread executes once its recorder is dead.
//   rbx: its slot; r12: the page of `state`; r13: the value of `state` that is its own
asm(R"(
.pushsection .rodata
.globl hindsight_commit_code, hindsight_commit_wait, hindsight_commit_code_end
hindsight_commit_code:
  dec %rcx
  jnz hindsight_commit_code
hindsight_commit_wait:
  mov (%r12), %rax
  test %rax, %rax
  jz 3f
  cmp %r13, %rax
  je 1f
  pause
  jmp hindsight_commit_wait
1:
  cld
  mov 8(%r12), %r14
  mov 16(%r12), %r15
2:
  test %r15, %r15
  jz 4f
  mov (%r14), %rdi
  mov 8(%r14), %rsi
  mov 16(%r14), %rcx
  rep movsb
  add $24, %r14
  dec %r15
  jmp 2b
4:
  mov 8(%rbx), %rax
  mov %rax, (%rbx)
  xor %eax, %eax
  mov %rax, (%r12)
3:
  mov (%rbx), %rbp
  mov $158, %eax      # arch_prctl(ARCH_SET_FS)
  mov $0x1002, %edi
  mov -16(%rbp), %rsi
  syscall
  mov $158, %eax      # arch_prctl(ARCH_SET_GS)
  mov $0x1001, %edi
  mov -8(%rbp), %rsi
  syscall
  cmpq $0, -24(%rbp)
  je 5f
  # rt_sigreturn forgets what was left of an interrupted call: that goes on here, with the mask and
  # the stack that handlers of signals find as ever.
  mov 160(%rbp), %rsp
  lea 296(%rbp), %rsi
  mov $14, %eax       # rt_sigprocmask(SIG_SETMASK)
  mov $2, %edi
  xor %edx, %edx
  mov $8, %r10d
  syscall
  mov $219, %eax      # restart_syscall
  syscall
  mov %rax, 144(%rbp)
  addq $2, 168(%rbp)
  lea -32(%rbp), %rsi
  mov $14, %eax       # rt_sigprocmask(SIG_SETMASK)
  mov $2, %edi
  xor %edx, %edx
  mov $8, %r10d
  syscall
5:
  mov %rbp, %rsp
  mov $15, %eax       # rt_sigreturn
  syscall
  hlt
hindsight_commit_code_end:
.popsection
)");

extern "C" const uint8_t hindsight_commit_code[], hindsight_commit_wait[],
    hindsight_commit_code_end[];

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int kMaxSlots = 256;
// The journal's room: what one commit may write and still be undividable. Only what is used takes
// memory.
constexpr uint64_t kJournalBytes[] = {uint64_t{256} << 20, uint64_t{16} << 20};
// Of the loop of a spinning thread: some ten seconds, far longer than it is ever left alone.
constexpr uint64_t kSpins = uint64_t{1} << 35;

// Before a frame, at the end of so many bytes: a mask that blocks all, whether a call is to be
// restarted, fs base, gs base.
constexpr uint64_t kHeadBytes = 64;
constexpr uint64_t kSlotHeadBytes = 64;
constexpr uint64_t kEntryBytes = 24;

uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Where the kernel looks in the vector state of a signal frame (struct _fpx_sw_bytes).
constexpr size_t kSoftwareOffset = 464;
struct SoftwareBytes {
  uint32_t magic1, extended_size;
  uint64_t features;
  uint32_t state_size;
};
constexpr uint32_t kMagic2 = 0x46505845;

// Flags of a frame: with extended state, and with ss as it is.
constexpr unsigned long kFrameFlags = 1 | 2 | 4;
// An impossible alternate stack: rt_sigreturn leaves the thread's own alone then.
constexpr int kNoSuchStackFlags = 0x7f;

// What the kernel writes into frames here: the size of the state differs from ptrace's where a
// component must be asked for.
SoftwareBytes& OwnFrameFormat() {
  static SoftwareBytes format = {};
  return format;
}

void ReadFrameFormat(int, siginfo_t*, void* context) {
  const auto* frame = static_cast<const ucontext_t*>(context);
  std::memcpy(&OwnFrameFormat(),
              reinterpret_cast<const uint8_t*>(frame->uc_mcontext.fpregs) + kSoftwareOffset,
              sizeof(SoftwareBytes));
}

const SoftwareBytes& FrameFormat() {
  if (OwnFrameFormat().state_size != 0) return OwnFrameFormat();
  struct sigaction action = {}, before;
  action.sa_sigaction = ReadFrameFormat;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGRTMAX, &action, &before);
  raise(SIGRTMAX);
  sigaction(SIGRTMAX, &before, nullptr);
  return OwnFrameFormat();
}

uint64_t VectorsOffset() { return kHeadBytes + RoundUp(sizeof(ucontext_t), 64); }
uint64_t FrameBytes() { return RoundUp(VectorsOffset() + FrameFormat().extended_size, 64); }

void FillGeneral(const user_regs_struct& from, ucontext_t* to) {
  greg_t* const out = to->uc_mcontext.gregs;
  const std::pair<int, unsigned long long> registers[] = {
      {REG_R8, from.r8},
      {REG_R9, from.r9},
      {REG_R10, from.r10},
      {REG_R11, from.r11},
      {REG_R12, from.r12},
      {REG_R13, from.r13},
      {REG_R14, from.r14},
      {REG_R15, from.r15},
      {REG_RDI, from.rdi},
      {REG_RSI, from.rsi},
      {REG_RBP, from.rbp},
      {REG_RBX, from.rbx},
      {REG_RDX, from.rdx},
      {REG_RAX, from.rax},
      {REG_RCX, from.rcx},
      {REG_RSP, from.rsp},
      {REG_RIP, from.rip},
      {REG_EFL, from.eflags},
      {REG_CSGSFS, from.cs | from.gs << 16 | from.fs << 32 | from.ss << 48}};
  for (const auto& [index, value] : registers) out[index] = static_cast<greg_t>(value);
}

// As the code above has them.
static_assert(offsetof(ucontext_t, uc_mcontext.gregs[REG_RAX]) == 144);
static_assert(offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) == 160);
static_assert(offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]) == 168);
static_assert(offsetof(ucontext_t, uc_sigmask) == 296);

// A signal frame as rt_sigreturn takes it, for `address`, with what goes before it.
void BuildFrame(const ThreadContext& context, uint64_t address, std::vector<uint8_t>* bytes) {
  bytes->assign(FrameBytes(), 0);
  const uint64_t before[4] = {~uint64_t{0}, context.restarts_call, context.general.fs_base,
                              context.general.gs_base};
  std::memcpy(bytes->data() + kHeadBytes - sizeof(before), before, sizeof(before));
  ucontext_t frame = {};
  frame.uc_flags = kFrameFlags;
  frame.uc_stack.ss_flags = kNoSuchStackFlags;
  FillGeneral(context.general, &frame);
  std::memcpy(&frame.uc_sigmask, &context.signal_mask, sizeof(context.signal_mask));
  frame.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(address + VectorsOffset() - kHeadBytes);
  std::memcpy(bytes->data() + kHeadBytes, &frame, sizeof(frame));
  const SoftwareBytes& format = FrameFormat();
  uint8_t* const vectors = bytes->data() + VectorsOffset();
  std::copy_n(context.vectors.data(), std::min<size_t>(context.vectors.size(), format.state_size),
              vectors);
  std::memset(vectors + kSoftwareOffset, 0, 512 - kSoftwareOffset);
  std::memcpy(vectors + kSoftwareOffset, &format, sizeof(format));
  std::memcpy(vectors + format.state_size, &kMagic2, sizeof(kMagic2));
}

bool IsConfined(pid_t thread) {
  std::FILE* status = std::fopen(absl::StrCat("/proc/", thread, "/status").c_str(), "re");
  if (status == nullptr) return true;
  char line[256];
  int mode = 0;
  while (std::fgets(line, sizeof(line), status) != nullptr) {
    std::sscanf(line, "Seccomp: %d", &mode);
  }
  std::fclose(status);
  return mode != 0;
}

absl::Status WriteCode(pid_t thread, uint64_t address) {
  const size_t size = hindsight_commit_code_end - hindsight_commit_code;
  if (!ProcMemFile(thread).Write(address, absl::MakeConstSpan(hindsight_commit_code, size))) {
    return absl::UnavailableError("cannot write to the process's memory");
  }
  return absl::OkStatus();
}

// Some of a stopped thread's memory, which is put back at the end.
class BorrowedMemory {
 public:
  BorrowedMemory(pid_t thread, uint64_t address, size_t size)
      : memory_(thread), address_(address), saved_(size) {
    valid_ = memory_.Read(address_, absl::MakeSpan(saved_));
  }
  ~BorrowedMemory() {
    if (valid_) memory_.Write(address_, saved_);
  }
  BorrowedMemory(const BorrowedMemory&) = delete;
  BorrowedMemory& operator=(const BorrowedMemory&) = delete;

  bool Write(const std::vector<uint8_t>& bytes) { return valid_ && memory_.Write(address_, bytes); }

 private:
  ProcessVmMemory memory_;
  const uint64_t address_;
  std::vector<uint8_t> saved_;
  bool valid_ = false;
};

// Runs a stopped thread to its next entry to or exit from a system call. No signals but SIGSTOP.
bool RunToCallStop(pid_t thread, bool* sigstop) {
  while (true) {
    if (ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr) != 0) return false;
    const std::optional<WaitStatus> status = WaitForThread(thread);
    if (!status.has_value() || !status->stopped()) return false;
    if (status->kind == WaitStatus::Kind::kSyscall) return true;
    *sigstop |= status->signal_to_deliver() == SIGSTOP;
  }
}

// What a stopped thread goes on with, and where it was before it makes a call for us.
struct StoppedState {
  user_regs_struct general;
  std::vector<uint8_t> vectors;
  uint64_t mask = 0;

  bool Read(pid_t thread) {
    // ptrace has more than the frame where a component must be asked for; whole words.
    vectors.resize(RoundUp(FrameFormat().extended_size, kPage) + 4 * kPage);
    iovec buffer = {vectors.data(), vectors.size()};
    const bool read = ptrace(PTRACE_GETREGS, thread, nullptr, &general) == 0 &&
                      ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &buffer) == 0 &&
                      ptrace(PTRACE_GETSIGMASK, thread, sizeof(mask), &mask) == 0;
    vectors.resize(buffer.iov_len);
    return read;
  }
  bool PutBack(pid_t thread) {
    return ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask) == 0 &&
           ptrace(PTRACE_SETREGS, thread, nullptr, &general) == 0;
  }
};

struct Call {
  uint64_t number = 0, first = 0, second = 0, third = 0, fourth = 0;
};

// Has the thread make a system call. Should this process die meanwhile, the thread goes on from
// where it was all the same: the call, at `code`, is followed by the return to a frame, which is
// laid on its stack for so long.
absl::StatusOr<int64_t> CallAndReturn(pid_t thread, uint64_t code, const Call& call) {
  constexpr uint64_t kRedZoneBytes = 128;
  const absl::Status gone = absl::UnavailableError(absl::StrCat("thread ", thread, " is gone"));
  StoppedState saved;
  if (!saved.Read(thread)) return gone;
  const uint64_t at = (saved.general.rsp - kRedZoneBytes - FrameBytes()) / 64 * 64;
  std::vector<uint8_t> frame;
  BuildFrame({saved.general, saved.vectors, saved.mask}, at + kHeadBytes, &frame);
  BorrowedMemory stack(thread, at, frame.size());
  if (!stack.Write(frame)) return absl::UnavailableError("its stack has no room");
  user_regs_struct registers = saved.general;
  registers.rip = code;
  registers.rsp = at + kHeadBytes;
  registers.orig_rax = ~uint64_t{0};
  registers.rax = call.number;
  registers.rdi = call.first;
  registers.rsi = call.second;
  registers.rdx = call.third;
  registers.r10 = call.fourth;
  registers.r8 = ~uint64_t{0};
  registers.r9 = 0;
  const uint64_t all = ~uint64_t{0};
  bool sigstop = false;
  user_regs_struct after;
  const bool made = ptrace(PTRACE_SETREGS, thread, nullptr, &registers) == 0 &&
                    ptrace(PTRACE_SETSIGMASK, thread, sizeof(all), &all) == 0 &&
                    RunToCallStop(thread, &sigstop) && RunToCallStop(thread, &sigstop) &&
                    ptrace(PTRACE_GETREGS, thread, nullptr, &after) == 0;
  if (sigstop) syscall(SYS_tkill, thread, SIGSTOP);
  if (!saved.PutBack(thread) || !made) return gone;
  return static_cast<int64_t>(after.rax);
}

absl::StatusOr<uint64_t> MapArea(pid_t thread, uint64_t call, uint64_t size) {
  ASSIGN_OR_RETURN(const int64_t mapped,
                   CallAndReturn(thread, call,
                                 {SYS_mmap, 0, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE}));
  if (mapped < 0 && mapped > -int64_t{kPage}) {
    return absl::UnavailableError("no room in the process's memory");
  }
  return static_cast<uint64_t>(mapped);
}

}  // namespace

CommitArea::CommitArea(uint64_t address, uint64_t size_bytes, uint64_t call)
    : address_(address),
      size_bytes_(size_bytes),
      call_(call),
      frame_bytes_(FrameBytes()),
      slot_bytes_(kSlotHeadBytes + 2 * frame_bytes_),
      journal_(address + RoundUp(2 * kPage + kMaxSlots * slot_bytes_, kPage)) {}

absl::StatusOr<std::unique_ptr<CommitArea>> CommitArea::Install(pid_t thread, uint64_t call) {
  if (IsConfined(thread)) {
    return absl::UnavailableError("its system calls are restricted (seccomp)");
  }
  if (FrameFormat().state_size == 0) return absl::UnavailableError("the host has no XSAVE");
  const uint64_t head = RoundUp(2 * kPage + kMaxSlots * (kSlotHeadBytes + 2 * FrameBytes()), kPage);
  absl::StatusOr<uint64_t> address = absl::UnavailableError("");
  uint64_t size = 0;
  for (const uint64_t journal : kJournalBytes) {
    size = head + journal;
    address = MapArea(thread, call, size);
    if (address.ok()) break;
  }
  RETURN_IF_ERROR(address.status());
  absl::Status status = WriteCode(thread, *address);
  if (status.ok()) {
    status = CallAndReturn(thread, call, {SYS_mprotect, *address, kPage, PROT_READ | PROT_EXEC})
                 .status();
  }
  for (const int advice : {MADV_DONTFORK, MADV_DONTDUMP}) {
    if (!status.ok()) break;
    status =
        CallAndReturn(thread, call, {SYS_madvise, *address, size, static_cast<uint64_t>(advice)})
            .status();
  }
  RETURN_IF_ERROR(status);
  return std::unique_ptr<CommitArea>(new CommitArea(*address, size, call));
}

void CommitArea::Remove(pid_t thread) {
  CallAndReturn(thread, call_, {SYS_munmap, address_, size_bytes_}).status().IgnoreError();
}

std::optional<int> CommitArea::TakeSlot() {
  if (!free_.empty()) {
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (slots_ == kMaxSlots) return std::nullopt;
  version_.push_back(0);
  return slots_++;
}

uint64_t CommitArea::SlotAddress(int slot) const {
  return address_ + 2 * kPage + static_cast<uint64_t>(slot) * slot_bytes_;
}

// Of the frame itself, after what goes before it.
uint64_t CommitArea::FrameAddress(int slot, int version) const {
  return SlotAddress(slot) + kSlotHeadBytes + static_cast<uint64_t>(version) * frame_bytes_ +
         kHeadBytes;
}

MemoryPiece CommitArea::Word(uint64_t address, uint64_t value) {
  words_.push_back(std::make_unique<uint64_t>(value));
  return {address, reinterpret_cast<uint8_t*>(words_.back().get()), sizeof(value)};
}

std::vector<MemoryPiece> CommitArea::PlanPark(int slot, const ThreadContext& now) {
  words_.clear();
  version_[slot] ^= 1;
  const uint64_t frame = FrameAddress(slot, version_[slot]);
  BuildFrame(now, frame, &frame_);
  return {{frame - kHeadBytes, frame_.data(), frame_.size()}, Word(SlotAddress(slot), frame)};
}

user_regs_struct CommitArea::Parked(int slot, const user_regs_struct& registers) const {
  user_regs_struct parked = registers;
  parked.rip = address_ + static_cast<uint64_t>(hindsight_commit_wait - hindsight_commit_code);
  parked.rsp = FrameAddress(slot, 0);
  parked.rbx = SlotAddress(slot);
  parked.r12 = address_ + kPage;
  parked.r13 = static_cast<uint64_t>(slot) + 1;
  parked.orig_rax = ~uint64_t{0};  // in no system call that could be restarted
  return parked;
}

user_regs_struct CommitArea::Spinning(int slot, const user_regs_struct& registers) const {
  user_regs_struct spinning = Parked(slot, registers);
  spinning.rip = address_;
  spinning.rcx = kSpins;
  return spinning;
}

std::vector<MemoryPiece> CommitArea::PlanCommit(int slot, const ThreadContext& after,
                                                absl::Span<const MemoryPiece> pieces) {
  words_.clear();
  uint64_t size = pieces.size() * kEntryBytes;
  uint64_t source = journal_ + size;
  for (const MemoryPiece& piece : pieces) size += piece.length;
  if (size > address_ + size_bytes_ - journal_) return {};
  entries_.resize(size);
  uint8_t* entry = entries_.data();
  for (const MemoryPiece& piece : pieces) {
    const uint64_t fields[3] = {piece.address, source, piece.length};
    std::memcpy(entry, fields, sizeof(fields));
    std::memcpy(entries_.data() + (source - journal_), piece.bytes, piece.length);
    entry += kEntryBytes;
    source += piece.length;
  }
  version_[slot] ^= 1;
  const uint64_t frame = FrameAddress(slot, version_[slot]);
  BuildFrame(after, frame, &frame_);
  const uint64_t state = address_ + kPage;
  std::vector<MemoryPiece> plan = {{journal_, entries_.data(), entries_.size()},
                                   {frame - kHeadBytes, frame_.data(), frame_.size()},
                                   Word(SlotAddress(slot) + 8, frame),
                                   Word(state + 8, journal_),
                                   Word(state + 16, pieces.size()),
                                   Word(state, static_cast<uint64_t>(slot) + 1)};
  plan.insert(plan.end(), pieces.begin(), pieces.end());
  plan.push_back(Word(SlotAddress(slot), frame));
  plan.push_back(Word(state, 0));
  return plan;
}

}  // namespace hindsight
