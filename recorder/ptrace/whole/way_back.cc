#include "recorder/ptrace/whole/way_back.h"

#include <cpuid.h>
#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "isa/host_registers.h"
#include "recorder/process/process_memory.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {
namespace {

constexpr uint64_t kRedZone = 128;
constexpr uint64_t kInstructionBytes = 2;  // of syscall

// struct rt_sigframe of the kernel, as far as rt_sigreturn reads it.
struct ReturnFrame {
  uint64_t restorer = 0;
  uint64_t flags = 0;
  uint64_t link = 0;
  stack_t stack = {};
  gregset_t registers = {};
  uint64_t vectors = 0;  // address of the XSAVE image
  uint64_t reserved[8] = {};
  uint64_t mask = 0;
};

// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
constexpr uint64_t kFrameFlags = 7;
// No state of a signal stack: the kernel leaves the one that there is.
constexpr int kNoStackFlags = 1 << 28;

// What the kernel looks for in the image, in place of the components that ptrace says there: struct
// _fpx_sw_bytes, and a mark at the end.
constexpr size_t kSoftwareBytes = 464;
constexpr uint32_t kMagic = 0x46505853, kMagicAtEnd = 0x46505845;
constexpr size_t kStateBits = 512;
constexpr uint64_t kTileComponents = uint64_t{3} << 17;

// The size of the image with these components.
size_t ImageBytes(uint64_t components) {
  size_t bytes = 576;
  for (unsigned component = 2; component < 63; ++component) {
    if ((components >> component & 1) == 0) continue;
    unsigned size = 0, offset = 0, c, d;
    __get_cpuid_count(0xd, component, &size, &offset, &c, &d);
    bytes = std::max<size_t>(bytes, size_t{offset} + size);
  }
  return bytes;
}

uint64_t WordAt(const std::vector<uint8_t>& image, size_t offset) {
  uint64_t word;
  std::memcpy(&word, image.data() + offset, sizeof(word));
  return word;
}

void Put(std::vector<uint8_t>* image, size_t offset, uint32_t value) {
  std::memcpy(image->data() + offset, &value, sizeof(value));
}

// The thread's x87 and vector registers as in a signal frame; empty: they cannot be had.
std::vector<uint8_t> VectorImage(pid_t thread) {
  const size_t most = XstateBytes();
  std::vector<uint8_t> image(most);
  iovec buffer = {image.data(), image.size()};
  if (most < 576 || ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &buffer) != 0) return {};
  uint64_t components = WordAt(image, kSoftwareBytes);
  // Whether a thread may use tiles at all: if it does.
  if ((WordAt(image, kStateBits) & kTileComponents) == 0) components &= ~kTileComponents;
  const size_t bytes = ImageBytes(components);
  if (bytes > buffer.iov_len) return {};
  image.resize(bytes);
  std::fill_n(image.begin() + kSoftwareBytes, 48, uint8_t{0});
  Put(&image, kSoftwareBytes, kMagic);
  Put(&image, kSoftwareBytes + 4, static_cast<uint32_t>(bytes + sizeof(kMagicAtEnd)));
  std::memcpy(image.data() + kSoftwareBytes + 8, &components, sizeof(components));
  Put(&image, kSoftwareBytes + 16, static_cast<uint32_t>(bytes));
  image.resize(bytes + sizeof(kMagicAtEnd));
  Put(&image, bytes, kMagicAtEnd);
  return image;
}

// As the kernel would make the call again that the thread is in.
user_regs_struct Restarted(const user_regs_struct& registers) {
  user_regs_struct restarted = registers;
  const auto result = static_cast<int64_t>(registers.rax);
  if (static_cast<int64_t>(registers.orig_rax) < 0 || !IsRestartCode(result)) return restarted;
  restarted.rip -= kInstructionBytes;
  restarted.rax = NeedsRestartSyscall(result) ? SYS_restart_syscall : registers.orig_rax;
  return restarted;
}

ReturnFrame FrameOf(const user_regs_struct& r, uint64_t mask) {
  ReturnFrame frame;
  frame.flags = kFrameFlags;
  frame.stack.ss_flags = kNoStackFlags;
  frame.mask = mask;
  // In the order of gregset_t.
  const uint64_t values[] = {r.r8,
                             r.r9,
                             r.r10,
                             r.r11,
                             r.r12,
                             r.r13,
                             r.r14,
                             r.r15,
                             r.rdi,
                             r.rsi,
                             r.rbp,
                             r.rbx,
                             r.rdx,
                             r.rax,
                             r.rcx,
                             r.rsp,
                             r.rip,
                             r.eflags,
                             r.cs | r.gs << 16 | r.fs << 32 | r.ss << 48};
  for (size_t i = 0; i < std::size(values); ++i) {
    frame.registers[i] = static_cast<greg_t>(values[i]);
  }
  return frame;
}

}  // namespace

WayBack::WayBack(pid_t thread, const CallSite& site, const user_regs_struct& registers,
                 uint64_t mask)
    : thread_(thread) {
  if (site.restorer == 0 || !IsStillThere(thread, site)) return;
  const std::vector<uint8_t> vectors = VectorImage(thread);
  if (vectors.empty()) return;
  ReturnFrame frame = FrameOf(Restarted(registers), mask);
  frame.restorer = site.restorer;
  frame.vectors = (registers.rsp - kRedZone - vectors.size()) / 64 * 64;
  const uint64_t start = (frame.vectors - sizeof(frame)) / 16 * 16;
  const size_t offset = frame.vectors - start;
  std::vector<uint8_t> bytes(offset + vectors.size());
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  std::copy(vectors.begin(), vectors.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
  overwritten_.resize(bytes.size());
  ProcessVmMemory memory(thread);
  if (!memory.Read(start, absl::MakeSpan(overwritten_)) || !memory.Write(start, bytes)) return;
  stack_ = start;
}

WayBack::~WayBack() {
  if (stack_ != 0) ProcessVmMemory(thread_).Write(stack_, overwritten_);
}

}  // namespace hindsight
