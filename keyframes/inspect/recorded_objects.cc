#include "keyframes/inspect/recorded_objects.h"

#include <elf.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "keyframes/inspect/proc_files.h"

namespace hindsight {
namespace {

constexpr size_t kSigInfoBytes = 128;
constexpr size_t kCommandNameBytes = 15;
constexpr uint64_t kMaxProcessor = 1 << 20;  // above any real machine
// Private anonymous, shared anonymous, ELF headers, private huge pages: the kernel's default.
constexpr char kCoredumpFilter[] = "00000033\n";

// The path of the dynamic linker in the program's PT_INTERP.
std::string InterpreterPath(absl::Span<const uint8_t> program) {
  Elf64_Ehdr header;
  if (program.size() < sizeof(header)) return "";
  std::memcpy(&header, program.data(), sizeof(header));
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    uint64_t at = header.e_phoff + i * sizeof(segment);
    if (header.e_phoff > program.size() || at + sizeof(segment) > program.size()) return "";
    std::memcpy(&segment, program.data() + at, sizeof(segment));
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_offset > program.size() || segment.p_filesz > program.size() - segment.p_offset) {
      return "";
    }
    std::string path(reinterpret_cast<const char*>(program.data()) + segment.p_offset,
                     segment.p_filesz);
    return path.c_str();
  }
  return "";
}

std::vector<std::string> ReadArguments(uint64_t stack, MemoryReader memory) {
  constexpr uint64_t kMaxArguments = 100'000;
  std::vector<std::string> arguments;
  std::optional<uint64_t> number = ReadWord(memory, stack);
  for (uint64_t i = 1; number && i <= std::min(*number, kMaxArguments); ++i) {
    std::optional<uint64_t> address = ReadWord(memory, stack + i * sizeof(uint64_t));
    if (!address) break;
    arguments.push_back(ReadString(memory, *address));
  }
  return arguments;
}

}  // namespace

absl::Span<const uint64_t> RecordedObjects::AuxvWords(uint64_t moment) const {
  // Each exec is followed by a full keyframe.
  const FullKeyframe* keyframe = process_->KeyframeAt(moment);
  if (keyframe != nullptr && !keyframe->auxv().empty()) return keyframe->auxv();
  return trace_->manifest().auxv;
}

absl::StatusOr<std::string> RecordedObjects::Auxv(uint64_t moment) const {
  absl::Span<const uint64_t> auxv = AuxvWords(moment);
  if (auxv.empty()) return absl::NotFoundError("the trace has no auxiliary vector");
  return RawWords(auxv);
}

std::string RecordedObjects::SigInfo(int32_t thread, uint64_t moment) const {
  std::string bytes;
  const uint64_t count = process_->schedule().CountAt(thread, moment);
  const ThreadState& state = process_->thread(thread);
  const ProcessEvent* signal = state.SignalFrom(count);
  // In the last state of the process the signal that has ended it.
  if (const auto& exit = process_->exit_status(); exit && exit->signal() != 0 && count > 0 &&
                                                  count == state.end_count() &&
                                                  moment == process_->end_moment()) {
    const ProcessEvent* last = state.SignalFrom(count - 1);
    if (last != nullptr && last->number == exit->signal()) signal = last;
  }
  if (signal != nullptr) {
    bytes = signal->text;
    if (bytes.empty()) {
      siginfo_t info = {};
      info.si_signo = static_cast<int>(signal->number);
      bytes.assign(reinterpret_cast<const char*>(&info), sizeof(info));
    }
  } else {
    siginfo_t info = {};
    info.si_signo = SIGTRAP;
    info.si_code = TRAP_BRKPT;
    bytes.assign(reinterpret_cast<const char*>(&info), sizeof(info));
  }
  bytes.resize(kSigInfoBytes, '\0');
  return bytes;
}

std::string RecordedObjects::ExecutablePath(uint64_t moment) const {
  const ProcessEvent* exec = process_->LastExec(moment);
  return exec != nullptr && !exec->text.empty() ? exec->text : trace_->manifest().program;
}

std::string RecordedObjects::ThreadName(int32_t thread, uint64_t moment) const {
  std::string name = process_->threads().NameAt(thread, moment);
  if (name.empty()) {
    const std::string program = ExecutablePath(moment);
    name = program.substr(program.rfind('/') + 1);
  }
  return name.substr(0, kCommandNameBytes);
}

std::optional<int> RecordedObjects::ThreadProcessor(int32_t thread, uint64_t moment) {
  if (!placements_) {
    placements_.emplace();
    for (const ProcessEvent& event : trace_->events()) {
      // arguments: when the thread was resumed, when the slice before ended, processor or ~0.
      if (event.kind != EventKind::kSlice || event.arguments.size() < 3) continue;
      if (event.arguments[2] > kMaxProcessor) continue;
      (*placements_)[event.thread].push_back(
          {event.sequence, static_cast<int>(event.arguments[2])});
    }
  }
  const std::vector<Placement>& placements = (*placements_)[thread];
  const uint64_t sequence =
      process_->schedule().slices()[process_->schedule().SliceAt(moment)].sequence;
  auto next = std::partition_point(placements.begin(), placements.end(),
                                   [=](const Placement& p) { return p.sequence <= sequence; });
  if (next == placements.begin()) return std::nullopt;
  return std::prev(next)->processor;
}

LinkMap RecordedObjects::Libraries(uint64_t moment, MemoryReader memory) const {
  return ReadLinkMap(AuxvWords(moment), memory);
}

absl::StatusOr<uint64_t> RecordedObjects::TlsAddress(uint64_t fs_base, uint64_t offset,
                                                     uint64_t link_map, MemoryReader memory) {
  if (!tls_layout_known_) {
    for (size_t i = 0; i < trace_->modules().size() && !tls_layout_; ++i) {
      const std::string& path = trace_->modules()[i].path;
      if (!absl::StrContains(path, "libc") && !absl::StrContains(path, "libpthread")) continue;
      auto bytes = trace_->ModuleBytes(static_cast<int32_t>(i));
      if (bytes.ok()) tls_layout_ = ReadGlibcTlsLayout(*bytes);
    }
    tls_layout_known_ = true;
  }
  return GlibcTlsAddress(tls_layout_, fs_base, link_map, offset, memory);
}

std::optional<int32_t> RecordedObjects::ModuleAt(uint64_t address, uint64_t moment) const {
  const MapRegion* region = process_->maps().FindWithStackGrowth(moment, address);
  if (region == nullptr || region->module < 0) return std::nullopt;
  if (region->module >= static_cast<int64_t>(trace_->modules().size())) return std::nullopt;
  return region->module;
}

std::optional<int32_t> RecordedObjects::FindModule(const std::string& path, uint64_t moment,
                                                   MemoryReader memory) {
  for (size_t i = 0; i < trace_->modules().size(); ++i) {
    const std::string& name = trace_->modules()[i].path;
    // Paths in XML replies were made printable.
    if (name == path || Printable(name) == path) return static_cast<int32_t>(i);
  }
  if (auto it = found_.find(path); it != found_.end()) return it->second;
  // Programs name libraries by links (/lib/libz.so.1), maps by files (/usr/lib/libz.so.1.2.13):
  // the file meant is the one mapped where the dynamic linker loaded the library.
  std::optional<int32_t> module;
  absl::Span<const uint64_t> auxv = AuxvWords(moment);
  for (const Library& library : Libraries(moment, memory).libraries) {
    if (library.path == path) module = ModuleAt(library.dynamic, moment);
  }
  std::optional<int32_t> program = ModuleAt(AuxvValue(auxv, AT_PHDR).value_or(0), moment);
  if (!module && program && path == ExecutablePath(moment)) module = program;
  if (!module && program) {
    auto bytes = trace_->ModuleBytes(*program);
    if (bytes.ok() && InterpreterPath(*bytes) == path) {
      module = ModuleAt(AuxvValue(auxv, AT_BASE).value_or(0), moment);
    }
  }
  if (module) found_[path] = *module;
  return module;
}

std::optional<RecordedObjects::ProcFile> RecordedObjects::FindProcFile(const std::string& path,
                                                                       uint64_t moment) const {
  absl::string_view rest = path;
  if (!absl::ConsumePrefix(&rest, "/proc/")) return std::nullopt;
  ProcFile file = {.thread = process_->threads().AliveAt(moment).front()};
  const auto consume_thread = [&] {
    const size_t end = rest.find('/');
    int32_t id = 0;
    if (end == rest.npos || !absl::SimpleAtoi(rest.substr(0, end), &id)) return false;
    rest.remove_prefix(end + 1);
    if (id == trace_->manifest().pid) return true;
    file.thread = id;
    return process_->threads().IsAlive(id, moment);
  };
  if (!absl::ConsumePrefix(&rest, "self/") && !consume_thread()) return std::nullopt;
  if (absl::ConsumePrefix(&rest, "task/") && !consume_thread()) return std::nullopt;
  file.name = std::string(rest);
  return file;
}

absl::StatusOr<std::string> RecordedObjects::ReadLink(const std::string& path, uint64_t moment,
                                                      MemoryReader memory) {
  std::optional<ProcFile> file = FindProcFile(path, moment);
  if (file && file->name == "exe") return ExecutablePath(moment);
  if (file && file->name == "cwd") return trace_->manifest().working_directory;
  if (file && file->name == "root") return std::string("/");
  if (file ? ProcContents(*file, moment, memory).ok()
           : FindModule(path, moment, memory).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a link"));
  }
  return absl::NotFoundError(absl::StrCat(path, " is not in the trace"));
}

absl::StatusOr<std::string> RecordedObjects::FileContents(const std::string& path, uint64_t moment,
                                                          MemoryReader memory) {
  std::optional<ProcFile> file = FindProcFile(path, moment);
  if (file && file->name != "exe") return ProcContents(*file, moment, memory);
  std::optional<int32_t> module = FindModule(file ? ExecutablePath(moment) : path, moment, memory);
  if (!module) return absl::NotFoundError(absl::StrCat(path, " is not in the trace"));
  ASSIGN_OR_RETURN(absl::Span<const uint8_t> bytes, trace_->ModuleBytes(*module));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string RecordedObjects::CommandLine(uint64_t moment, MemoryReader memory) const {
  uint64_t begin = 0;
  int32_t thread = process_->threads().first();
  for (const TimelineEvent& exec : process_->execs()) {
    if (exec.moment > moment) break;
    begin = exec.moment;
    thread = exec.event->thread;
  }
  std::vector<std::string> arguments;
  // In the program's first state the stack pointer points at the number of arguments, and the
  // pointers to them. (A forked child does not begin in the first state of a program.)
  const FullKeyframe* keyframe = process_->KeyframeAt(begin);
  const bool is_first = begin > 0 || trace_->manifest().start_kind.empty() ||
                        trace_->manifest().start_kind == "launch";
  if (keyframe != nullptr && is_first) {
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      RegisterFile registers;
      if (state.thread != thread || state.count != process_->schedule().CountAt(thread, begin) ||
          !FromWords(state.registers, &registers)) {
        continue;
      }
      arguments = ReadArguments(registers.gpr[kRsp], memory);
    }
  }
  return ZeroTerminated(arguments.empty() ? trace_->manifest().arguments : arguments);
}

absl::StatusOr<std::string> RecordedObjects::ProcContents(const ProcFile& file, uint64_t moment,
                                                          MemoryReader memory) const {
  const Manifest& manifest = trace_->manifest();
  const std::string& name = file.name;
  if (name == "maps") return MapsText(process_->maps().CopyAt(moment));
  if (name == "smaps") {
    std::vector<uint8_t> buffer;
    return SmapsText(process_->maps().CopyAt(moment), [&](uint64_t start, uint64_t end) {
      buffer.resize(end - start);
      return memory(start, absl::MakeSpan(buffer));
    });
  }
  if (name == "cmdline") return CommandLine(moment, memory);
  if (name == "environ") return ZeroTerminated(manifest.environment);
  if (name == "auxv") return RawWords(AuxvWords(moment));
  if (name == "comm") return ThreadName(file.thread, moment) + "\n";
  if (name == "coredump_filter") return std::string(kCoredumpFilter);
  const ProcThread thread = {.name = ThreadName(file.thread, moment),
                             .pid = manifest.pid,
                             .tid = file.thread,
                             .parent = manifest.parent_pid,
                             .threads = process_->threads().AliveAt(moment).size()};
  if (name == "status") return StatusText(thread);
  if (name == "stat") return StatText(thread);
  return absl::NotFoundError(absl::StrCat("the trace has no /proc file ", name));
}

}  // namespace hindsight
