// What the runtime's loop costs for each instruction.
#pragma once

namespace weft::benchmarks {

// The median over the rounds, for a program of many launches of a kernel that does nearly nothing.
// profiled: while a trace is written. Throws std::runtime_error.
double seconds_per_instruction(int rounds, bool profiled = false);

} // namespace weft::benchmarks
