#include "runtime/collective/algorithms.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "runtime/collective/reduce.h"

namespace weft::runtime {
namespace {

// Large enough that a message's costs do not count, small enough that a slow network moves one
// between any two ranks well within the timeout.
constexpr int64_t kMaxMessage = 4 << 20;
// Of what is added up: two pieces from each rank are in memory at a time, one under way and one
// that is read. Of many ranks they are smaller.
constexpr int64_t kPieceBytes = 512 << 10, kLeastPieceBytes = 32 << 10, kRanksOfWholePieces = 8;

const char *at(const void *data, int64_t bytes) {
  return static_cast<const char *>(data) + bytes;
}
char *at(void *data, int64_t bytes) {
  return static_cast<char *>(data) + bytes;
}

#define WEFT_RETURN(expression)                                                                    \
  if (absl::Status status = (expression); !status.ok())                                            \
  return status

// Each rank adds up its part of the input, whose parts are [begin(r), end(r)): `result` is where
// its sum goes. With `all`, an all_reduce's output, it gets the other ranks' parts, too.
absl::Status reduce_parts(const CollectiveCall &call, int me, int size, char *result, char *all,
                          Messages &messages) {
  const int64_t width = byte_size(call.dtype);
  const int64_t piece =
      std::max(kLeastPieceBytes,
               kPieceBytes * kRanksOfWholePieces / std::max<int64_t>(size, kRanksOfWholePieces)) /
      width;
  auto range = [&](int rank) {
    return all ? part_of(call.count, rank, size)
               : std::pair(rank * call.count, (rank + 1) * call.count);
  };
  // Piece k of rank r's part.
  auto slice = [&](int rank, int64_t k) {
    auto [begin, end] = range(rank);
    return std::pair(std::min(begin + k * piece, end), std::min(begin + (k + 1) * piece, end));
  };
  const int64_t own = range(me).second - range(me).first;
  const int64_t longest = range(0).second - range(0).first; // the first parts are the longest
  const int64_t pieces = (longest + piece - 1) / piece;
  const int64_t slot = std::min(own, piece) * width;
  auto others = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(2 * slot * size));
  auto received = [&](int rank, int64_t k) {
    return others.get() + ((k % 2) * size + rank) * slot;
  };
  auto post_piece = [&](int64_t k) -> absl::Status {
    for (int distance = 1; distance < size; ++distance) {
      int to = (me + distance) % size, from = (me + size - distance) % size;
      auto [begin, end] = slice(to, k);
      WEFT_RETURN(messages.send(to, at(call.input, begin * width), (end - begin) * width));
      auto [mine, until] = slice(me, k);
      WEFT_RETURN(messages.receive(from, received(from, k), (until - mine) * width));
    }
    return absl::OkStatus();
  };
  std::vector<const void *> parts(static_cast<size_t>(size));
  WEFT_RETURN(post_piece(0));
  for (int64_t k = 0; k < pieces; ++k) {
    int64_t posted = messages.posted();
    if (k + 1 < pieces)
      WEFT_RETURN(post_piece(k + 1));
    // What is received below goes where piece k was sent from, if the output is the input.
    WEFT_RETURN(messages.wait(posted));
    auto [begin, end] = slice(me, k);
    for (int rank = 0; rank < size; ++rank)
      parts[rank] = rank == me ? at(call.input, begin * width) : received(rank, k);
    char *sum = at(result, (begin - range(me).first) * width);
    reduce(call.dtype, call.reduction, parts, sum, end - begin);
    for (int distance = 1; all && distance < size; ++distance) {
      int to = (me + distance) % size, from = (me + size - distance) % size;
      WEFT_RETURN(messages.send(to, sum, (end - begin) * width));
      auto [theirs, until] = slice(from, k);
      WEFT_RETURN(messages.receive(from, at(all, theirs * width), (until - theirs) * width));
    }
  }
  return messages.wait();
}

absl::Status broadcast(const CollectiveCall &call, int me, int size, Messages &messages) {
  const int64_t width = byte_size(call.dtype);
  auto slice = [&](int rank) {
    auto [begin, end] = part_of(call.count, rank, size);
    return std::pair(begin * width, (end - begin) * width);
  };
  // The root gives each rank a part, and each rank passes its part on: the root sends the data
  // twice at most, whatever the number of ranks.
  if (me == call.peer) {
    for (int rank = 0; rank < size; ++rank) {
      auto [begin, bytes] = slice(rank);
      if (rank != me)
        WEFT_RETURN(messages.send(rank, at(call.input, begin), bytes));
    }
    auto [begin, bytes] = slice(me);
    for (int rank = 0; rank < size; ++rank)
      if (rank != me)
        WEFT_RETURN(messages.send(rank, at(call.input, begin), bytes));
    if (call.output != call.input)
      std::memmove(call.output, call.input, static_cast<size_t>(call.count * width));
    return messages.wait();
  }
  auto [begin, bytes] = slice(me);
  WEFT_RETURN(messages.receive(call.peer, at(call.output, begin), bytes));
  int64_t own = messages.posted();
  for (int rank = 0; rank < size; ++rank) {
    auto [from, length] = slice(rank);
    if (rank != me)
      WEFT_RETURN(messages.receive(rank, at(call.output, from), length));
  }
  WEFT_RETURN(messages.wait(own));
  for (int rank = 0; rank < size; ++rank)
    if (rank != me && rank != call.peer)
      WEFT_RETURN(messages.send(rank, at(call.output, begin), bytes));
  return messages.wait();
}

} // namespace

std::pair<int64_t, int64_t> part_of(int64_t count, int rank, int size) {
  int64_t each = count / size, longer = count % size;
  auto begin = [&](int64_t r) {
    return r * each + std::min(r, longer);
  };
  return {begin(rank), begin(rank + 1)};
}

absl::Status Messages::post(int peer, bool is_send, void *data, int64_t bytes) {
  for (int64_t from = 0; from < bytes; from += kMaxMessage) {
    try {
      transfers_.emplace_back();
    } catch (const std::bad_alloc &) {
      // Before what is under way loses its memory.
      return link_.fail(rank_without_memory(link_.rank()));
    }
    weft_collective_transfer &transfer = transfers_.back();
    transfer = {};
    transfer.struct_size = sizeof transfer;
    transfer.peer = members_[static_cast<size_t>(peer)];
    transfer.is_send = is_send;
    transfer.channel = channel_;
    transfer.data = at(data, from);
    transfer.bytes = std::min(kMaxMessage, bytes - from);
    if (const char *why = link_.post(transfer))
      return link_.fail(rank_gone(transfer.peer, why));
  }
  return absl::OkStatus();
}

absl::Status Messages::send(int to, const void *data, int64_t bytes) {
  return post(to, true, const_cast<void *>(data), bytes);
}

absl::Status Messages::receive(int from, void *data, int64_t bytes) {
  return post(from, false, data, bytes);
}

absl::Status Messages::wait_for_first(Deadline deadline) {
  weft_collective_transfer &transfer = transfers_.front();
  const char *why = nullptr;
  int32_t result = link_.wait(transfer, deadline, why);
  if (result == WEFT_TRANSFER_LATE)
    return link_.fail_late({transfer.peer, channel_, what_()});
  if (result != WEFT_TRANSFER_DONE)
    return link_.fail(rank_gone(transfer.peer, why ? why : "the layer says no more"));
  transfers_.pop_front();
  ++first_;
  return absl::OkStatus();
}

absl::Status Messages::wait(int64_t mark) {
  while (first_ < mark)
    WEFT_RETURN(wait_for_first(link_.deadline()));
  return absl::OkStatus();
}

absl::Status Messages::wait_for_ranks() {
  Deadline deadline = link_.deadline();
  while (!transfers_.empty())
    WEFT_RETURN(wait_for_first(deadline));
  return absl::OkStatus();
}

absl::Status exchange(const CollectiveCall &call, int me, int size, Messages &messages) {
  const int64_t bytes = call.count * byte_size(call.dtype);
  auto *output = static_cast<char *>(call.output);
  switch (call.kind) {
  case Collective::kAllReduce: {
    char *result = at(output, part_of(call.count, me, size).first * byte_size(call.dtype));
    return reduce_parts(call, me, size, result, output, messages);
  }
  case Collective::kReduceScatter:
    return reduce_parts(call, me, size, output, nullptr, messages);
  case Collective::kAllGather:
  case Collective::kSplit:
  case Collective::kAllToAll: {
    bool each = call.kind == Collective::kAllToAll;
    for (int distance = 1; distance < size; ++distance) {
      int to = (me + distance) % size, from = (me + size - distance) % size;
      WEFT_RETURN(messages.send(to, at(call.input, each ? to * bytes : 0), bytes));
      WEFT_RETURN(messages.receive(from, at(output, from * bytes), bytes));
    }
    // Where it is there already, it is being sent.
    const char *own = at(call.input, each ? me * bytes : 0);
    if (own != output + me * bytes)
      std::memcpy(output + me * bytes, own, static_cast<size_t>(bytes));
    return messages.wait();
  }
  case Collective::kBroadcast:
    return broadcast(call, me, size, messages);
  case Collective::kSend:
    WEFT_RETURN(messages.send(call.peer, call.input, bytes));
    return messages.wait();
  case Collective::kReceive:
    WEFT_RETURN(messages.receive(call.peer, output, bytes));
    return messages.wait();
  case Collective::kSendReceive:
    if (call.peer != kNoRank)
      WEFT_RETURN(messages.send(call.peer, call.input, bytes));
    if (call.source != kNoRank) {
      WEFT_RETURN(messages.receive(call.source, output, bytes));
    } else if (bytes > 0) {
      std::memset(output, 0, static_cast<size_t>(bytes));
    }
    return messages.wait();
  case Collective::kBarrier:
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

} // namespace weft::runtime
