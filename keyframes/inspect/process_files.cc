#include "keyframes/inspect/process_files.h"

#include <elf.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "keyframes/inspect/proc_files.h"

namespace hindsight {
namespace {

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

}  // namespace

absl::StatusOr<uint64_t> ProcessFiles::TlsAddress(uint64_t fs_base, uint64_t offset,
                                                  uint64_t link_map, MemoryReader memory) {
  if (!tls_layout_known_) {
    for (const auto& [index, module] : trace_->modules()) {
      const std::string& path = module.path;
      if (!absl::StrContains(path, "libc") && !absl::StrContains(path, "libpthread")) continue;
      auto bytes = trace_->ModuleBytes(index);
      if (bytes.ok()) tls_layout_ = ReadGlibcTlsLayout(*bytes);
      if (tls_layout_) break;
    }
    tls_layout_known_ = true;
  }
  return GlibcTlsAddress(tls_layout_, fs_base, link_map, offset, memory);
}

std::optional<int32_t> ProcessFiles::ModuleAt(uint64_t address, const ProcessFacts& facts) const {
  const int32_t module = facts.ModuleAt(address);
  if (!trace_->modules().contains(module)) return std::nullopt;
  return module;
}

std::optional<int32_t> ProcessFiles::FindModule(const std::string& path, const ProcessFacts& facts,
                                                MemoryReader memory) {
  for (const auto& [index, listed] : trace_->modules()) {
    const std::string& name = listed.path;
    // Paths in XML replies were made printable.
    if (name == path || Printable(name) == path) return index;
  }
  if (auto it = found_.find(path); it != found_.end()) return it->second;
  // Programs name libraries by links (/lib/libz.so.1), maps by files (/usr/lib/libz.so.1.2.13):
  // the file meant is the one mapped where the dynamic linker loaded the library.
  std::optional<int32_t> module;
  absl::Span<const uint64_t> auxv = facts.AuxvWords();
  for (const Library& library : ReadLinkMap(auxv, memory).libraries) {
    if (library.path == path) module = ModuleAt(library.dynamic, facts);
  }
  std::optional<int32_t> program = ModuleAt(AuxvValue(auxv, AT_PHDR).value_or(0), facts);
  if (!module && program && path == facts.ExecutablePath()) module = program;
  if (!module && program) {
    auto bytes = trace_->ModuleBytes(*program);
    if (bytes.ok() && InterpreterPath(*bytes) == path) {
      module = ModuleAt(AuxvValue(auxv, AT_BASE).value_or(0), facts);
    }
  }
  if (module) found_[path] = *module;
  return module;
}

std::optional<ProcessFiles::ProcFile> ProcessFiles::FindProcFile(const std::string& path,
                                                                 const ProcessFacts& facts) const {
  absl::string_view rest = path;
  if (!absl::ConsumePrefix(&rest, "/proc/")) return std::nullopt;
  ProcFile file = {.thread = facts.Threads().front()};
  const auto consume_thread = [&] {
    const size_t end = rest.find('/');
    int32_t id = 0;
    if (end == rest.npos || !absl::SimpleAtoi(rest.substr(0, end), &id)) return false;
    rest.remove_prefix(end + 1);
    if (id == trace_->manifest().pid) return true;
    file.thread = id;
    return facts.IsAlive(id);
  };
  if (!absl::ConsumePrefix(&rest, "self/") && !consume_thread()) return std::nullopt;
  if (absl::ConsumePrefix(&rest, "task/") && !consume_thread()) return std::nullopt;
  file.name = std::string(rest);
  return file;
}

absl::StatusOr<std::string> ProcessFiles::ReadLink(const std::string& path,
                                                   const ProcessFacts& facts, MemoryReader memory) {
  std::optional<ProcFile> file = FindProcFile(path, facts);
  if (file && file->name == "exe") return facts.ExecutablePath();
  if (file && file->name == "cwd") return trace_->manifest().working_directory;
  if (file && file->name == "root") return std::string("/");
  if (file ? ProcContents(*file, facts, memory).ok()
           : FindModule(path, facts, memory).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a link"));
  }
  return absl::NotFoundError(absl::StrCat(path, " is not in the trace"));
}

absl::StatusOr<std::string> ProcessFiles::FileContents(const std::string& path,
                                                       const ProcessFacts& facts,
                                                       MemoryReader memory) {
  std::optional<ProcFile> file = FindProcFile(path, facts);
  if (file && file->name != "exe") return ProcContents(*file, facts, memory);
  std::optional<int32_t> module = FindModule(file ? facts.ExecutablePath() : path, facts, memory);
  if (!module) return absl::NotFoundError(absl::StrCat(path, " is not in the trace"));
  ASSIGN_OR_RETURN(absl::Span<const uint8_t> bytes, trace_->ModuleBytes(*module));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<std::string> ProcessFiles::ProcContents(const ProcFile& file,
                                                       const ProcessFacts& facts,
                                                       MemoryReader memory) const {
  const Manifest& manifest = trace_->manifest();
  const std::string& name = file.name;
  if (name == "maps") return MapsText(facts.Regions());
  if (name == "smaps") {
    std::vector<uint8_t> buffer;
    return SmapsText(facts.Regions(), [&](uint64_t start, uint64_t end) {
      buffer.resize(end - start);
      return memory(start, absl::MakeSpan(buffer));
    });
  }
  if (name == "cmdline") return facts.CommandLine(memory);
  if (name == "environ") return ZeroTerminated(manifest.environment);
  if (name == "auxv") return RawWords(facts.AuxvWords());
  if (name == "comm") return facts.ThreadName(file.thread) + "\n";
  if (name == "coredump_filter") return std::string(kCoredumpFilter);
  const ProcThread thread = {.name = facts.ThreadName(file.thread),
                             .pid = manifest.pid,
                             .tid = file.thread,
                             .parent = manifest.parent_pid,
                             .threads = facts.Threads().size()};
  if (name == "status") return StatusText(thread);
  if (name == "stat") return StatText(thread);
  return absl::NotFoundError(absl::StrCat("the trace has no /proc file ", name));
}

}  // namespace hindsight
