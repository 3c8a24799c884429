// The files a recorded process has mapped: stores them in the trace, and compares its pages with
// them, so that a page that still equals its file costs no bytes.
//
// Borrows the TraceWriter. Not copyable. One thread.

#ifndef HINDSIGHT_RECORDER_LOG_MODULE_TABLE_H_
#define HINDSIGHT_RECORDER_LOG_MODULE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/log/opened_modules.h"
#include "recorder/process/memory_map.h"
#include "tracefmt/modules/module_contents.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class ModuleTable {
 public:
  // `root` is put before every path of the map: /proc/PID/root, where the process sees its files.
  // `files` are shared with the tables of the recording's other processes; null: with none.
  ModuleTable(TraceWriter* writer, std::string root, uint64_t max_module_bytes,
              std::shared_ptr<OpenedModules> files = nullptr);
  ModuleTable(const ModuleTable&) = delete;
  ModuleTable& operator=(const ModuleTable&) = delete;

  // Opens the files that Register is going to store.
  void Open(absl::Span<const MapRegion> regions);
  // Sets `module` of every region whose file is in the trace, after storing those that are new.
  // `whole`: nothing else is mapped any more.
  absl::Status Register(absl::Span<MapRegion> regions, bool whole = false);

  // In a ring: lets go of files of which `regions`, the whole map, has none any more. The next full
  // keyframe has not begun.
  absl::Status ReleaseUnmapped(absl::Span<const MapRegion> regions);

  // Whether `bytes`, of the page at `page` of `region`, are what is stored of the file; if so their
  // offset in the file.
  bool Equals(const MapRegion& region, uint64_t page, const uint8_t* bytes, uint64_t* offset) const;
  // Whether the region's file may be stored to by way of mappings without a change of its times.
  bool MayChange(const MapRegion& region) const;
  // Whether the region's file is unchanged since it was stored, as far as its times tell: those of
  // one that is written by way of mappings do not.
  bool Unchanged(const MapRegion& region) const;
  // The file of a module; null: nothing of it is stored.
  std::shared_ptr<const ModuleFile> FileOf(int32_t module) const;
  // Modules, of those that may be mapped, whose file has been written to since it was stored, each
  // one once.
  std::vector<int32_t> TakeChanged();
  // Whether the region's file is an ELF file: those are not rewritten in place while they run.
  bool IsElf(const MapRegion& region) const;

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // device, inode

  struct Entry {
    std::shared_ptr<const ModuleFile> opened;  // not stored yet; null: there is none
    bool stored = false;
    int32_t listed = -1;  // module of the trace; -1: none
    int32_t module = -1;  // the same; -1: not stored
  };

  static Key KeyOf(const MapRegion& region);
  absl::Status Add(const MapRegion& region, Entry* entry);

  TraceWriter* const writer_;
  const std::string root_;
  const uint64_t max_module_bytes_;
  const std::shared_ptr<OpenedModules> shared_files_;
  std::map<Key, Entry> by_file_;
  struct Stored {
    std::shared_ptr<const ModuleFile> file;
    std::shared_ptr<const ModuleContents> contents;  // may be null
  };
  std::map<int32_t, Stored> files_;  // by module index
  std::set<int32_t> mapped_;         // those that may be
  std::set<int32_t> changed_;        // that TakeChanged has returned
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_MODULE_TABLE_H_
