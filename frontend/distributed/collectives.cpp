#include "weft/distributed/collectives.h"

#include "frontend/distributed/group_state.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/eval.h"

namespace weft::distributed {

using namespace recorder;

namespace {

// The record's enumeration has the order of the list that all else shares.
constexpr bool is_same(Reduction reduction, attributes::Reduction record) {
  return static_cast<uint32_t>(reduction) == static_cast<uint32_t>(record);
}
static_assert(is_same(Reduction::kSum, attributes::Reduction::kSum) &&
              is_same(Reduction::kMean, attributes::Reduction::kMean) &&
              is_same(Reduction::kMin, attributes::Reduction::kMin) &&
              is_same(Reduction::kMax, attributes::Reduction::kMax) &&
              is_same(Reduction::kProduct, attributes::Reduction::kProd));
attributes::Reduction of_record(Reduction reduction) {
  return static_cast<attributes::Reduction>(reduction);
}

// What ranks compare instead of the operand's shape, where it says more.
std::optional<std::string_view> given(const std::string &operand) {
  return operand.empty() ? std::nullopt : std::optional<std::string_view>(operand);
}

// x, if this may be called with it: what no rank may call is refused here, at the caller's line.
Var input_of(const Tensor &x, const GroupState &state, runtime::Collective kind,
             Reduction reduction = Reduction::kSum, int peer = 0, int source = runtime::kNoRank) {
  Var input = read(x, "x");
  if (!host_reads(input.device()))
    fail(ErrorKind::kDevice, "x lies on " + device_text(input.device()) +
                                 ", whose memory the host does not read; move it with to(device)");
  bool divided =
      kind == runtime::Collective::kReduceScatter || kind == runtime::Collective::kAllToAll;
  int64_t ranks = state.group->size();
  if ((divided || kind == runtime::Collective::kAllGather) &&
      (input.ndim() == 0 || (divided && input.dims()[0] % ranks != 0)))
    fail(ErrorKind::kShape,
         "x is " + describe(input) + "; its dim 0 " +
             (divided ? "is cut into " + std::to_string(ranks) + " equal parts, one for each rank"
                      : std::string("grows with the ranks, and must be there")));
  runtime::CollectiveCall call;
  call.kind = kind;
  call.dtype = input.dtype();
  call.reduction = reduction;
  call.count = input.value->type->elements / (divided ? ranks : 1);
  call.peer = peer;
  call.source = source;
  if (absl::Status status =
          runtime::check_without_buffers(call, state.group->rank(), state.group->size());
      !status.ok())
    fail(ErrorKind::kValue, "x is " + describe(input) + ": " + std::string(status.message()));
  return input;
}

Tensor all_reduced(const std::string &operand, const Tensor &x, Reduction reduction,
                   const Group &group, Location location) {
  GroupState &state = checked(group, "all_reduce", location);
  Session session("all_reduce", location);
  Var input = input_of(x, state, runtime::Collective::kAllReduce, reduction);
  return wrap(
      emit_all_reduce(of_record(reduction), input, state.id, state.group->size(), given(operand)));
}

Tensor reduce_scattered(const std::string &operand, const Tensor &x, Reduction reduction,
                        const Group &group, Location location) {
  GroupState &state = checked(group, "reduce_scatter", location);
  Session session("reduce_scatter", location);
  Var input = input_of(x, state, runtime::Collective::kReduceScatter, reduction);
  return wrap(emit_reduce_scatter(of_record(reduction), input, state.id, state.group->size(),
                                  given(operand)));
}

Tensor broadcasted(const std::string &operand, const Tensor &x, int root, const Group &group,
                   Location location) {
  GroupState &state = checked(group, "broadcast", location);
  Session session("broadcast", location);
  Var input = input_of(x, state, runtime::Collective::kBroadcast, Reduction::kSum, root);
  return wrap(emit_broadcast_from(input, root, state.group->rank(), state.id, state.group->size(),
                                  given(operand)));
}

} // namespace

Tensor all_reduce(const Tensor &x, Reduction reduction, const Group &group, Location location) {
  return all_reduced("", x, reduction, group, location);
}
Tensor all_reduce_of(const std::string &operand, const Tensor &row, Reduction reduction,
                     const Group &group) {
  return all_reduced(operand, row, reduction, group, Location::current());
}

Tensor all_gather(const Tensor &x, const Group &group, Location location) {
  GroupState &state = checked(group, "all_gather", location);
  Session session("all_gather", location);
  return wrap(emit_all_gather(input_of(x, state, runtime::Collective::kAllGather), state.id,
                              state.group->size()));
}

Tensor reduce_scatter(const Tensor &x, Reduction reduction, const Group &group, Location location) {
  return reduce_scattered("", x, reduction, group, location);
}
Tensor reduce_scatter_of(const std::string &operand, const Tensor &row, Reduction reduction,
                         const Group &group) {
  return reduce_scattered(operand, row, reduction, group, Location::current());
}

Tensor all_to_all(const Tensor &x, const Group &group, Location location) {
  GroupState &state = checked(group, "all_to_all", location);
  Session session("all_to_all", location);
  return wrap(emit_all_to_all(input_of(x, state, runtime::Collective::kAllToAll), state.id,
                              state.group->size()));
}

Tensor broadcast(const Tensor &x, int root, const Group &group, Location location) {
  return broadcasted("", x, root, group, location);
}
Tensor broadcast_of(const std::string &operand, const Tensor &row, int root, const Group &group) {
  return broadcasted(operand, row, root, group, Location::current());
}

Tensor send_receive(const Tensor &x, int to, int from, const Group &group, Location location) {
  GroupState &state = checked(group, "send_receive", location);
  Session session("send_receive", location);
  Var input = input_of(x, state, runtime::Collective::kSendReceive, Reduction::kSum, to, from);
  return wrap(emit_send_receive(input, to, from, state.id, state.group->size()));
}

void barrier(const Group &group, Location location) {
  GroupState &state = checked(group, "barrier", location);
  location = CallerScope::resolve(location);
  runtime::CollectiveCall call;
  call.place = std::string(location.file_name()) + ":" + std::to_string(location.line());
  // A program holds no exchange: weft::jit calls the function itself then, weft::trace refuses it.
  if (Trace *trace = active_trace()) {
    if (trace->exchange.empty())
      trace->exchange = call.place + " (barrier)";
    return;
  }
  absl::Status status =
      in_order(state, "barrier", location, [&] { return state.group->run(call); });
  if (!status.ok())
    throw Error(ErrorKind::kRun, "barrier: " + std::string(status.message()), location);
}

} // namespace weft::distributed
