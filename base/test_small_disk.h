// A disk that is soon full, for tests of what happens then.

#ifndef HINDSIGHT_BASE_TEST_SMALL_DISK_H_
#define HINDSIGHT_BASE_TEST_SMALL_DISK_H_

#include <cstdint>
#include <functional>
#include <string>

namespace hindsight {

// How RunOnSmallDisk ended.
enum class SmallDiskRun : uint8_t {
  kPassed,
  kFailed,
  kCannotMount,  // we have no right to
};

// Makes a directory in that of the tests, and runs `body` with its name in a child process, for
// which a file system of so many bytes ("2m") is mounted there. `body`: whether all was well.
SmallDiskRun RunOnSmallDisk(const std::string& size,
                            const std::function<bool(const std::string& directory)>& body);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_TEST_SMALL_DISK_H_
