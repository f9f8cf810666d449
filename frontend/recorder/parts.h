// A slice that lies on several devices, as what is submitted one after the other.
#pragma once

#include <vector>

#include "frontend/recorder/slice.h"

namespace weft::recorder {

// What one submission computes: values of one device, or the result of one transfer.
using Part = std::vector<ValueRef>;

// Each part needs results of earlier ones only. What does not wait for a transfer comes first, and
// of what waits for equally many in a row the transfers do: while one device's bytes are on their
// way, the others compute. Linear in the slice.
std::vector<Part> parts_of(const Slice &slice);

} // namespace weft::recorder
