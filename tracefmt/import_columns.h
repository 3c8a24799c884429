// The columns of imported pages and lines as they are read: Take reads the next one, and returns
// what is wrong with it, or nullptr.
//
// Borrow the message. One host thread.

#ifndef HINDSIGHT_TRACEFMT_IMPORT_COLUMNS_H_
#define HINDSIGHT_TRACEFMT_IMPORT_COLUMNS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tracefmt/record_columns.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/columns.h"

namespace hindsight {

inline constexpr char kShortColumn[] = "a column is too short";
inline constexpr char kUnalignedPage[] = "a page address is not aligned";
inline constexpr char kNoSuchModule[] = "a module that is not listed";

struct PageColumns {
  explicit PageColumns(wire::PageColumns::Reader columns)
      : addresses(columns.getAddresses()),
        masks(columns.getLineMasks()),
        module_offsets(columns.getModuleOffsets()),
        known_masks(columns.getKnownMasks()),
        shown_masks(columns.getShownMasks()),
        modules(columns.getModules()),
        shown_by(columns.getShownBy()),
        flags(columns.getFlags()),
        bytes(columns.getBytes()),
        shown_counts(columns.getShownCounts()),
        turns(columns.getTurns()) {}

  const char* Take(size_t module_count, PageImport* page) {
    uint8_t flag = 0;
    if (!addresses.Take(&page->address) || !masks.Take(&page->line_mask) || !flags.Take(&flag)) {
      return kShortColumn;
    }
    if (page->address % kPageBytes != 0) return kUnalignedPage;
    page->first = (flag & 1) != 0;
    if ((flag & 2) != 0) {
      if (!modules.Take(&page->module) || !module_offsets.Take(&page->module_offset)) {
        return kShortColumn;
      }
      if (page->module < 0 || static_cast<size_t>(page->module) >= module_count) {
        return kNoSuchModule;
      }
    }
    if ((flag & 4) != 0 && !known_masks.Take(&page->known_mask)) return kShortColumn;
    if ((flag & 8) != 0) {
      if (const char* const damage = TakeShown(page)) return damage;
    }
    if ((flag & 16) != 0 && !turns.Take(&page->turn)) return kShortColumn;
    if (!bytes.Take(std::popcount(page->line_mask) * kLineBytes, &page->lines)) {
      return kShortColumn;
    }
    return nullptr;
  }

  const char* TakeShown(PageImport* page) {
    uint8_t count = 0;
    if (!shown_counts.Take(&count)) return kShortColumn;
    for (; count != 0; --count) {
      PageImport::Shown shown;
      if (!shown_by.Take(&shown.thread) || !shown_masks.Take(&shown.lines)) return kShortColumn;
      if ((shown.lines & ~page->line_mask) != 0) return "a page shows lines that it does not have";
      page->shown.push_back(shown);
    }
    return nullptr;
  }

  WordColumn addresses, masks, module_offsets, known_masks, shown_masks;
  IntegerColumn modules, shown_by;
  ByteColumn flags, bytes, shown_counts, turns;
};

struct LineColumns {
  explicit LineColumns(wire::LineColumns::Reader columns)
      : addresses(columns.getAddresses()), flags(columns.getFlags()), bytes(columns.getBytes()) {}

  const char* Take(LineImport* line) {
    uint8_t flag = 0;
    if (!addresses.Take(&line->address) || !flags.Take(&flag) ||
        !bytes.Take(kLineBytes, &line->bytes)) {
      return kShortColumn;
    }
    if (line->address % kLineBytes != 0) return "a line address is not aligned";
    line->code = (flag & 1) != 0;
    return nullptr;
  }

  WordColumn addresses;
  ByteColumn flags, bytes;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_IMPORT_COLUMNS_H_
