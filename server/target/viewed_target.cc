#include "server/target/viewed_target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/target/target_description.h"

namespace hindsight {

ThreadRef ViewedTarget::Ref(int32_t thread) const { return {trace_->manifest().pid, thread}; }

std::vector<ThreadRef> ViewedTarget::threads() {
  std::vector<ThreadRef> threads;
  for (const int32_t thread : view().threads()) threads.push_back(Ref(thread));
  return threads;
}

absl::Status ViewedTarget::CheckThread(ThreadRef thread) {
  if (thread.pid == view().pid() && view().IsAlive(thread.tid)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no thread ", thread.tid, " here"));
}

RegisterSet ViewedTarget::register_set() {
  return trace_->manifest().register_layout == kBaseRegisterLayout ? RegisterSet::kSse
                                                                   : RegisterSet::kAvx512;
}

absl::StatusOr<std::string> ViewedTarget::ReadRegister(ThreadRef thread, int number) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (number < 0 || number >= kRegisterCount) return absl::NotFoundError("no such register");
  if (number == kRegisterOrigRax) {
    const int64_t value = SyscallNumberOf(thread.tid);
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  // Clients ask for one register after the other, so none of this copies all of them.
  ASSIGN_OR_RETURN(const RegisterFile* const registers, RegistersOf(thread.tid));
  return EncodeRegister(*registers, number);
}

absl::StatusOr<size_t> ViewedTarget::ReadMemory(ThreadRef thread, uint64_t address,
                                                absl::Span<uint8_t> out) {
  RETURN_IF_ERROR(CheckThread(thread));
  return ReadMemoryOf(thread.tid, address, out);
}

bool ViewedTarget::ReadAll(ThreadRef thread, uint64_t address, absl::Span<uint8_t> out) {
  const absl::StatusOr<size_t> known = ReadMemory(thread, address, out);
  return known.ok() && *known == out.size();
}

std::vector<MemoryRegion> ViewedTarget::Regions() {
  std::vector<MemoryRegion> regions;
  for (const MapRegion& region : view().Regions()) {
    regions.push_back({region.start, region.end, region.protection, region.name});
  }
  return regions;
}

absl::StatusOr<std::string> ViewedTarget::SigInfo(ThreadRef thread) {
  RETURN_IF_ERROR(CheckThread(thread));
  return view().SigInfo(thread.tid);
}

LinkMap ViewedTarget::LinkedHere() {
  return view().Libraries([this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
}

absl::StatusOr<std::vector<Library>> ViewedTarget::Libraries(uint64_t* main_link_map) {
  LinkMap map = LinkedHere();
  *main_link_map = map.main;
  return std::move(map.libraries);
}

absl::StatusOr<std::string> ViewedTarget::ReadLink(const std::string& path) {
  return view().ReadLink(path, [this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
}

absl::StatusOr<std::string> ViewedTarget::FileContents(const std::string& path) {
  return view().FileContents(path, [this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
}

absl::StatusOr<uint64_t> ViewedTarget::TlsAddress(ThreadRef thread, uint64_t offset,
                                                  uint64_t link_map) {
  RETURN_IF_ERROR(CheckThread(thread));
  ASSIGN_OR_RETURN(const RegisterFile* const registers, RegistersOf(thread.tid));
  return view().TlsAddress(registers->fs_base, offset, link_map,
                           [this, thread](uint64_t address, absl::Span<uint8_t> out) {
                             return ReadAll(thread, address, out);
                           });
}

}  // namespace hindsight
