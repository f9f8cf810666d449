// Which collectives there are, and how they reduce: one list for programs, recorder and layers.
#pragma once

#include <cstdint>

namespace weft::runtime {

enum class Collective : uint8_t {
  kAllReduce,     // output[i] = the reduction of all ranks' input[i]
  kAllGather,     // output = all ranks' inputs, by rank
  kReduceScatter, // output = this rank's part of what all_reduce gives
  kAllToAll,      // part r of the input goes to rank r; part r of the output comes from rank r
  kBroadcast,     // output = the input of rank `peer`
  kSend,          // to rank `peer`
  kReceive,       // from rank `peer`
  kBarrier,
  kSplit,       // an all_gather, by another name
  kSendReceive, // the input goes to rank `peer`, the output is the input of rank `source`
};

// How the elements of all ranks become one. Sums are added up in rank order, so that the bits do
// not depend on timing; a mean is of floating-point dtypes.
enum class Reduction : uint8_t { kSum, kMean, kMin, kMax, kProduct };

} // namespace weft::runtime
