#include "keyframes/inspect/core_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "keyframes/inspect/core_notes.h"

namespace hindsight {
namespace {

constexpr uint64_t kChunkBytes = 64 * kPageBytes;
// More program headers than this are counted in a section header.
constexpr size_t kMostHeaders = PN_XNUM - 1;

uint64_t RoundUp(uint64_t offset) { return (offset + kPageBytes - 1) / kPageBytes * kPageBytes; }

uint32_t SegmentFlags(uint32_t protection) {
  // PROT_READ, PROT_WRITE, PROT_EXEC are 1, 2, 4; PF_R, PF_W, PF_X are 4, 2, 1.
  return (protection & 1 ? PF_R : 0) | (protection & 2 ? PF_W : 0) | (protection & 4 ? PF_X : 0);
}

bool AllZero(absl::Span<const uint8_t> bytes) {
  return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

template <typename T>
absl::Span<const uint8_t> Raw(const T* values, size_t count) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values), count * sizeof(T));
}

class CoreWriter {
 public:
  CoreWriter(ProcessView* view, const CoreOptions& options, CoreOutput* output)
      : view_(view), options_(options), output_(output), buffer_(kChunkBytes) {}

  absl::StatusOr<CoreSummary> Write() {
    summary_.threads = view_->threads().size();
    summary_.missing = view_->Missing();
    // The header at first as one of a core without anything; what writes files looks at it.
    RETURN_IF_ERROR(WriteHeader(0));
    RETURN_IF_ERROR(WriteNotes());
    const std::vector<MapRegion> regions = view_->Regions();
    for (const MapRegion& region : regions) total_ += SizeOf(region);
    for (const MapRegion& region : regions) RETURN_IF_ERROR(WriteRegion(region));
    RETURN_IF_ERROR(output_->WriteAt(end_, Raw(headers_.data(), headers_.size())));
    RETURN_IF_ERROR(WriteHeader(end_));
    RETURN_IF_ERROR(output_->Finish());
    return summary_;
  }

 private:
  // Of what is looked for in it.
  static uint64_t SizeOf(const MapRegion& region) {
    return region.protection == 0 ? 0 : region.end - region.start;
  }

  absl::Status WriteHeader(uint64_t headers_offset) {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof(header);
    header.e_phoff = headers_offset;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<Elf64_Half>(headers_.size());
    if (headers_.size() > kMostHeaders) {
      Elf64_Shdr count = {};
      count.sh_info = static_cast<Elf64_Word>(headers_.size());
      header.e_phnum = PN_XNUM;
      header.e_shoff = headers_offset + headers_.size() * sizeof(Elf64_Phdr);
      header.e_shentsize = sizeof(count);
      header.e_shnum = 1;
      RETURN_IF_ERROR(output_->WriteAt(header.e_shoff, Raw(&count, 1)));
    }
    return output_->WriteAt(0, Raw(&header, 1));
  }

  absl::Status WriteNotes() {
    ASSIGN_OR_RETURN(const std::string notes,
                     CoreNotes(view_, options_.thread, options_.extended_registers));
    Elf64_Phdr header = {};
    header.p_type = PT_NOTE;
    header.p_offset = sizeof(Elf64_Ehdr);
    header.p_filesz = notes.size();
    header.p_align = 4;
    headers_.push_back(header);
    end_ = RoundUp(header.p_offset + notes.size());
    return output_->WriteAt(header.p_offset, Raw(notes.data(), notes.size()));
  }

  void BeginSegment(const MapRegion& region, uint64_t address) {
    Elf64_Phdr header = {};
    header.p_type = PT_LOAD;
    header.p_flags = SegmentFlags(region.protection);
    header.p_offset = end_;
    header.p_vaddr = address;
    header.p_align = kPageBytes;
    headers_.push_back(header);
  }

  absl::Status WriteRegion(const MapRegion& region) {
    BeginSegment(region, region.start);
    if (SizeOf(region) == 0) {
      headers_.back().p_memsz = region.end - region.start;
      return absl::OkStatus();
    }
    for (uint64_t address = region.start; address < region.end;) {
      if (options_.interrupt != nullptr && options_.interrupt->load(std::memory_order_relaxed)) {
        return absl::CancelledError("interrupted");
      }
      const uint64_t wanted = std::min(kChunkBytes, region.end - address);
      ASSIGN_OR_RETURN(const uint64_t known, ReadPages(address, wanted));
      // A segment is memory that the file has, and after it memory that it has not.
      Elf64_Phdr* segment = &headers_.back();
      if (known > 0 && segment->p_memsz > segment->p_filesz) {
        BeginSegment(region, address);
        segment = &headers_.back();
      }
      RETURN_IF_ERROR(WritePages(known));
      const uint64_t step = known > 0 ? known : kPageBytes;
      segment->p_filesz += known;
      segment->p_memsz += step;
      summary_.memory_bytes += known;
      summary_.unknown_bytes += step - known;
      address += step;
      done_ += step;
      if (options_.progress) options_.progress(done_, total_);
    }
    return absl::OkStatus();
  }

  // How many bytes, whole pages, are known from `address` on; they are in buffer_.
  absl::StatusOr<uint64_t> ReadPages(uint64_t address, uint64_t wanted) {
    const absl::StatusOr<size_t> known =
        view_->ReadMemory(options_.thread, address, absl::MakeSpan(buffer_).first(wanted));
    if (known.ok()) return *known / kPageBytes * kPageBytes;
    // A damaged page of the trace is one that is not known.
    if (absl::IsNotFound(known.status()) || absl::IsDataLoss(known.status())) return uint64_t{0};
    return known.status();
  }

  absl::Status WritePages(uint64_t size) {
    const auto pages = absl::MakeConstSpan(buffer_).first(size);
    uint64_t begin = 0;
    for (uint64_t at = 0; at <= size; at += kPageBytes) {
      if (at < size && !AllZero(pages.subspan(at, kPageBytes))) continue;
      if (at > begin) {
        RETURN_IF_ERROR(output_->WriteAt(end_ + begin, pages.subspan(begin, at - begin)));
      }
      begin = at + kPageBytes;
    }
    end_ += size;
    return absl::OkStatus();
  }

  ProcessView* const view_;
  const CoreOptions& options_;
  CoreOutput* const output_;
  std::vector<uint8_t> buffer_;
  std::vector<Elf64_Phdr> headers_;
  uint64_t end_ = 0;  // of what the file has so far
  uint64_t done_ = 0, total_ = 0;
  CoreSummary summary_;
};

}  // namespace

std::string ToString(const CoreSummary& summary) {
  std::string text = absl::StrFormat("%d thread%s, %.1f MB of memory", summary.threads,
                                     summary.threads == 1 ? "" : "s", summary.memory_bytes / 1e6);
  if (summary.unknown_bytes > 0) {
    absl::StrAppendFormat(&text, ", %.1f MB not known and left out", summary.unknown_bytes / 1e6);
  }
  return text;
}

absl::StatusOr<CoreSummary> WriteCore(ProcessView* view, const CoreOptions& options,
                                      CoreOutput* output) {
  return CoreWriter(view, options, output).Write();
}

}  // namespace hindsight
