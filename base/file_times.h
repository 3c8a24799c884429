// What the times of a file say of its bytes.

#ifndef HINDSIGHT_BASE_FILE_TIMES_H_
#define HINDSIGHT_BASE_FILE_TIMES_H_

#include <sys/stat.h>
#include <time.h>

namespace hindsight {

// How old the times are of a file that nobody stores to by way of a mapping, where
// TellTimesOfStores: they change with the first store to a page after the kernel has written it to
// the disk, which it does at least twice a minute.
inline constexpr time_t kNoStoresSeconds = 60;

// Whether the times of open file `fd` change also with stores by way of mappings, if not with each.
bool TellTimesOfStores(int fd);

// Whether neither the file nor what is known of it has changed for so long.
bool IsAtRest(const struct stat& file, time_t seconds);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_FILE_TIMES_H_
