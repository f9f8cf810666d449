// What the fuzz targets of parsers share: a corpus that the writers make, and a bound on what a
// parser may allocate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::fuzz {

// Each target defines these two. Files that the writers make, small enough to be mutated quickly.
std::vector<std::string> seeds();
// Hands the bytes to the parser and says whether it took them. Must return for any bytes.
bool parse(const uint8_t *data, size_t size);
// How many bytes parse() may hold at once for a file of this size.
int64_t allowed_bytes(size_t size);

} // namespace weft::fuzz
