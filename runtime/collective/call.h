// One call of a collective, and what ranks compare before they exchange data.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/collective/kinds.h"
#include "runtime/core/dtype.h"

namespace weft::runtime {

inline constexpr int32_t kNoRank = -1;

struct CollectiveCall {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
  // Elements of the input, or of one of its parts: reduce_scatter and all_to_all take size() times
  // as many, all_gather and all_to_all give as many. The same on all ranks.
  int64_t count = 0;
  int32_t peer = 0;    // a rank of the group; of send_receive also kNoRank
  int32_t source = -1; // of send_receive: a rank of the group, or kNoRank, which gives zeros
  const void *input = nullptr;
  // all_reduce, broadcast: may be the input. all_gather: the input may be this rank's part of it,
  // and of reduce_scatter the output may be this rank's part of the input. Else they are apart.
  void *output = nullptr;
  std::string place; // the caller's line, for errors: "train.cpp:12"
  // What the elements are, as a text that is the same on all ranks: a shape, "[2, 3]", or which
  // parameters' gradients. Of a split it is what the program calls, "Mesh(data 2, model 2)". May be
  // empty.
  std::string operand = "";
};

bool is_between_two(Collective kind); // send and receive

// "all_reduce(sum, float32 x 1000)", "all_reduce(sum, float32 x 6 of [2, 3])".
std::string describe(const CollectiveCall &call);

// InvalidArgument for what no rank of a group of this size may call; before there are buffers, and
// with them.
absl::Status check_without_buffers(const CollectiveCall &call, int rank, int size);
absl::Status check(const CollectiveCall &call, int rank, int size);

// What travels in front of the data of a call: plain bytes, the same for all layers.
struct CallHeader {
  uint32_t magic;
  uint8_t kind, dtype, reduction, on_device;
  int32_t peer, source;
  int64_t count;
  uint64_t number;
  uint64_t operand_hash; // of the whole text
  char operand[104];     // its beginning where it is longer
  char place[104];       // its end where it is longer
};
static_assert(sizeof(CallHeader) == 248);

CallHeader header_of(const CollectiveCall &call, uint64_t number, bool on_device);
// FailedPrecondition names both calls, ranks and lines. `rank`, `other`: the ranks of the job;
// `me`, `they`: of the group.
absl::Status check_same(const CallHeader &own, const CallHeader &theirs, int rank, int other,
                        int me, int they, const std::string &group);

} // namespace weft::runtime
