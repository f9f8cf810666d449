// curve.csv: one line a step, with all the digits of the loss, so that runs can be compared bit for
// bit.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace examples {

// Lines "step,loss,LAST", whose last column is empty in most of them.
class Curve {
public:
  // Keeps the lines of the first `step` steps of a curve that is there: what a killed run wrote
  // after its checkpoint goes. Throws weft::Error when the file cannot be written.
  Curve(std::string path, const std::string &last_column, int64_t step);

  void add(int64_t step, float loss, std::optional<double> last);
  // Before a checkpoint is written. Throws weft::Error when the file cannot be written.
  void flush();

private:
  std::string path_;
  std::ofstream stream_;
};

} // namespace examples
