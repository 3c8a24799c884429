#include "cli/states/recorded_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// Empty if there is no memory for it.
UniqueFd FileOf(absl::Span<const uint8_t> bytes) {
  UniqueFd file(memfd_create("hindsight-module", MFD_CLOEXEC));
  while (file.valid() && !bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written <= 0) return UniqueFd();
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return file;
}

}  // namespace

// What looks for places opens files by their paths.
std::string RecordedCode::PathOf(const MapRegion& region) {
  if (region.module < 0) return "";
  const auto [file, added] = files_.try_emplace(region.module);
  if (added) {
    if (const auto bytes = trace_->ModuleBytes(region.module); bytes.ok()) {
      file->second = FileOf(*bytes);
    }
  }
  return file->second.valid() ? absl::StrCat("/proc/self/fd/", file->second.get()) : "";
}

SymbolSource RecordedCode::Source() {
  return {[this](const MapRegion& region) { return PathOf(region); },
          [this](uint64_t address, absl::Span<uint8_t> out) {
            const std::vector<int32_t> threads = view_->threads();
            if (threads.empty()) return false;
            const auto read = view_->ReadMemory(threads[0], address, out);
            return read.ok() && *read == out.size();
          }};
}

}  // namespace hindsight
