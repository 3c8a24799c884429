#include "recorder/translate/agent/boot.h"

#include <asm/prctl.h>
#include <elf.h>
#include <errno.h>
#include <linux/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/tasks.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

// Written by the recorder before the agent runs, hence not constant.
volatile BootParameters boot_parameters = {};

extern "C" __attribute__((visibility("hidden"))) const char agent_data[], agent_end[];

__attribute__((section(".header"), used)) const AgentImageHeader image_header = {
    kAgentMagic, reinterpret_cast<uint64_t>(&AgentEntry), reinterpret_cast<uint64_t>(agent_data),
    reinterpret_cast<uint64_t>(agent_end), const_cast<BootParameters*>(&boot_parameters)};

int64_t Map(uint64_t address, uint64_t bytes, int protection, int flags, int file = -1,
            uint64_t offset = 0) {
  const int64_t result = Call(SYS_mmap, address, bytes, protection, flags,
                              static_cast<uint64_t>(static_cast<int64_t>(file)), offset);
  return IsError(result) ? result : 0;
}

constexpr uint64_t kPageBytes = 4096;

uint64_t StackBytes() {
  rlimit limit = {};
  Call(SYS_prlimit64, 0, RLIMIT_STACK, 0, AddressOf(&limit));
  const uint64_t bytes = limit.rlim_cur & ~(kPageBytes - 1);
  return bytes > kLargestStackBytes ? kLargestStackBytes : bytes;
}

// Moves one pointer of the initial stack.
struct Shift {
  uint64_t start, end, distance;
  void Apply(uint64_t* pointer) const {
    if (*pointer >= start && *pointer < end) *pointer += distance;
  }
};

bool IsPointer(uint64_t auxv_type) {
  return auxv_type == AT_RANDOM || auxv_type == AT_EXECFN || auxv_type == AT_PLATFORM ||
         auxv_type == AT_BASE_PLATFORM;
}

// argc, argv, null, envp, null, auxv.
void ShiftPointers(uint64_t* word, const Shift& shift) {
  for (++word; *word != 0; ++word) shift.Apply(word);
  for (++word; *word != 0; ++word) shift.Apply(word);
  for (++word; word[0] != AT_NULL; word += 2) {
    if (IsPointer(word[0])) shift.Apply(&word[1]);
  }
}

[[noreturn]] void Fail(int64_t error) {
  Control()->boot_error = static_cast<int32_t>(-error);
  __atomic_store_n(&Control()->boot_state, static_cast<uint32_t>(BootState::kFailed),
                   __ATOMIC_RELEASE);
  while (true) Call(SYS_exit_group, 127);
}

void Require(int64_t result) {
  if (IsError(result)) Fail(result);
}

// Only the fields that tell where things are.
Thread* SetUpThread(uint64_t number) {
  auto* block = PointerTo<HsThreadBlock>(DistanceOf(number) + HS_BLOCK_OFFSET);
  auto* thread = PointerTo<Thread>(DistanceOf(number) + HS_THREAD_OFFSET);
  block->agent_exit = AddressOf(&AgentExit);
  block->agent_stack = GapOf(number) + kAgentStackOffset + kAgentStackBytes;
  thread->self = thread;
  thread->block = block;
  thread->number = number;
  // All other entries are of pc 0, which is not theirs.
  thread->table()[0].pc = HS_TABLE_EMPTY;
  HsForgetPlaces(block, kLibraryArena);
  return thread;
}

int64_t MakeMemoryFile() {
  static constexpr char kName[] = "hindsight";
  return Call(SYS_memfd_create, AddressOf(kName), 1 /* MFD_CLOEXEC */);
}

}  // namespace

const BootParameters& Boot() { return const_cast<const BootParameters&>(boot_parameters); }

int64_t MapShared(int file) {
  constexpr int kFlags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  struct Part {
    uint64_t address, bytes;
    int protection;
    uint64_t in_file;
  };
  const Part parts[] = {
      {kControlAddress, kControlBytes, PROT_READ | PROT_WRITE, kControlInFile},
      {kBlockMap, kBlockMapBytes, PROT_READ, kBlockMapInFile},
      {kLibraryArena, kArenaBytes, PROT_READ | PROT_EXEC, kLibraryArenaInFile},
      {kPieArena, kArenaBytes, PROT_READ | PROT_EXEC, kPieArenaInFile},
      {kRings, RingOf(kLastThread + 1) - kRings, PROT_READ | PROT_WRITE, kRingsInFile},
  };
  for (const Part& part : parts) {
    const int64_t result =
        Map(part.address, part.bytes, part.protection, kFlags, file, part.in_file);
    if (result != 0) return result;
  }
  return 0;
}

Thread* MakeThread(uint64_t number) {
  const uint64_t start = GapOf(number) + kAgentStackOffset;
  if (Map(start, DistanceOf(number) + HS_TABLES_END - start, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE) != 0) {
    return nullptr;
  }
  return SetUpThread(number);
}

Thread* ResetThread(uint64_t number) {
  const uint64_t start = DistanceOf(number) + HS_GUARDS_OFFSET;
  Call(SYS_madvise, start, DistanceOf(number) + HS_TABLES_END - start, MADV_DONTNEED);
  return SetUpThread(number);
}

int64_t MakeMemoryFileAnyway() {
  int64_t file = MakeMemoryFile();
  constexpr uint64_t kAllThereCanBe = 1 << 20;
  rlimit before = {};
  Call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, AddressOf(&before));
  const uint64_t limits[] = {before.rlim_max, kAllThereCanBe};
  for (const uint64_t limit : limits) {
    if (file != -EMFILE) break;
    const rlimit more = {limit, limit};
    Call(SYS_prlimit64, 0, RLIMIT_NOFILE, AddressOf(&more), 0);
    file = MakeMemoryFile();
    Call(SYS_prlimit64, 0, RLIMIT_NOFILE, AddressOf(&before), 0);
  }
  return file;
}

int64_t MoveStack(uint64_t stack_pointer, uint64_t stack_end) {
  const uint64_t bytes = StackBytes(), used = stack_end - stack_pointer;
  const Shift shift = {stack_pointer, stack_end, kStackEnd - stack_end};
  const int64_t mapped =
      Map(kStackEnd - bytes, bytes, static_cast<int>(Boot().stack_protection),
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK);
  if (mapped != 0) return mapped;
  const uint64_t moved = stack_pointer + shift.distance;
  memcpy(PointerTo<void>(moved), PointerTo<void>(stack_pointer), used);
  ShiftPointers(PointerTo<uint64_t>(moved), shift);
  return static_cast<int64_t>(moved);
}

extern "C" [[noreturn]] void AgentBoot() {
  const BootParameters& boot = Boot();
  const int64_t shared = MapShared(boot.memory_file);
  if (shared != 0) Call(SYS_exit_group, 127);  // nowhere to tell it
  Call(SYS_close, static_cast<uint64_t>(boot.memory_file));
  const int64_t moved = MoveStack(boot.guest_sp, boot.stack_end);
  Require(moved);
  TellMovedStack(boot.places, static_cast<uint64_t>(moved), kStackEnd - boot.stack_end);
  Thread* thread = MakeFirstThread();
  if (thread == nullptr) Fail(-12);
  thread->pc = boot.guest_pc;
  thread->registers[kRsp] = static_cast<uint64_t>(moved);
  thread->flags = 0x202;
  thread->process_id = thread->thread_id = static_cast<int32_t>(Call(SYS_getpid));
  thread->recorded_process = thread->recorded_thread = boot.process;
  thread->in_namespace = Control()->recorder_process == 0 ? 1 : 0;
  Control()->boot_state = static_cast<uint32_t>(BootState::kRunning);
  if (boot.translate == 0) LeaveNatively(thread, /*step=*/false);
  Require(Call(SYS_arch_prctl, ARCH_SET_GS, HsGsBase(DistanceOf(kFirstThread))));
  Require(StartSignals(thread));
  if (boot.record != 0) Require(StartRecording(thread));
  Continue(thread);
}

}  // namespace hindsight::agent
