// A slice that lies on several devices, as what is submitted one after the other.
#pragma once

#include <vector>

#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// What one submission computes: values of one device, or the result of one exchange.
using Part = std::vector<ValueRef>;

// Each part needs results of earlier ones only. Exchanges begin as early as they can: what they
// wait for is a program of its own, so that their bytes are on their way while the rest is
// computed. Small ones wait for each other, since a program's end costs fusion. Elementwise work
// that no exchange waits for goes to the program that reads it. Where a part may fail, what
// storages are given in place comes in the last parts, one a device. Linear in the slice, but for a
// sort of the parts.
std::vector<Part> parts_of(const Slice &slice);

} // namespace weft::recorder
