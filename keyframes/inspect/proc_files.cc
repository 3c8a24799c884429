#include "keyframes/inspect/proc_files.h"

#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

// The kernel pads a line of maps to this column before the name.
constexpr size_t kNameColumn = 73;

void AppendMapsLine(const MapRegion& region, std::string* out) {
  std::string line = absl::StrFormat(
      "%08x-%08x %c%c%c%c %08x %02x:%02x %d ", region.start, region.end,
      region.protection & PROT_READ ? 'r' : '-', region.protection & PROT_WRITE ? 'w' : '-',
      region.protection & PROT_EXEC ? 'x' : '-', region.shared ? 's' : 'p', region.file_offset,
      region.device_major, region.device_minor, region.inode);
  if (!region.name.empty()) {
    if (line.size() < kNameColumn) line.resize(kNameColumn, ' ');
    // As the kernel does: a newline in a name must not begin a new line.
    for (char c : region.name) {
      if (c == '\n') {
        absl::StrAppend(&line, "\\012");
      } else {
        line += c;
      }
    }
  }
  absl::StrAppend(out, line, "\n");
}

// Where the run of pages that are all known, or all not, and begins at `start`, ends.
uint64_t EndOfPart(const MapRegion& region, uint64_t start, bool is_known,
                   absl::FunctionRef<bool(uint64_t start, uint64_t end)> known) {
  // Runs of known pages are tried first, since most are.
  constexpr uint64_t kRunBytes = 64 * kPageBytes;
  uint64_t end = start + kPageBytes;
  while (end < region.end) {
    uint64_t next = std::min(region.end, end + kRunBytes);
    if (!is_known || !known(end, next)) {
      next = end + kPageBytes;
      if (known(end, next) != is_known) break;
    }
    end = next;
  }
  return end;
}

void AppendSmapsEntry(const MapRegion& region, bool is_known, std::string* out) {
  AppendMapsLine(region, out);
  uint64_t size_kb = (region.end - region.start) / 1024;
  // gcore writes pages of a file only where they were modified. Finding those in the trace
  // is expensive, but relocated data is among those that are read-only now. Code is not.
  bool modified = region.inode == 0 || !(region.protection & PROT_EXEC);
  absl::StrAppendFormat(out, "Size: %d kB\nAnonymous: %d kB\nSwap: 0 kB\nVmFlags:%s%s%s%s%s\n",
                        size_kb, modified ? size_kb : 0, region.protection & PROT_READ ? " rd" : "",
                        region.protection & PROT_WRITE ? " wr" : "",
                        region.protection & PROT_EXEC ? " ex" : "", region.shared ? " sh" : "",
                        is_known ? "" : " dd");
}

}  // namespace

std::string MapsText(const std::vector<MapRegion>& regions) {
  std::string out;
  for (const MapRegion& region : regions) AppendMapsLine(region, &out);
  return out;
}

std::string SmapsText(const std::vector<MapRegion>& regions,
                      absl::FunctionRef<bool(uint64_t start, uint64_t end)> known) {
  std::string out;
  for (const MapRegion& region : regions) {
    MapRegion part = region;
    part.end = region.start;
    while (part.end < region.end) {
      const bool is_known = known(part.start, part.start + kPageBytes);
      part.end = EndOfPart(region, part.start, is_known, known);
      AppendSmapsEntry(part, is_known, &out);
      part.file_offset += part.end - part.start;
      part.start = part.end;
    }
  }
  return out;
}

std::string ZeroTerminated(const std::vector<std::string>& strings) {
  std::string out;
  for (const std::string& string : strings) {
    out += string;
    out += '\0';
  }
  return out;
}

std::string RawWords(absl::Span<const uint64_t> words) {
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

std::string StatusText(const ProcThread& thread) {
  return absl::StrFormat(
      "Name:\t%s\nState:\tt (tracing stop)\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nThreads:\t%d\n",
      thread.name.substr(0, 15), thread.pid, thread.tid, thread.parent, thread.threads);
}

std::string StatText(const ProcThread& thread) {
  // pid (comm) state ppid pgrp session tty tpgid, 11 fields nothing is known of, the number of
  // threads, and 32 more.
  std::string out =
      absl::StrFormat("%d (%s) t %d %d %d 0 -1", thread.tid, thread.name.substr(0, 15),
                      thread.parent, thread.pid, thread.pid);
  for (int i = 0; i < 11; ++i) absl::StrAppend(&out, " 0");
  absl::StrAppend(&out, " ", thread.threads);
  for (int i = 0; i < 32; ++i) absl::StrAppend(&out, " 0");
  return out + "\n";
}

}  // namespace hindsight
