#include "recorder/translate/limits/memory_usage.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

constexpr uint64_t kBufferBytes = 4096;

struct Region {
  uint64_t start, end;
  bool writable, is_private;
};

uint64_t DigitOf(char c) { return static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

// Reads lines, "START-END rwxp ...", one character after the other.
class RegionReader {
 public:
  // True if region() is complete.
  bool Take(char c) {
    if (c == '\n') {
      *this = RegionReader();
      return false;
    }
    if (part_ == Part::kRest) return false;
    if (part_ == Part::kRights) return TakeRight(c);
    uint64_t* const address = part_ == Part::kStart ? &region_.start : &region_.end;
    if (c == '-') {
      part_ = Part::kEnd;
    } else if (c == ' ') {
      part_ = Part::kRights;
    } else {
      *address = *address * 16 + DigitOf(c);
    }
    return false;
  }
  const Region& region() const { return region_; }

 private:
  enum class Part { kStart, kEnd, kRights, kRest };

  bool TakeRight(char c) {
    ++column_;
    if (column_ == 2) region_.writable = c == 'w';
    if (column_ < 4) return false;
    region_.is_private = c == 'p';
    part_ = Part::kRest;
    return true;
  }

  Part part_ = Part::kStart;
  int column_ = 0;  // of the rights
  Region region_ = {};
};

void Add(const Region& region, uint64_t bytes, MappedBytes* to) {
  to->all += bytes;
  if (region.is_private) to->can_be_data += bytes;
  if (region.is_private && region.writable) to->data += bytes;
}

void AddRegion(const Region& region, uint64_t start, uint64_t end, MemoryUsage* usage) {
  Add(region, region.end - region.start, &usage->total);
  const uint64_t from = region.start > start ? region.start : start;
  const uint64_t to = region.end < end ? region.end : end;
  if (from < to) Add(region, to - from, &usage->in_range);
}

}  // namespace

MemoryUsage CountMemory(uint64_t start, uint64_t end, IsCounted is_counted) {
  static constexpr char kPath[] = "/proc/self/maps";
  MemoryUsage usage = {};
  const int64_t opened = RawCall(SYS_openat, static_cast<uint64_t>(AT_FDCWD),
                                 reinterpret_cast<uint64_t>(kPath), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return usage;
  const auto file = static_cast<uint64_t>(opened);
  RegionReader reader;
  char buffer[kBufferBytes];
  while (true) {
    const int64_t got = RawCall(SYS_read, file, reinterpret_cast<uint64_t>(buffer), sizeof(buffer));
    if (got <= 0) break;
    for (int64_t i = 0; i < got; ++i) {
      if (!reader.Take(buffer[i])) continue;
      const Region& region = reader.region();
      if (is_counted(region.start, region.end)) AddRegion(region, start, end, &usage);
    }
  }
  RawCall(SYS_close, file);
  return usage;
}

}  // namespace hindsight
