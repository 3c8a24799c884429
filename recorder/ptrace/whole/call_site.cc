#include "recorder/ptrace/whole/call_site.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

const Bytes& Call() {
  static const auto* bytes = new Bytes{0x0f, 0x05};
  return *bytes;
}
const Bytes& CallAndReturn() {
  static const auto* bytes = new Bytes{0x0f, 0x05, 0xc3};
  return *bytes;
}
// mov $15,%rax; syscall
const Bytes& Restorer() {
  static const auto* bytes = new Bytes{0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
  return *bytes;
}

// Of every vdso so far, and of the instruction in each of them.
constexpr uint64_t kVdsoBytes = 4096;
// Of one region. The C library has both in its first quarter of a megabyte.
constexpr uint64_t kMostSearched = 4 << 20;
constexpr uint64_t kPiece = 64 << 10;

// The address of the first occurrence in [start, end); 0: there is none.
uint64_t Find(const ProcessMemory& memory, uint64_t start, uint64_t end, const Bytes& wanted) {
  Bytes piece;
  for (uint64_t from = start; from + wanted.size() <= end; from += kPiece) {
    // Into the next piece, by what may lie across the border.
    piece.resize(std::min(end, from + kPiece + wanted.size() - 1) - from);
    if (!memory.Read(from, absl::MakeSpan(piece))) return 0;
    const auto found = std::search(piece.begin(), piece.end(), wanted.begin(), wanted.end());
    if (found != piece.end()) return from + static_cast<uint64_t>(found - piece.begin());
  }
  return 0;
}

bool IsAt(const ProcessMemory& memory, uint64_t address, const Bytes& wanted) {
  Bytes found(wanted.size());
  return memory.Read(address, absl::MakeSpan(found)) && found == wanted;
}

// Code of files, that of C libraries first.
std::vector<MapRegion> CodeOf(pid_t process) {
  std::vector<MapRegion> code;
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process, "/maps"));
  for (const MapRegion& region : map.regions()) {
    if (region.protection == (PROT_READ | PROT_EXEC) && region.inode != 0 && !region.shared) {
      code.push_back(region);
    }
  }
  std::stable_sort(code.begin(), code.end(), [](const MapRegion& a, const MapRegion& b) {
    return absl::StrContains(a.name, "libc") > absl::StrContains(b.name, "libc");
  });
  return code;
}

uint64_t VdsoOf(pid_t process) {
  const std::vector<uint64_t> auxv = AuxiliaryVector(process);
  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == AT_SYSINFO_EHDR) return auxv[i + 1];
  }
  return 0;
}

}  // namespace

absl::StatusOr<CallSite> FindCallSite(pid_t process) {
  const ProcessVmMemory memory(process);
  for (const MapRegion& region : CodeOf(process)) {
    const uint64_t end = std::min(region.end, region.start + kMostSearched);
    const uint64_t restorer = Find(memory, region.start, end, Restorer());
    if (restorer == 0) continue;
    const uint64_t instruction = Find(memory, region.start, end, CallAndReturn());
    if (instruction != 0) return CallSite{instruction, restorer};
  }
  ASSIGN_OR_RETURN(const uint64_t instruction, FindCallInstruction(process));
  return CallSite{instruction, 0};
}

absl::StatusOr<uint64_t> FindCallInstruction(pid_t thread) {
  const uint64_t vdso = VdsoOf(thread);
  if (vdso == 0) return absl::UnavailableError("the program has no vdso");
  const uint64_t instruction = Find(ProcessVmMemory(thread), vdso, vdso + kVdsoBytes, Call());
  if (instruction == 0) return absl::UnavailableError("the vdso makes no system calls");
  return instruction;
}

bool IsStillThere(pid_t thread, const CallSite& site) {
  const ProcessVmMemory memory(thread);
  return IsAt(memory, site.instruction, site.restorer == 0 ? Call() : CallAndReturn()) &&
         (site.restorer == 0 || IsAt(memory, site.restorer, Restorer()));
}

}  // namespace hindsight
