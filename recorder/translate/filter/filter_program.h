// Programs that decide about system calls (seccomp): what the kernel accepts, and what they answer.
//
// Used by the agent as well: no library.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_FILTER_FILTER_PROGRAM_H_
#define HINDSIGHT_RECORDER_TRANSLATE_FILTER_FILTER_PROGRAM_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>

namespace hindsight {

// Whether the kernel takes the program for a filter.
bool IsValidFilter(const sock_filter* program, uint32_t size);

// What it returns for the call `data`: SECCOMP_RET_*. Requires: it is valid.
uint32_t RunFilter(const sock_filter* program, const seccomp_data& data);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_FILTER_FILTER_PROGRAM_H_
