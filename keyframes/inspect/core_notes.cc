#include "keyframes/inspect/core_notes.h"

#include <elf.h>
#include <sys/procfs.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "keyframes/inspect/core_registers.h"

namespace hindsight {
namespace {

constexpr char kCore[] = "CORE";
constexpr char kLinux[] = "LINUX";
constexpr uint32_t kXsaveLayoutNote = 0x205;  // NT_X86_XSAVE_LAYOUT
// The kernel truncates the command line to what NT_PRPSINFO has room for.
constexpr size_t kArgumentBytes = sizeof(elf_prpsinfo{}.pr_psargs) - 1;

template <typename T>
absl::string_view Raw(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendWord(uint64_t word, std::string* out) { absl::StrAppend(out, Raw(word)); }

void AppendNote(absl::string_view owner, uint32_t type, absl::string_view bytes, std::string* out) {
  const Elf64_Nhdr header = {static_cast<Elf64_Word>(owner.size() + 1),
                             static_cast<Elf64_Word>(bytes.size()), type};
  absl::StrAppend(out, Raw(header));
  for (const absl::string_view part : {owner, bytes}) {
    absl::StrAppend(out, part);
    if (part.data() == owner.data()) out->push_back('\0');
    out->resize((out->size() + 3) / 4 * 4, '\0');
  }
}

class Notes {
 public:
  Notes(ProcessView* view, int32_t first, bool extended)
      : view_(view), first_(first), extended_(extended) {}

  absl::StatusOr<std::string> Write() {
    ASSIGN_OR_RETURN(const RegisterFile registers, view_->Registers(first_));
    AddStatus(first_, registers);
    AddProcess();
    AddSigInfo(first_);
    const absl::StatusOr<std::string> auxv = view_->Auxv();
    if (auxv.ok()) AppendNote(kCore, NT_AUXV, *auxv, &out_);
    AddFiles();
    AddVectors(registers);
    AddLayout();
    for (const int32_t thread : view_->threads()) {
      if (thread == first_) continue;
      ASSIGN_OR_RETURN(const RegisterFile others, view_->Registers(thread));
      AddStatus(thread, others);
      AddSigInfo(thread);
      AddVectors(others);
    }
    const std::string missing = view_->Missing();
    if (!missing.empty()) AppendNote(kHindsightNote, kMissingNote, missing, &out_);
    return std::move(out_);
  }

 private:
  void AddStatus(int32_t thread, const RegisterFile& registers) {
    elf_prstatus status = {};
    status.pr_info.si_signo = signal_;
    status.pr_cursig = static_cast<short>(signal_);
    status.pr_pid = thread;
    status.pr_ppid = parent_;
    status.pr_pgrp = status.pr_sid = 0;
    const user_regs_struct general = CoreGeneral(registers, view_->SyscallNumber(thread));
    static_assert(sizeof(general) == sizeof(status.pr_reg));
    std::memcpy(&status.pr_reg, &general, sizeof(general));
    status.pr_fpvalid = 1;
    AppendNote(kCore, NT_PRSTATUS, Raw(status), &out_);
  }

  void AddVectors(const RegisterFile& registers) {
    AppendNote(kCore, NT_FPREGSET, Raw(CoreVectors(registers)), &out_);
    AppendNote(kLinux, NT_X86_XSTATE, CoreXstate(registers, extended_), &out_);
  }

  void AddLayout() {
    std::string bytes;
    for (const uint32_t word : CoreXstateLayout(extended_)) absl::StrAppend(&bytes, Raw(word));
    if (!bytes.empty()) AppendNote(kLinux, kXsaveLayoutNote, bytes, &out_);
  }

  void AddSigInfo(int32_t thread) {
    const absl::StatusOr<std::string> siginfo = view_->SigInfo(thread);
    if (siginfo.ok()) AppendNote(kCore, NT_SIGINFO, *siginfo, &out_);
  }

  std::string ProcFile(absl::string_view name) {
    return view_
        ->FileContents(absl::StrCat("/proc/", view_->pid(), "/", name),
                       [this](uint64_t address, absl::Span<uint8_t> out) {
                         const auto known = view_->ReadMemory(first_, address, out);
                         return known.ok() && *known == out.size();
                       })
        .value_or("");
  }

  void AddProcess() {
    elf_prpsinfo process = {};
    process.pr_sname = 'R';
    process.pr_pid = view_->pid();
    process.pr_ppid = parent_;
    std::string name = view_->ExecutablePath();
    name.erase(0, name.rfind('/') + 1);
    name.copy(process.pr_fname, sizeof(process.pr_fname) - 1);
    std::string arguments = ProcFile("cmdline");
    if (!arguments.empty() && arguments.back() == '\0') arguments.pop_back();
    std::replace(arguments.begin(), arguments.end(), '\0', ' ');
    if (arguments.empty()) arguments = view_->ExecutablePath();
    arguments.copy(process.pr_psargs, kArgumentBytes);
    AppendNote(kCore, NT_PRPSINFO, Raw(process), &out_);
  }

  // NT_FILE: their number and the unit of their offsets; start, end and offset of each; names.
  void AddFiles() {
    std::string ranges, names;
    uint64_t count = 0;
    for (const MapRegion& region : view_->Regions()) {
      if (region.name.empty() || region.name[0] != '/') continue;
      AppendWord(region.start, &ranges);
      AppendWord(region.end, &ranges);
      AppendWord(region.file_offset / kPageBytes, &ranges);
      absl::StrAppend(&names, region.name);
      names.push_back('\0');
      ++count;
    }
    std::string bytes;
    AppendWord(count, &bytes);
    AppendWord(kPageBytes, &bytes);
    AppendNote(kCore, NT_FILE, absl::StrCat(bytes, ranges, names), &out_);
  }

  // The signal that the process is shown to have been ended by: the one that the current thread is
  // about to get. The kernel has it in all threads, and readers take it from any.
  int Signal() const {
    siginfo_t info = {};
    const absl::StatusOr<std::string> bytes = view_->SigInfo(first_);
    if (bytes.ok() && bytes->size() >= 3 * sizeof(int)) {
      std::memcpy(&info, bytes->data(), std::min(bytes->size(), sizeof(info)));
    }
    // A plain trap stands for none: the process just stood still.
    return info.si_signo == SIGTRAP && info.si_code == TRAP_BRKPT ? 0 : info.si_signo;
  }

  int32_t Parent() {
    int32_t parent = 0;
    const std::string status = ProcFile("status");
    for (absl::string_view line : absl::StrSplit(status, '\n')) {
      if (absl::ConsumePrefix(&line, "PPid:\t") && absl::SimpleAtoi(line, &parent)) break;
    }
    return parent;
  }

  ProcessView* const view_;
  const int32_t first_;
  const bool extended_;
  const int32_t parent_ = Parent();
  const int signal_ = Signal();
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> CoreNotes(ProcessView* view, int32_t thread, bool extended) {
  return Notes(view, thread, extended).Write();
}

}  // namespace hindsight
