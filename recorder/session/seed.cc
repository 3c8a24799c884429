#include "recorder/session/seed.h"

#include <random>

namespace hindsight {

uint64_t NewSeed() { return std::random_device{}(); }

}  // namespace hindsight
