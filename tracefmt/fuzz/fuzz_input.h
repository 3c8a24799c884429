// How the fuzzer's input names a file of the sample trace and its new contents.
//
//   byte 0   which file (modulo their number)
//   byte 1   bit 0 clear: the rest is the file
//            bit 0 set: the rest is a list of messages, each a block kind (1 byte; bit 7 adds
//            0x8000), a length (3 bytes, little-endian) and that many bytes; the file is made of
//            them with headers and checksums that are right, so that mutations get past these

#ifndef HINDSIGHT_TRACEFMT_FUZZ_FUZZ_INPUT_H_
#define HINDSIGHT_TRACEFMT_FUZZ_FUZZ_INPUT_H_

#include <cstddef>

namespace hindsight {

inline constexpr const char* kFuzzedFiles[] = {
    "manifest",
    "events",
    "modules/list",
    "threads/1/0.seg",
    "threads/1/1.seg",
    "full/1",
    "full/2",
    "threads/2/0.seg",
    "processes/4800/manifest",
    "processes/4800/modules/list",
};
inline constexpr size_t kFuzzedFileCount = sizeof(kFuzzedFiles) / sizeof(kFuzzedFiles[0]);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_FUZZ_FUZZ_INPUT_H_
