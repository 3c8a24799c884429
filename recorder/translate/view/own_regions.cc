#include "recorder/translate/view/own_regions.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "recorder/translate/base/layout.h"
#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

// Longer than a line.
constexpr uint64_t kBufferBytes = 16 * kKiB;
char buffer[kBufferBytes];

constexpr uint64_t kMostKept = 1024;
OwnRegion kept[kMostKept];
uint64_t kept_count;  // above kMostKept: there are more
bool is_kept;

// Whether the line ends in a name that begins with `name`, in brackets.
bool IsNamed(const char* line, const char* end, const char* name) {
  const char* at = end;
  while (at != line && *(at - 1) != '[' && *(at - 1) != '/') --at;
  if (at == line || *(at - 1) != '[') return false;
  for (; *name != 0; ++name, ++at) {
    if (at == end || *at != *name) return false;
  }
  return true;
}

// START-END rwxp OFFSET ...
OwnRegion Parse(const char* line, const char* end) {
  const char* at = line;
  OwnRegion region = {};
  region.start = ReadHex(&at);
  ++at;
  region.end = ReadHex(&at);
  ++at;
  // What may be written or executed may be read, but where protection keys forbid it.
  region.readable = at[0] == 'r' || at[1] == 'w' || at[2] == 'x';
  region.writable = at[1] == 'w';
  region.shared = at[3] == 's';
  region.is_vdso = IsNamed(line, end, "vdso");
  region.is_clock = IsNamed(line, end, "vvar");
  return region;
}

// From the kernel.
bool ReadOwnRegions(void (*visit)(void* context, const OwnRegion& region), void* context) {
  const char path[] = "/proc/self/maps";
  const int64_t file = RawCall(SYS_open, reinterpret_cast<uint64_t>(path), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  uint64_t kept = 0;
  int64_t got;
  while ((got = RawCall(SYS_read, static_cast<uint64_t>(file),
                        reinterpret_cast<uint64_t>(buffer + kept), kBufferBytes - kept)) > 0) {
    const char* const end = buffer + kept + got;
    const char* line = buffer;
    for (const char* at = buffer; at != end; ++at) {
      if (*at != '\n') continue;
      const OwnRegion region = Parse(line, at);
      if (InWindows(region.start, region.end)) visit(context, region);
      line = at + 1;
    }
    kept = static_cast<uint64_t>(end - line);
    for (uint64_t i = 0; i < kept; ++i) buffer[i] = line[i];
  }
  RawCall(SYS_close, static_cast<uint64_t>(file));
  return got == 0;
}

bool IsAlike(const OwnRegion& a, const OwnRegion& b) {
  return a.readable == b.readable && a.writable == b.writable && a.shared == b.shared &&
         a.is_vdso == b.is_vdso && a.is_clock == b.is_clock;
}

void Keep(void* /*context*/, const OwnRegion& region) {
  OwnRegion* const last =
      kept_count != 0 && kept_count <= kMostKept ? &kept[kept_count - 1] : nullptr;
  if (last != nullptr && last->end == region.start && IsAlike(*last, region)) {
    last->end = region.end;
    return;
  }
  if (kept_count < kMostKept) kept[kept_count] = region;
  ++kept_count;
}

}  // namespace

uint64_t ReadHex(const char** text) {
  uint64_t value = 0;
  for (;; ++*text) {
    const char c = **text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

bool ForEachOwnRegion(void (*visit)(void* context, const OwnRegion& region), void* context) {
  if (!is_kept) {
    kept_count = 0;
    is_kept = ReadOwnRegions(&Keep, nullptr);
    if (!is_kept) return false;
  }
  if (kept_count > kMostKept) return ReadOwnRegions(visit, context);
  for (uint64_t i = 0; i < kept_count; ++i) visit(context, kept[i]);
  return true;
}

bool IsOwnWritable(uint64_t start, uint64_t end) {
  struct Left {
    uint64_t start, end;
  } left = {start, end};
  const auto take = [](void* context, const OwnRegion& region) {
    auto* const range = static_cast<Left*>(context);
    const bool has_start = range->start >= region.start && range->start < region.end;
    if (has_start && region.writable) range->start = region.end;
  };
  return ForEachOwnRegion(take, &left) && left.start >= left.end;
}

void ForgetOwnRegions() { is_kept = false; }

}  // namespace hindsight
