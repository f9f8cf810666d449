// What a function records for a batch of one, beside what it records for larger ones.
//
// Where the batch is 1 its dim has the size that broadcasting repeats: a tensor of leading size 1
// is not repeated, and its gradient is not summed. The recording of a larger size has ops for both,
// which do nothing here, so that its program serves a batch of one, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/programs/trace.h"

namespace weft::recorder {

// Of the recording of a larger size: its numbers as they are where the batch is 1.
struct NumbersAtOne {
  std::vector<int64_t> ints;                // of its structure
  std::vector<bool> varying;                // which of the ints are sizes that vary
  std::vector<bool> inputs;                 // which placeholders have the batch in front
  std::function<int64_t(size_t leaf)> bits; // of a scalar that the function gives
};

struct BatchOfOne {
  // Ops of the larger size: sums over the batch that a batch of one has not.
  std::vector<size_t> sums;
  // The first ops that do not agree, where some do not.
  std::optional<std::pair<size_t, size_t>> apart;
  // Empty, or what else the function gives or keeps.
  std::string difference;
};

// `many`, which is of this size, and `one` are of one function. Takes the recorder's lock as held.
BatchOfOne compare_batch_of_one(const Recording &many, int64_t size, const Recording &one,
                                const NumbersAtOne &numbers, Location location);

// The number of a placeholder, or of a storage behind those; nothing for what the function made.
std::optional<size_t> source_of(const Recording &recording, Value *leaf);
// Whether leaves of two recordings of one function are the same argument, or the same storage, or
// both made by the function.
bool have_one_source(const Recording &a, Value *leaf_of_a, const Recording &b, Value *leaf_of_b);

} // namespace weft::recorder
