// What the trace's view of a thread holds in its present segment, and how pages get into it: what
// the thread has read, as it tells, and what code was translated from.
//
// Borrows what it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_SEGMENT_PAGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_SEGMENT_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "recorder/log/module_table.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "recorder/translate/stream/executed_pages.h"

namespace hindsight {

class SegmentPages {
 public:
  SegmentPages(const AddressSpace* space, const ModuleTable* modules, ThreadLog* log)
      : space_(space), modules_(modules), log_(log) {}
  SegmentPages(const SegmentPages&) = delete;
  SegmentPages& operator=(const SegmentPages&) = delete;

  // A segment begins, at the time stamp `time`: it holds nothing. `code` may be null: none is
  // added.
  void Begin(uint64_t time, std::shared_ptr<const ExecutedPages> code);

  // In state `count`, and that turn (PageImport::turn).
  void Add(uint64_t count, uint64_t address, const uint8_t* bytes,
           uint8_t turn = PageImport::kFirstTurn);
  // Lines of a page in the view, as PageImport has them.
  void AddLines(uint64_t count, const PageImport& import);
  // [start, end) is used without anybody's seeing it, and is as the map says. `begins`: but for
  // what was added in this state, with which the segment begins.
  void AddMapped(uint64_t count, uint64_t start, uint64_t end, bool begins);
  // Of what is used so, these pages have been; `all`: and those that were told before.
  void AddUsed(uint64_t count, absl::Span<const uint64_t> pages, bool all);
  // The thread tells from now on what it sees. What it has stored until then nobody has seen.
  void Share();
  bool HasNewCode() const { return code_ != nullptr && added_code_ != code_->size(); }
  void AddNewCode(uint64_t count);
  // All code, as memory has it by now: it may have changed without having been executed since.
  void AddCodeAsItIs(uint64_t count, absl::FunctionRef<bool(uint64_t, uint8_t*)> read);

 private:
  static constexpr uint64_t kUnknown = 0;

  // A place in a file of a module; module -1: none.
  struct ModulePlace {
    int32_t module = -1;
    uint64_t offset = 0;

    bool operator==(const ModulePlace&) const = default;
  };
  // What the map says of the page at `address`.
  ModulePlace PlaceOf(uint64_t address) const;
  // The same if the module has these bytes there, else none.
  ModulePlace PlaceWith(uint64_t address, const uint8_t* bytes) const;
  bool IsAsMapped(const MapRegion& region) const;
  void AddCode(uint64_t count, const ExecutedPage& page);
  // A page of this hash. Asks for its place in a module only if that matters.
  void Import(uint64_t count, uint64_t address, const uint8_t* bytes, uint64_t hash, uint8_t turn,
              absl::FunctionRef<ModulePlace()> place_with_bytes);

  const AddressSpace* const space_;
  const ModuleTable* const modules_;
  ThreadLog* const log_;
  // The process may have gone on to another program's.
  std::shared_ptr<const ExecutedPages> code_;
  absl::flat_hash_map<uint64_t, uint64_t> held_;  // hashes of pages, by address; or kUnknown
  bool direct_ = false;                           // AddMapped has been called in this segment
  size_t added_code_ = 0;                         // of code_
  size_t earlier_code_ = 0;                       // had been published when the segment began
  uint64_t begin_time_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_SEGMENT_PAGES_H_
