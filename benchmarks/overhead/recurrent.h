// A network whose step is thousands of small ops, where recording counts.
#pragma once

namespace weft::benchmarks {

class Report;

// A training step of an LSTM over 50 steps of 16 samples, and the part of it that goes by before it
// runs; without jit and with it.
void recurrent(Report &report, int rounds, int threads);

} // namespace weft::benchmarks
