// Which processor features an instruction needs when the host executes it.
//
// Stateless; any thread.

#ifndef HINDSIGHT_ISA_NEEDED_FEATURES_H_
#define HINDSIGHT_ISA_NEEDED_FEATURES_H_

#include <Zydis/Zydis.h>

#include <optional>

#include "isa/host_features.h"

namespace hindsight {

// nullopt: an unknown extension.
std::optional<HostFeatures> NeededFeatures(const ZydisDecodedInstruction& instruction);

// Whether vendors give different results: approximations, x87's transcendental functions, and what
// the architecture leaves undefined.
bool IsVendorsOwn(ZydisMnemonic mnemonic);

}  // namespace hindsight

#endif  // HINDSIGHT_ISA_NEEDED_FEATURES_H_
