// What a size that varies may be, for providers whose answer depends on it.
#pragma once

namespace weft::backends::cpu {

// What compiler::SometimesMine says.
inline constexpr char kSometimesTooSmall[] =
    "the library takes problems of larger sizes only, and the smallest of the range is none";
inline constexpr char kSometimesFewRows[] =
    "a kernel of ours multiplies few rows with a narrow matrix, and the range has more";
inline constexpr char kSometimesTooLarge[] =
    "the library counts in 32 bits, and the largest problem of the range is too large for it";

} // namespace weft::backends::cpu
