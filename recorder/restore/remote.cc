#include "recorder/restore/remote.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/ptrace/whole/injected_call.h"
#include "recorder/ptrace/whole/stub_process.h"

namespace hindsight {
namespace {

constexpr uint8_t kCode[] = {0x0f, 0x05, 0x0f, 0x0b};  // syscall; ud2
constexpr uint64_t kFresh = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

absl::Status Failed(absl::string_view what, int64_t error) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": ", strerror(static_cast<int>(-error))));
}

bool IsError(int64_t value) { return value < 0 && value >= -4095; }

}  // namespace

absl::StatusOr<std::unique_ptr<Remote>> Remote::Make(pid_t process, uint64_t address) {
  ASSIGN_OR_RETURN(const uint64_t instruction, FindCallInstruction(process));
  const struct {
    uint64_t address, bytes, protection;
  } parts[] = {{address, kCodeBytes, PROT_READ | PROT_EXEC},
               {address + kCodeBytes, kScratchBytes, PROT_READ | PROT_WRITE}};
  for (const auto& part : parts) {
    ASSIGN_OR_RETURN(const InjectedResult mapped,
                     InjectCall(process, instruction, SYS_mmap,
                                {part.address, part.bytes, part.protection, kFresh, ~0ull, 0}));
    if (mapped.value != static_cast<int64_t>(part.address)) return Failed("mmap", mapped.value);
  }
  auto remote = absl::WrapUnique(new Remote(process, address));
  if (!remote->memory_.Write(address, kCode)) {
    return absl::PermissionDeniedError("the memory of the new process cannot be written");
  }
  return remote;
}

absl::StatusOr<int64_t> Remote::TryCall(pid_t thread, int64_t number,
                                        const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const InjectedResult result, InjectCall(thread, address_, number, arguments));
  return result.value;
}

absl::StatusOr<uint64_t> Remote::Call(absl::string_view what, pid_t thread, int64_t number,
                                      const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t value, TryCall(thread, number, arguments));
  if (IsError(value)) return Failed(what, value);
  return static_cast<uint64_t>(value);
}

absl::StatusOr<pid_t> Remote::MakeTask(int64_t number, const CallArguments& arguments,
                                       int64_t* result) {
  ASSIGN_OR_RETURN(const InjectedResult made, InjectCall(process_, address_, number, arguments));
  *result = made.value;
  if (made.task == 0) return Failed("making a thread", made.value);
  if (!AwaitNewTask(made.task)) return absl::UnavailableError("a new thread is gone");
  return made.task;
}

absl::StatusOr<uint64_t> Remote::Put(uint64_t offset, absl::Span<const uint8_t> bytes) {
  if (offset + bytes.size() > kScratchBytes) {
    return absl::ResourceExhaustedError("too much for a system call");
  }
  if (!memory_.Write(scratch() + offset, bytes)) {
    return absl::UnavailableError("the new process is gone");
  }
  return scratch() + offset;
}

absl::StatusOr<uint64_t> Remote::PutText(uint64_t offset, const std::string& text) {
  return Put(offset, {reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1});
}

absl::Status Remote::Remove() { return Call("munmap", SYS_munmap, {address_, kBytes}).status(); }

}  // namespace hindsight
