// Brings pages from the process into a thread's view, and logs what that changed.
//
// Import is where the view, the trace and the witnesses learn of a page's contents: the first time
// in a segment all of it (or a reference to a module's page), later the lines that differ. Leave is
// the opposite: the trace's contents of the page are not to be shown from now on.
//
// Borrows everything it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_PAGE_IMPORTER_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_PAGE_IMPORTER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "recorder/emulate/pager/known_pages.h"
#include "recorder/log/module_table.h"
#include "recorder/log/page_witness.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

class PageImporter {
 public:
  // `who`: the thread, as the witnesses know it.
  PageImporter(const ProcessMemory* memory, const ModuleTable* modules, ThreadLog* log,
               PageWitnesses* witnesses, const void* who)
      : memory_(memory), modules_(modules), log_(log), witnesses_(witnesses), who_(who) {}
  PageImporter(const PageImporter&) = delete;
  PageImporter& operator=(const PageImporter&) = delete;

  void set_cpu(Cpu* cpu) { cpu_ = cpu; }
  // Where it reads from now on; borrowed.
  void set_memory(const ProcessMemory* memory) { memory_ = memory; }
  // The state that imports are of: see ProcessPager.
  void set_count(uint64_t count) { count_ = count; }
  // Another thread may import a page after this one has left it.
  void set_others_import(bool others) { others_import_ = others; }

  // No page is sealed from now on.
  void set_seals(bool seals) { seals_ = seals; }

  // Fills in what `region` of `space` says of the page.
  void Describe(const AddressSpace& space, const MapRegion& region, KnownPage* page) const;
  PageBacking BackingOf(const AddressSpace& space, const MapRegion& region, uint64_t page) const;

  // Describes and imports a page of `region`. False if it cannot be read.
  bool Import(const AddressSpace& space, const MapRegion& region, KnownPage* page);
  // Imports the pages; returns those that cannot be read.
  std::vector<KnownPage*> ImportAll(const AddressSpace& space, absl::Span<KnownPage* const> pages);
  // The same for pages that are not held; leaves those that cannot be read.
  void Confirm(const AddressSpace& space, absl::Span<KnownPage* const> pages);
  void Leave(KnownPage* page);

  // Imports so far that were news to the view.
  uint64_t changes() const { return changes_; }

 private:
  void Take(const AddressSpace& space, KnownPage* page, const uint8_t* bytes);
  void LogFirst(const AddressSpace& space, const KnownPage& page, const uint8_t* bytes);
  uint64_t KnownLines(const KnownPage& page, const uint8_t* bytes) const;

  const ProcessMemory* memory_;
  const ModuleTable* const modules_;
  ThreadLog* const log_;
  PageWitnesses* const witnesses_;
  const void* const who_;
  Cpu* cpu_ = nullptr;
  uint64_t count_ = 0;
  bool others_import_ = false;
  bool seals_ = true;
  uint64_t changes_ = 0;
  std::vector<uint8_t> scratch_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_PAGE_IMPORTER_H_
