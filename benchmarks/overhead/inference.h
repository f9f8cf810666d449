// What it brings that weights which do not change are packed once.
#pragma once

namespace weft::benchmarks {

class Report;

// A perceptron of 1024, 4096 and 1024 numbers, one sample and a small batch at a time, with
// prepared weights and without, in turns.
void inference(Report &report, int rounds, int threads);

} // namespace weft::benchmarks
