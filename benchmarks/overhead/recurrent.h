// A network whose step is thousands of small ops, where recording counts.
#pragma once

#include <string>
#include <vector>

namespace weft::benchmarks {

class Report;

// A training step of an LSTM over 50 steps of 16 samples, and the part of it that goes by before it
// runs; without jit and with it. peers: commands of contestants (benchmarks/common/contestant.h)
// that have the step as the case "lstm_step"; they take turns with Weft.
void recurrent(Report &report, int rounds, int threads, const std::vector<std::string> &peers);

} // namespace weft::benchmarks
