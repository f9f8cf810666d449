// The cases of the suite `decode`, "MODEL_step_BATCH" and "MODEL_prompt_BATCH".
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::benchmarks {

const std::vector<std::string> &decode_case_names();
int64_t decode_case_batch(const std::string &name);
// Ready to run: one token for each text behind kSeen others, or a chunk of kChunk tokens of
// prompts. Throws std::runtime_error for a name that is not among them.
std::function<void()> make_decode_case(const std::string &name);

} // namespace weft::benchmarks
