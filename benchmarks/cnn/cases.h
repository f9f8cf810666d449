// The cases of the suite `cnn`, "NETWORK_inference_BATCH" and "NETWORK_training_BATCH".
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::benchmarks {

const std::vector<std::string> &cnn_case_names();
int64_t cnn_case_batch(const std::string &name);
// Ready to run: one inference, or one step of SGD with momentum. Throws std::runtime_error for a
// name that is not among them.
std::function<void()> make_cnn_case(const std::string &name);

} // namespace weft::benchmarks
