#include "keyframes/inspect/snapshot_view.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "keyframes/inspect/proc_files.h"

namespace hindsight {
namespace {

constexpr size_t kSigInfoBytes = 128;
constexpr size_t kCommandNameBytes = 15;
constexpr uint64_t kTriggerSignal = 6;

}  // namespace

// Not what the kernel maps, as [vdso].
bool BeginsAsZeros(const MapRegion& region) {
  return !region.shared && region.inode == 0 &&
         (region.name.empty() || region.name == "[heap]" || region.name == "[stack]" ||
          absl::StartsWith(region.name, "[anon:") || absl::StartsWith(region.name, "[stack:"));
}

int32_t SnapshotView::CurrentThread() const {
  return IsAlive(here().thread) ? here().thread : here().keyframe->threads().front().thread;
}

const FullKeyframe::ThreadState* SnapshotView::StateOf(int32_t thread) const {
  for (const FullKeyframe::ThreadState& state : here().keyframe->threads()) {
    if (state.thread == thread) return &state;
  }
  return nullptr;
}

std::vector<int32_t> SnapshotView::threads() const {
  std::vector<int32_t> threads;
  for (const auto& state : here().keyframe->threads()) threads.push_back(state.thread);
  return threads;
}

std::string SnapshotView::Missing() const {
  const TrimmedEvent* const trimmed = trace_->trimmed();
  const uint64_t number = here().keyframe->number();
  if (trimmed == nullptr || number >= trimmed->whole_keyframe) return "";
  return absl::StrCat("full keyframe ", number,
                      " lies in the part of the recording that has not all threads: its memory was "
                      "dropped");
}

const ThreadKernelState* SnapshotView::KernelStateOf(int32_t thread) const {
  const KernelState* kernel = here().keyframe->kernel_state();
  return kernel == nullptr ? nullptr : kernel->Thread(thread);
}

int64_t SnapshotView::SyscallNumber(int32_t thread) const {
  const ThreadKernelState* state = KernelStateOf(thread);
  return state == nullptr ? -1 : state->system_call;
}

std::string SnapshotView::ThreadName(int32_t thread) const {
  const ThreadKernelState* state = KernelStateOf(thread);
  if (state != nullptr && !state->name.empty()) return state->name.substr(0, kCommandNameBytes);
  std::string name;
  for (const ProcessEvent& event : trace_->events()) {
    const bool names =
        event.kind == EventKind::kThreadName || event.kind == EventKind::kThreadStart;
    if (names && event.thread == thread && event.count <= here().number && !event.text.empty()) {
      name = event.text;
    }
  }
  if (name.empty()) {
    const std::string program = ExecutablePath();
    name = program.substr(program.rfind('/') + 1);
  }
  return name.substr(0, kCommandNameBytes);
}

absl::StatusOr<RegisterFile> SnapshotView::Registers(int32_t thread) {
  const FullKeyframe::ThreadState* state = StateOf(thread);
  RegisterFile registers;
  if (state == nullptr) {
    return absl::NotFoundError(absl::StrCat("no thread ", thread, " in this snapshot"));
  }
  if (FromWords(state->registers, &registers)) return registers;
  return absl::DataLossError(absl::StrCat("snapshot ", here().number, ": thread ", thread,
                                          " has registers of another layout"));
}

absl::StatusOr<std::string> SnapshotView::SigInfo(int32_t thread) const {
  if (!IsAlive(thread)) return absl::NotFoundError("no such thread in this snapshot");
  siginfo_t info = {};
  info.si_signo = SIGTRAP;
  info.si_code = TRAP_BRKPT;
  std::string bytes(reinterpret_cast<const char*>(&info), sizeof(info));
  if (here().trigger == kTriggerSignal && thread == here().thread) {
    // Where the trace has no siginfo, the point's id is the number.
    info = {};
    info.si_signo = static_cast<int>(here().id & 0x7f);
    bytes.assign(reinterpret_cast<const char*>(&info), sizeof(info));
    for (const ProcessEvent& event : trace_->events()) {
      if (event.kind == EventKind::kSignal && event.thread == thread &&
          event.count == here().keyframe->number() && !event.text.empty()) {
        bytes = event.text;
      }
    }
  }
  bytes.resize(kSigInfoBytes, '\0');
  return bytes;
}

const MapRegion* SnapshotView::RegionOf(uint64_t address) const {
  const std::vector<MapRegion>& maps = here().keyframe->maps();
  const auto next = std::partition_point(
      maps.begin(), maps.end(), [=](const MapRegion& region) { return region.end <= address; });
  return next == maps.end() || next->start > address ? nullptr : &*next;
}

int32_t SnapshotView::ModuleAt(uint64_t address) const {
  const MapRegion* region = RegionOf(address);
  return region == nullptr ? -1 : region->module;
}

absl::Status SnapshotView::ReadPage(uint64_t page, absl::Span<uint8_t> out) const {
  const FullKeyframe& keyframe = *here().keyframe;
  const absl::Status status = keyframe.ReadPage(page, out);
  if (!absl::IsNotFound(status)) return status;
  const MapRegion* region = RegionOf(page);
  const absl::Status unknown = absl::NotFoundError(
      absl::StrFormat("memory at 0x%x is not in snapshot %d", page, here().number));
  if (region == nullptr || region->shared || !keyframe.SawAllAt(page)) return unknown;
  // Nobody has written to it: it is as it was mapped.
  if (BeginsAsZeros(*region)) {
    std::fill(out.begin(), out.end(), uint8_t{0});
    return absl::OkStatus();
  }
  if (region->module < 0) return unknown;
  const auto bytes = trace_->ModuleBytes(region->module);
  const uint64_t offset = region->file_offset + (page - region->start);
  if (!bytes.ok() || offset >= bytes->size()) return unknown;
  const absl::Span<const uint8_t> part = bytes->subspan(offset, kPageBytes);
  std::fill(std::copy(part.begin(), part.end(), out.begin()), out.end(), uint8_t{0});
  return absl::OkStatus();
}

absl::StatusOr<size_t> SnapshotView::ReadMemory(int32_t, uint64_t address,
                                                absl::Span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t page = PageOf(address + done);
    if (page != page_address_) {
      page_address_ = kNoPage;
      const absl::Status status = ReadPage(page, absl::MakeSpan(page_));
      if (!status.ok() && done > 0) return done;
      RETURN_IF_ERROR(status);
      page_address_ = page;
    }
    const uint64_t offset = address + done - page;
    const size_t size = std::min<size_t>(out.size() - done, kPageBytes - offset);
    std::memcpy(out.data() + done, page_.data() + offset, size);
    done += size;
    if (page + kPageBytes == 0) break;
  }
  return done;
}

bool SnapshotView::IsUntouched(int32_t, uint64_t address) {
  const MapRegion* region = RegionOf(address);
  if (region == nullptr || !BeginsAsZeros(*region)) return false;
  const FullKeyframe& keyframe = *here().keyframe;
  const absl::Span<const uint64_t> pages = keyframe.page_addresses();
  return keyframe.SawAllAt(address) &&
         !std::binary_search(pages.begin(), pages.end(), PageOf(address));
}

absl::Span<const uint64_t> SnapshotView::AuxvWords() const {
  const std::vector<uint64_t>& words = here().keyframe->auxv();
  return words.empty() ? trace_->manifest().auxv : words;
}

absl::StatusOr<std::string> SnapshotView::Auxv() const {
  if (AuxvWords().empty()) return absl::NotFoundError("the trace has no auxiliary vector");
  return RawWords(AuxvWords());
}

std::string SnapshotView::ExecutablePath() const {
  std::string path = trace_->manifest().program;
  for (const ProcessEvent& event : trace_->events()) {
    if (event.kind == EventKind::kExec && event.count <= here().number && !event.text.empty()) {
      path = event.text;
    }
  }
  return path;
}

std::string SnapshotView::CommandLine(MemoryReader) const {
  return ZeroTerminated(trace_->manifest().arguments);
}

LinkMap SnapshotView::Libraries(MemoryReader memory) const {
  return ReadLinkMap(AuxvWords(), memory);
}

absl::StatusOr<uint64_t> SnapshotView::TlsAddress(uint64_t fs_base, uint64_t offset,
                                                  uint64_t link_map, MemoryReader memory) {
  return files_.TlsAddress(fs_base, offset, link_map, memory);
}

absl::StatusOr<std::string> SnapshotView::ReadLink(const std::string& path, MemoryReader memory) {
  return files_.ReadLink(path, *this, memory);
}

absl::StatusOr<std::string> SnapshotView::FileContents(const std::string& path,
                                                       MemoryReader memory) {
  return files_.FileContents(path, *this, memory);
}

absl::StatusOr<std::string> SnapshotView::ListEvents(const EventFilter& filter,
                                                     const std::atomic<bool>*) {
  std::string text;
  const size_t first = index_ > filter.number ? index_ - filter.number : 0;
  const size_t end = std::min(snapshots_.size(), index_ + filter.number + 1);
  for (size_t i = first; i < end; ++i) {
    absl::StrAppend(&text, i == index_ ? "> " : "  ", SnapshotText(snapshots_[i]), "\n");
  }
  return text;
}

}  // namespace hindsight
