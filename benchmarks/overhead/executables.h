// What an executable costs that was compiled ahead of time: bytes, and the time from its start to
// its output.
#pragma once

namespace weft::benchmarks {

class Report;

// A perceptron of 784, 128 and 10 numbers, whose first product is oneDNN's, and one of 16, 16 and
// 4, which calls no library; both stripped, with their weights in a file beside them. Throws
// std::runtime_error when one cannot be made or fails.
void executables(Report &report, int threads);

} // namespace weft::benchmarks
