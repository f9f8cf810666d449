#include "weft/distributed/collectives.h"

#include "frontend/distributed/group_state.h"
#include "frontend/recorder/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/eval.h"

namespace weft::distributed {

using namespace recorder;

namespace {

RankGroup ranks_of(const GroupState &state) {
  return {state.id, state.group->rank(), state.group->size()};
}

// x, if this may be called with it: what no rank may call is refused here, at the caller's line.
Var input_of(const Tensor &x, const GroupState &state, runtime::Collective kind,
             Reduction reduction = Reduction::kSum, int root = 0) {
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
  call.count = 0;
  call.peer = root;
  if (absl::Status status = runtime::check(call, state.group->rank(), state.group->size());
      !status.ok())
    fail(ErrorKind::kValue, "x is " + describe(input) + ": " + std::string(status.message()));
  return input;
}

} // namespace

Tensor all_reduce(const Tensor &x, Reduction reduction, const Group &group, Location location) {
  GroupState &state = checked(group, "all_reduce", location);
  Session session("all_reduce", location);
  Var input = input_of(x, state, runtime::Collective::kAllReduce, reduction);
  return wrap(emit_all_reduce(input, reduction, ranks_of(state)));
}

Tensor all_gather(const Tensor &x, const Group &group, Location location) {
  GroupState &state = checked(group, "all_gather", location);
  Session session("all_gather", location);
  return wrap(
      emit_all_gather(input_of(x, state, runtime::Collective::kAllGather), ranks_of(state)));
}

Tensor reduce_scatter(const Tensor &x, Reduction reduction, const Group &group, Location location) {
  GroupState &state = checked(group, "reduce_scatter", location);
  Session session("reduce_scatter", location);
  Var input = input_of(x, state, runtime::Collective::kReduceScatter, reduction);
  return wrap(emit_reduce_scatter(input, reduction, ranks_of(state)));
}

Tensor all_to_all(const Tensor &x, const Group &group, Location location) {
  GroupState &state = checked(group, "all_to_all", location);
  Session session("all_to_all", location);
  return wrap(emit_all_to_all(input_of(x, state, runtime::Collective::kAllToAll), ranks_of(state)));
}

Tensor broadcast(const Tensor &x, int root, const Group &group, Location location) {
  GroupState &state = checked(group, "broadcast", location);
  Session session("broadcast", location);
  Var input = input_of(x, state, runtime::Collective::kBroadcast, Reduction::kSum, root);
  return wrap(emit_broadcast_from(input, root, ranks_of(state)));
}

void barrier(const Group &group, Location location) {
  GroupState &state = checked(group, "barrier", location);
  location = CallerScope::resolve(location);
  // A collective like others, so that all earlier ones go with it, of a token on the host: the
  // thread's own device may be one whose memory ranks do not exchange.
  DeviceScope scope{Device()};
  Session session("barrier", location);
  Tensor token = wrap_quietly(make_scalar(0.0, DType::kFloat32));
  Var x = emit_all_reduce(read(token, "token"), Reduction::kSum, ranks_of(state));
  Value *value = x.value.get();
  submit({&value, 1}, {CutReason::kEval, location});
  wait_for(value, location);
}

} // namespace weft::distributed
