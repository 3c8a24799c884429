#include "recorder/translate/injection.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "isa/host_registers.h"
#include "isa/registers.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_facts.h"
#include "recorder/ptrace/remote_call.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/translate/agent_image.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace hindsight {
namespace {

absl::Status Gone() { return absl::UnavailableError("the program is gone"); }

absl::StatusOr<uint64_t> CallChecked(pid_t thread, const char* name, int64_t number,
                                     const std::array<uint64_t, 6>& arguments) {
  ASSIGN_OR_RETURN(const int64_t result, CallInThread(thread, number, arguments));
  if (result < 0 && result >= -4095) {
    return absl::UnavailableError(absl::StrCat(name, ": ", strerror(static_cast<int>(-result))));
  }
  return static_cast<uint64_t>(result);
}

// The initial stack, whose place does not matter, or an error if anything else is out of place.
absl::StatusOr<MapRegion> CheckLayout(const MemoryMap& map, uint64_t stack_pointer) {
  const MapRegion* stack = map.Find(stack_pointer);
  if (stack == nullptr) return Gone();
  for (const MapRegion& region : map.regions()) {
    const bool kernels = region.start >= uint64_t{1} << 63;
    if (&region == stack || kernels || InWindows(region.start, region.end)) continue;
    return absl::UnimplementedError(
        absl::StrCat("memory at 0x", absl::Hex(region.start), " (", region.name, ")"));
  }
  return *stack;
}

// Opens a memory file in the program; returns its descriptor there.
absl::StatusOr<int> MakeFile(uint64_t stack_pointer, Tracee* tracee) {
  // Where nothing is yet.
  const uint64_t place = stack_pointer - 256;
  static constexpr char kName[] = "hindsight";
  const auto* bytes = reinterpret_cast<const uint8_t*>(kName);
  if (!tracee->memory().Write(place, {bytes, sizeof(kName)})) return Gone();
  ASSIGN_OR_RETURN(const uint64_t fd, CallChecked(tracee->thread(), "memfd_create",
                                                  SYS_memfd_create, {place, MFD_CLOEXEC}));
  return static_cast<int>(fd);
}

ImagePlaces PlacesOf(pid_t process) {
  const std::vector<uint64_t> fields = StatFields(process);
  // As proc(5) counts them, from 1.
  const auto field = [&fields](size_t number) {
    return number <= fields.size() ? fields[number - 1] : 0;
  };
  return {.start_code = field(26),
          .end_code = field(27),
          .start_data = field(45),
          .end_data = field(46),
          .start_brk = field(47),
          .arg_start = field(48),
          .arg_end = field(49),
          .env_start = field(50),
          .env_end = field(51)};
}

const AgentImageHeader& ImageHeader() {
  return *reinterpret_cast<const AgentImageHeader*>(AgentImage().data());
}

bool IsZero(absl::Span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// The file is zeros: most of the image's data need not be written.
std::vector<absl::Span<const uint8_t>> PiecesOfImage() {
  const absl::Span<const uint8_t> image = AgentImage();
  std::vector<absl::Span<const uint8_t>> pieces;
  for (size_t at = 0; at < image.size(); at += kPageBytes) {
    const absl::Span<const uint8_t> page = image.subspan(at, kPageBytes);
    if (IsZero(page)) continue;
    const bool follows = !pieces.empty() && pieces.back().end() == page.begin();
    if (!follows) pieces.push_back(page.first(0));
    pieces.back() = {pieces.back().data(), pieces.back().size() + page.size()};
  }
  return pieces;
}

void WriteImage(const BootParameters& boot, MemoryFile* file) {
  static const auto* const pieces = new std::vector<absl::Span<const uint8_t>>(PiecesOfImage());
  for (const absl::Span<const uint8_t> piece : *pieces) {
    file->WriteImage(static_cast<uint64_t>(piece.data() - AgentImage().data()), piece);
  }
  const auto place = reinterpret_cast<uint64_t>(ImageHeader().boot) - kAgentImage;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&boot);
  file->WriteImage(place, {bytes, sizeof(boot)});
}

absl::Status MapImage(pid_t thread, int fd) {
  const AgentImageHeader& header = ImageHeader();
  struct Part {
    uint64_t start, end, protection;
  };
  for (const Part& part : {Part{kAgentImage, header.data, PROT_READ | PROT_EXEC},
                           Part{header.data, header.end, PROT_READ | PROT_WRITE}}) {
    RETURN_IF_ERROR(CallChecked(thread, "mmap", SYS_mmap,
                                {part.start, part.end - part.start, part.protection,
                                 MAP_PRIVATE | MAP_FIXED_NOREPLACE, static_cast<uint64_t>(fd),
                                 kImageInFile + (part.start - kAgentImage)})
                        .status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MemoryFile> Inject(const InjectionOptions& options, Tracee* tracee) {
  RegisterFile registers;
  if (!tracee->GetRegisters(/*vectors=*/false, &registers)) return Gone();
  const uint64_t stack_pointer = registers.gpr[kRsp];
  const MemoryMap map = MemoryMap::OfProcess(tracee->ProcPath("maps"));
  ASSIGN_OR_RETURN(const MapRegion stack, CheckLayout(map, stack_pointer));
  ASSIGN_OR_RETURN(const int fd, MakeFile(stack_pointer, tracee));
  ASSIGN_OR_RETURN(MemoryFile file, MemoryFile::Open(tracee->process(), fd));
  const std::array<uint32_t, 4> offsets = XstateOffsets();
  CHECK(*std::max_element(offsets.begin(), offsets.end()) + sizeof(RegisterFile::zmm16) <=
        kLargestExtendedArea);
  WriteImage({.memory_file = fd,
              .translate = options.translate ? 1u : 0u,
              .record = options.record ? 1u : 0u,
              .record_children = options.record_children ? 1u : 0u,
              .process = tracee->process(),
              .order_instructions = options.order_instructions ? 1u : 0u,
              .chaos_seed = options.chaos_seed,
              .segment_instructions = options.segment_instructions,
              .segment_per_page = options.segment_per_page,
              .full_keyframe_instructions = options.full_keyframe_instructions,
              .look_instructions = options.look_instructions,
              .snapshot_signals = options.snapshot_signals,
              .snapshot_points = options.snapshot_points ? 1u : 0u,
              .largest_module = options.largest_module,
              .guest_pc = registers.rip,
              .guest_sp = stack_pointer,
              .stack_end = stack.end,
              .stack_protection = stack.protection,
              .extended_offsets = {offsets[0], offsets[1], offsets[2], offsets[3]},
              .xsave_bytes = static_cast<uint32_t>(XstateBytes()),
              .places = PlacesOf(tracee->process())},
             &file);
  RETURN_IF_ERROR(MapImage(tracee->thread(), fd));
  if (options.prepare) options.prepare(file);
  tracee->ForgetRegisters();
  if (!tracee->GetRegisters(/*vectors=*/false, &registers)) return Gone();
  registers.rip = ImageHeader().entry;
  if (!tracee->SetRegisters(registers)) return Gone();
  tracee->Disown();
  DetachOrTakeEnd(tracee->thread());
  return file;
}

}  // namespace hindsight
