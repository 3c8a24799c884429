// The bytes of a process's code, from memory that it may execute.
//
// Remembers which memory that is, and the bytes of what cannot be written: each page is read once,
// with those beside it, or taken from the file that it shows.
// One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_CODE_SOURCE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_CODE_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "recorder/process/process_memory.h"
#include "recorder/translate/memo/code_file.h"
#include "tracefmt/records.h"

namespace hindsight {

class CodeSource {
 public:
  // Told of memory that is executed from now on.
  using OnCode = std::function<void(const MapRegion& region)>;

  // `files` may be null.
  CodeSource(pid_t process, OnCode on_code, std::shared_ptr<CodeFiles> files = nullptr);
  // Takes what `maker` has read of code that is the same here, and cannot change. Requires: nothing
  // has been asked for yet; the process was made by fork of maker's, which had one thread; maker
  // has forgotten nothing since, and found no other region. Returns maker's other regions of code,
  // of which nothing is known here.
  std::vector<MapRegion> Inherit(CodeSource* maker);

  // From `pc` to at most the end of the next page; empty if it cannot be executed. Valid until the
  // next call of Forget or ForgetWritable.
  absl::Span<const uint8_t> At(uint64_t pc);
  // The region that `address` is in, if OnCode was told of it; else null. Valid as long.
  const MapRegion* LookUp(uint64_t address) const;
  // All of the page at `page`, be it code or not. False if it cannot be read.
  bool ReadPage(uint64_t page, absl::Span<uint8_t> out) const;
  // Whether the bytes at `pc` are known to be code, and nothing that the process could write to:
  // the same as when a thread was there last.
  bool IsConstant(uint64_t pc) const;
  // Whether the code around `pc` can change without a system call: the process can write to it, or
  // shares it.
  bool MayChange(uint64_t pc) const;
  // What has been read from memory that the process can write to: it may have done so.
  void ForgetWritable();
  // [start, end) may be other memory now. Whether anything of it was known.
  bool Forget(uint64_t start, uint64_t end);

 private:
  struct Unmap {
    uint64_t bytes = 0;
    void operator()(uint8_t* start) const;
  };
  // kInFile: of Region::file.
  enum class PageState : uint8_t { kNotRead, kRead, kInFile, kNone };
  // The bytes of a region where they lie in it, each page once it has been read; then the page that
  // follows the region, if that is code as well.
  struct Region {
    explicit Region(const MapRegion& where);

    MapRegion map;
    std::unique_ptr<uint8_t, Unmap> bytes{nullptr, Unmap{}};  // from the first page read on
    std::vector<PageState> pages;                             // with the one that follows
    // What had been read before the process was made, or made another; null: nothing. Not of the
    // page that follows.
    std::shared_ptr<const Region> before;
    std::shared_ptr<CodeFile> file;  // what the region shows; null: read it
  };
  static bool HasBefore(const Region& region, uint64_t number);
  // What `before` or, as far as is known, the file has of page `number`; null: nothing.
  static const uint8_t* Shared(const Region& region, uint64_t number);
  // The same, from the file also if it has not been asked yet.
  const uint8_t* FindShared(Region* region, uint64_t number) const;
  // Gives room for its bytes. False: there is none.
  static bool HasRoom(Region* region);
  static void Take(const uint8_t* shared, Region* region, uint64_t number);
  // What has been read of the region, from now on unchanged.
  static std::shared_ptr<const Region> Share(Region* region);
  // What all of `region` shows; null: some of it is the process's own.
  std::shared_ptr<CodeFile> FileOf(const MapRegion& region) const;
  // Null: it is no code.
  Region* FindRegion(uint64_t address);
  Region* RegionAt(uint64_t address);
  const Region* RegionAt(uint64_t address) const;
  // Reads page `number` and some beside it, if none of them has been read and all can be.
  void ReadAround(Region* region, uint64_t number);
  // Reads page `number` of the region. False if it cannot be read, or is no code.
  bool ReadInto(Region* region, uint64_t number);

  const pid_t process_;
  const OnCode on_code_;
  const std::shared_ptr<CodeFiles> files_;
  ProcMemFile memory_;
  std::vector<std::unique_ptr<Region>> regions_;  // that can be executed, ascending
  std::vector<uint64_t> writable_;                // pages that were read where code may change
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_CODE_SOURCE_H_
