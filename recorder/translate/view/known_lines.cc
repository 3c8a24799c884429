#include "recorder/translate/view/known_lines.h"

namespace hindsight {
namespace {

constexpr int kLineBytes = 64;
using LineBytes = uint8_t[kLineBytes];

bool ReadLine(const OtherViews& others, LineBytes* line, uint64_t address) {
  return others.read(line, reinterpret_cast<const void*>(address), sizeof(*line));
}

// Bit i: byte i of the line is not what the own view shows, which is still without `bytes`.
uint64_t ChangedBytes(const uint8_t* own, const uint8_t* bytes) {
  uint64_t changed = 0;
  for (int i = 0; i < kLineBytes; ++i) changed |= uint64_t{own[i] != bytes[i]} << i;
  return changed;
}

// Those of `wanted`, bytes of the line at `address`, that the thread shows as they are in `bytes`,
// or has just shown: while it keeps storing there, what memory has by now is what it shows by now.
uint64_t ShownBytes(const OtherViews& others, uint64_t number, uint64_t address, uint64_t wanted,
                    const uint8_t* bytes) {
  constexpr int kTries = 3;
  uint64_t shown = 0;
  for (int i = 0; i < kTries && shown != wanted; ++i) {
    LineBytes seen, memory;
    const bool read = ReadLine(others, &seen, address + others.distance(number)) &&
                      ReadLine(others, &memory, address);
    if (!read) break;
    for (uint64_t left = wanted & ~shown; left != 0; left &= left - 1) {
      const int byte = __builtin_ctzll(left);
      if (seen[byte] == bytes[byte] || seen[byte] == memory[byte]) shown |= uint64_t{1} << byte;
    }
  }
  return shown;
}

// Those of `wanted`, bytes of the line, that no other thread shows. `changing`: whether one that
// has the page is in the middle of a change.
uint64_t UnknownBytes(const OtherViews& others, const ThreadView& own, uint64_t index,
                      uint64_t address, uint64_t wanted, const uint8_t* bytes, bool* changing) {
  *changing = false;
  const uint64_t last = others.last;
  for (uint64_t number = others.first; number <= last && wanted != 0; ++number) {
    if (others.distance(number) == own.distance()) continue;
    if (!others.holds(number, index)) continue;
    *changing |= others.is_changing(number);
    wanted &= ~ShownBytes(others, number, address, wanted, bytes);
  }
  return wanted;
}

// What a recorded thread has stored is in its view before it is in memory, but for what it stores
// by a locked instruction, which takes a fraction of a microsecond.
bool IsLineKnown(const OtherViews& others, const ThreadView& own, uint64_t index, uint64_t address,
                 const uint8_t* bytes) {
  constexpr int kLooks = 40, kPauses = 8;  // some microseconds
  uint64_t unknown =
      ChangedBytes(reinterpret_cast<const uint8_t*>(address + own.distance()), bytes);
  bool changing = true;
  for (int i = 0; i < kLooks && unknown != 0 && changing; ++i) {
    for (int pause = 0; i > 0 && pause < kPauses; ++pause) __builtin_ia32_pause();
    unknown = UnknownBytes(others, own, index, address, unknown, bytes, &changing);
  }
  return unknown == 0;
}

bool IsLine(const uint8_t* seen, const uint8_t* bytes) {
  uint64_t differs = 0;
  for (int i = 0; i < kLineBytes; i += 8) {
    uint64_t one, other;
    __builtin_memcpy(&one, seen + i, sizeof(one));
    __builtin_memcpy(&other, bytes + i, sizeof(other));
    differs |= one ^ other;
  }
  return differs == 0;
}

// Those of `lines` that the thread shows in whole as they are in `bytes`. What lies between the
// first and the last one is read at once.
uint64_t SameLines(const OtherViews& others, uint64_t number, uint64_t page, uint64_t lines,
                   const uint8_t* bytes) {
  alignas(kLineBytes) uint8_t seen[ThreadView::kPage];
  const int begin = __builtin_ctzll(lines) * kLineBytes;
  const int end = (64 - __builtin_clzll(lines)) * kLineBytes;
  const uint64_t start = page + others.distance(number) + static_cast<uint64_t>(begin);
  if (!others.read(seen + begin, reinterpret_cast<const void*>(start),
                   static_cast<uint64_t>(end - begin))) {
    return 0;
  }
  uint64_t same = 0;
  for (uint64_t left = lines; left != 0; left &= left - 1) {
    const int line = __builtin_ctzll(left), offset = line * kLineBytes;
    same |= uint64_t{IsLine(seen + offset, bytes + offset)} << line;
  }
  return same;
}

}  // namespace

ThreadView::Known KnownToOthers(const OtherViews& others, const ThreadView& own, uint64_t page,
                                uint64_t lines, const uint8_t* bytes) {
  // Views that are looked at for who shows lines that are known already.
  constexpr int kMoreViews = 8;
  const uint64_t last = others.last;
  ThreadView::Known known;
  uint64_t index;
  if (lines == 0 || last <= others.first || !own.PageIndex(page, &index)) return known;
  // One thread has stored all of most lines.
  int shown = 0, more = kMoreViews;
  for (uint64_t number = others.first; number <= last; ++number) {
    if (others.distance(number) == own.distance() || !others.holds(number, index)) continue;
    if (known.lines == lines && (shown == HS_MOST_SHOWN || more-- == 0)) break;
    const uint64_t same = SameLines(others, number, page, lines, bytes);
    known.lines |= same;
    if (same != 0 && shown < HS_MOST_SHOWN) known.shown[shown++] = {number, same};
  }
  for (uint64_t left = lines & ~known.lines; left != 0; left &= left - 1) {
    const uint64_t line = static_cast<uint64_t>(__builtin_ctzll(left));
    const uint64_t offset = line * kLineBytes;
    if (IsLineKnown(others, own, index, page + offset, bytes + offset)) {
      known.lines |= uint64_t{1} << line;
    }
  }
  return known;
}

}  // namespace hindsight
