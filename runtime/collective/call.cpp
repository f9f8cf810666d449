#include "runtime/collective/call.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/collective/reduce.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

constexpr uint32_t kMagic = 0x57454656; // another version of the header is another number

constexpr const char *kNames[] = {"all_reduce", "all_gather",  "reduce_scatter", "all_to_all",
                                  "broadcast",  "send",        "receive",        "barrier",
                                  "split",      "send_receive"};

// FNV-1a: the same on all machines.
uint64_t hash_of(const std::string &text) {
  uint64_t hash = 14695981039346656037u;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

bool reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter;
}

CollectiveCall call_of(const CallHeader &header) {
  CollectiveCall call;
  call.kind = static_cast<Collective>(std::min<size_t>(header.kind, std::size(kNames) - 1));
  call.dtype = static_cast<DType>(std::min<size_t>(header.dtype, std::size(kDTypes) - 1));
  call.reduction = static_cast<Reduction>(std::min<int>(header.reduction, 4));
  call.count = header.count;
  call.peer = header.peer;
  call.source = header.source;
  call.place = std::string(header.place, strnlen(header.place, sizeof header.place));
  call.operand = std::string(header.operand, strnlen(header.operand, sizeof header.operand));
  if (call.operand.size() == sizeof header.operand)
    call.operand += "...";
  return call;
}

std::string described(const CallHeader &header, int rank) {
  CollectiveCall call = call_of(header);
  return absl::StrCat("rank ", rank, " calls ", describe(call),
                      header.on_device ? " on a device" : "", " as number ", header.number,
                      call.place.empty() ? "" : " at ", call.place);
}

// What the kind allows, where input and output overlap in another way.
const char *find_overlap(const CollectiveCall &call, int rank, int size) {
  const auto input = reinterpret_cast<uintptr_t>(call.input),
             output = reinterpret_cast<uintptr_t>(call.output);
  const auto bytes = static_cast<uintptr_t>(call.count * byte_size(call.dtype));
  const auto own = static_cast<uintptr_t>(rank) * bytes, all = static_cast<uintptr_t>(size) * bytes;
  const bool takes_all =
      call.kind == Collective::kReduceScatter || call.kind == Collective::kAllToAll;
  const bool gives_all = call.kind == Collective::kAllGather ||
                         call.kind == Collective::kAllToAll || call.kind == Collective::kSplit;
  if (output >= input + (takes_all ? all : bytes) || input >= output + (gives_all ? all : bytes))
    return nullptr;
  switch (call.kind) {
  case Collective::kAllGather:
    return input == output + own ? nullptr : "the input may only be this rank's part of the output";
  case Collective::kReduceScatter:
    return output == input + own ? nullptr : "the output may only be this rank's part of the input";
  case Collective::kAllReduce:
  case Collective::kBroadcast:
    return input == output ? nullptr : "they may be one buffer, or none of it";
  default:
    return "give it two buffers";
  }
}

} // namespace

bool is_between_two(Collective kind) {
  return kind == Collective::kSend || kind == Collective::kReceive;
}

std::string describe(const CollectiveCall &call) {
  std::string text = kNames[static_cast<int>(call.kind)];
  if (call.kind == Collective::kSplit && !call.operand.empty())
    return call.operand;
  if (call.kind == Collective::kBarrier || call.kind == Collective::kSplit)
    return text + "()";
  text += "(";
  if (reduces(call.kind))
    absl::StrAppend(&text, name(call.reduction), ", ");
  if (call.kind == Collective::kBroadcast || call.kind == Collective::kReceive)
    absl::StrAppend(&text, "from ", call.peer, ", ");
  if (call.kind == Collective::kSend)
    absl::StrAppend(&text, "to ", call.peer, ", ");
  if (call.kind == Collective::kSendReceive) {
    auto rank = [](int32_t number) {
      return number == kNoRank ? "none" : absl::StrCat(number);
    };
    absl::StrAppend(&text, "to ", rank(call.peer), ", from ", rank(call.source), ", ");
  }
  absl::StrAppend(&text, name(call.dtype), " x ", call.count, call.operand.empty() ? "" : " of ",
                  call.operand, ")");
  return text;
}

static absl::Status wrong(const CollectiveCall &call, const std::string &what) {
  return absl::InvalidArgumentError(absl::StrCat(describe(call), ": ", what));
}

// "the ranks 0 to 3", "rank 0 alone".
static std::string ranks_of(int size) {
  return size == 1 ? "rank 0 alone" : absl::StrCat("the ranks 0 to ", size - 1);
}

absl::Status check_without_buffers(const CollectiveCall &call, int rank, int size) {
  int64_t bytes = 0;
  if (call.count < 0 || __builtin_mul_overflow(call.count, byte_size(call.dtype), &bytes) ||
      __builtin_mul_overflow(bytes, int64_t{size}, &bytes))
    return wrong(call, "the count is negative or too large");
  if (reduces(call.kind) && call.reduction == Reduction::kMean && !is_floating(call.dtype))
    return wrong(call, absl::StrCat("there is no mean of ", name(call.dtype),
                                    "; cast to a floating dtype, or take the sum"));
  bool has_peer = call.kind == Collective::kBroadcast || is_between_two(call.kind);
  if (has_peer && (call.peer < 0 || call.peer >= size))
    return wrong(call, absl::StrCat("the group has ", ranks_of(size)));
  // A ring of one rank is a copy.
  bool is_ring_of_one = size == 1 && call.peer == rank && call.source == rank;
  if (call.kind == Collective::kSendReceive && !is_ring_of_one)
    for (int32_t other : {call.peer, call.source})
      if (other < kNoRank || other >= size || other == rank)
        return wrong(call, absl::StrCat("it goes to and comes from another rank, or none (",
                                        kNoRank, "); the group has ", ranks_of(size),
                                        size == 1 ? ", and to and from itself is a copy" : ""));
  if (is_between_two(call.kind) && call.peer == rank)
    return wrong(call, "that is this rank itself; copy instead");
  return absl::OkStatus();
}

absl::Status check(const CollectiveCall &call, int rank, int size) {
  WEFT_RETURN_IF_ERROR(check_without_buffers(call, rank, size));
  bool has_data = call.count > 0 && call.kind != Collective::kBarrier;
  bool reads = call.kind != Collective::kReceive &&
               !(call.kind == Collective::kBroadcast && call.peer != rank);
  if (has_data && ((reads && !call.input) || (call.kind != Collective::kSend && !call.output)))
    return wrong(call, "a buffer is null");
  if (has_data && reads && call.kind != Collective::kSend)
    if (const char *overlap = find_overlap(call, rank, size))
      return wrong(call, absl::StrCat("input and output overlap; ", overlap));
  return absl::OkStatus();
}

CallHeader header_of(const CollectiveCall &call, uint64_t number, bool on_device) {
  CallHeader header = {};
  header.magic = kMagic;
  header.kind = static_cast<uint8_t>(call.kind);
  header.dtype = static_cast<uint8_t>(call.dtype);
  header.reduction = reduces(call.kind) ? static_cast<uint8_t>(call.reduction) : 0;
  header.on_device = on_device;
  header.peer = call.peer;
  header.source = call.kind == Collective::kSendReceive ? call.source : 0;
  header.count = call.count;
  header.number = number;
  header.operand_hash = hash_of(call.operand);
  std::memcpy(header.operand, call.operand.data(),
              std::min(call.operand.size(), sizeof header.operand));
  size_t length = std::min(call.place.size(), sizeof header.place - 1);
  std::memcpy(header.place, call.place.data() + call.place.size() - length, length);
  return header;
}

absl::Status check_same(const CallHeader &own, const CallHeader &theirs, int rank, int other,
                        int me, int they, const std::string &group) {
  if (theirs.magic != kMagic)
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", other, " runs another version of Weft than rank ", rank,
                     ": install the same one on all machines"));
  auto kind = static_cast<Collective>(own.kind), its = static_cast<Collective>(theirs.kind);
  bool same = own.dtype == theirs.dtype && own.reduction == theirs.reduction &&
              own.on_device == theirs.on_device && own.count == theirs.count &&
              own.number == theirs.number && own.operand_hash == theirs.operand_hash;
  if (is_between_two(kind))
    same = same && kind != its && is_between_two(its) && own.peer == they && theirs.peer == me;
  else if (kind == Collective::kSendReceive) // what one sends to the other, that one receives
    same = same && kind == its && (own.peer == they) == (theirs.source == me) &&
           (own.source == they) == (theirs.peer == me);
  else
    same = same && kind == its && own.peer == theirs.peer;
  if (same)
    return absl::OkStatus();
  bool first = rank < other; // all ranks that see it say the same
  return absl::FailedPreconditionError(absl::StrCat(
      "the ranks' calls in group '", group,
      "' differ: ", first ? described(own, rank) : described(theirs, other), ", ",
      first ? described(theirs, other) : described(own, rank),
      ". All ranks of a group make the same calls in the same order: see what decides which way "
      "these two lines are reached"));
}

} // namespace weft::runtime
