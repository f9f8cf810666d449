#include "frontend/recorder/runs/exchange.h"

#include <atomic>

#include "frontend/recorder/record/state.h"
#include "runtime/executor/transfer.h"

namespace weft::recorder {
namespace {

std::atomic<CollectiveRunner *> collective_runner = nullptr;

// Where the node is such an op: what its properties say.
template <typename Op>
void read_if(const Node &node, runtime::Collective kind, RecordedCollective &recorded) {
  const typename Op::Properties *known = properties_if<Op>(*node.signature);
  if (!known)
    return;
  const typename Op::Properties &properties = *known;
  recorded.group = properties.group.getValue().str();
  runtime::CollectiveCall &call = recorded.call;
  call.kind = kind;
  if constexpr (requires { properties.operand; })
    if (properties.operand)
      call.operand = properties.operand.getValue().str();
  if constexpr (requires { properties.reduction; }) // in one order, as emit.cpp makes sure
    call.reduction = static_cast<runtime::Reduction>(properties.reduction.getValue());
  if constexpr (requires { properties.root; })
    call.peer = static_cast<int32_t>(properties.root.getInt());
  if constexpr (requires { properties.to; }) {
    call.peer = static_cast<int32_t>(properties.to.getInt());
    call.source = static_cast<int32_t>(properties.from.getInt());
  }
}

RecordedCollective recorded_of(const Node &node) {
  using Kind = runtime::Collective;
  const TypeInfo &input = *node.signature->operands[0];
  RecordedCollective recorded{.call = {.dtype = input.dtype,
                                       .count = input.elements,
                                       .place = node.line->place(),
                                       .operand = to_string(input.dims)},
                              .bytes_in = input.bytes,
                              .bytes_out = node.signature->results[0]->bytes};
  read_if<ir::AllReduceOp>(node, Kind::kAllReduce, recorded);
  read_if<ir::ReduceScatterOp>(node, Kind::kReduceScatter, recorded);
  read_if<ir::AllGatherOp>(node, Kind::kAllGather, recorded);
  read_if<ir::AllToAllOp>(node, Kind::kAllToAll, recorded);
  read_if<ir::SendReceiveOp>(node, Kind::kSendReceive, recorded);
  read_if<ir::BroadcastFromOp>(node, Kind::kBroadcast, recorded);
  return recorded;
}

void abandon(const Node &node, const std::string &why) {
  if (CollectiveRunner *runner = collective_runner)
    runner->abandon(recorded_of(node).group, describe(&node) + ": " + why);
}

FoundProgram found_of(ExchangeRun run) {
  FoundProgram found{std::make_shared<CompiledProgram>()};
  found.program->executable = std::move(run.executable);
  found.executor = std::move(run.executor);
  return found;
}

} // namespace

void set_collective_runner(CollectiveRunner *runner) {
  collective_runner = runner;
}

FoundProgram find_exchange(const Slice &slice, const EvaluateRequest &request,
                           Evaluation &figures) {
  const Node &node = *slice.nodes[0];
  const TypeInfo &from = *slice.leaves[0]->type;
  describe_request(request, figures);
  figures.ops = figures.inputs = figures.outputs = 1;
  figures.outcome = CacheOutcome::kMemoryHit;
  figures.exchanged_bytes = from.bytes;
  if (node.signature->exchange == Exchange::kTransfer) {
    runtime::Device &source = runtime::device(from.device);
    figures.exchange = "transfer from " + source.name() + " to " + device_text(slice.device);
    // A device's executor lives as long as the process.
    return found_of({{std::shared_ptr<void>(), &source.executor()},
                     runtime::make_transfer(source, runtime::device(slice.device), from.bytes)});
  }
  RecordedCollective recorded = recorded_of(node);
  recorded.may_overwrite = slice.key.leaves[0].donatable && !slice.key.leaves[0].kept;
  absl::StatusOr<ExchangeRun> run = absl::FailedPreconditionError("no group of this process");
  if (CollectiveRunner *runner = collective_runner)
    run = runner->prepare(recorded);
  if (!run.ok())
    fail_at(request.location, ErrorKind::kRun,
            describe(&node) + " over '" + recorded.group +
                "': " + std::string(run.status().message()));
  figures.exchange = describe(&node) + " over " + recorded.group + " of " + recorded.call.operand;
  return found_of(*std::move(run));
}

// The rank's.
static PendingCollectives &pending() {
  return recorder().pending_collectives[thread_rank];
}

void add_pending(std::vector<Value *> &roots) {
  for (const auto &[number, value] : pending())
    roots.push_back(value.get());
}

void drop_started() {
  PendingCollectives &own = pending();
  while (!own.empty() && !own.begin()->second->node)
    own.erase(own.begin());
}

bool is_pending(const Value *value) {
  return value->node && pending().contains(value->node->number);
}

bool forget_pending(const Value *value) {
  return value->node && pending().erase(value->node->number) > 0;
}

void drop_pending() {
  std::erase_if(pending(), [](const auto &each) {
    const Node *node = each.second->node;
    if (node && node->lost)
      abandon(*node, kLostOperand);
    return !node || node->lost;
  });
}

void abandon_pending(const std::string &why) {
  PendingCollectives ended = std::exchange(pending(), {}); // none is left if one cannot be told
  for (const auto &[number, value] : ended)
    if (const Node *node = value->node)
      abandon(*node, why);
}

std::vector<std::shared_ptr<runtime::Executor>> exchange_executors() {
  CollectiveRunner *runner = collective_runner;
  return runner ? runner->executors() : std::vector<std::shared_ptr<runtime::Executor>>();
}

void end_rank() {
  UnderLock lock;
  recorder().pending_collectives.erase(thread_rank);
  thread_rank = 0;
}

} // namespace weft::recorder
