// See operation.h.

#ifndef HINDSIGHT_TRANSLATOR_RUNTIME_STRINGS_H_
#define HINDSIGHT_TRANSLATOR_RUNTIME_STRINGS_H_

#include "translator/runtime/operation.h"

// Of kinds kHsMovs and up.
void HsRunString(const struct HsOperation* operation, struct HsOperationRegisters* registers,
                 const struct HsOperationHooks* hooks);

#endif  // HINDSIGHT_TRANSLATOR_RUNTIME_STRINGS_H_
