// The build-id of an ELF file.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_BUILD_ID_H_
#define HINDSIGHT_TRACEFMT_STORAGE_BUILD_ID_H_

#include <string>

namespace hindsight {

// Raw bytes of the GNU build-id note of the 64-bit ELF file open as `fd`; empty if it has none or
// is another kind of file. Does not move the file position.
std::string ReadBuildId(int fd);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_BUILD_ID_H_
