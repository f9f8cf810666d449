#include "frontend/recorder/exchange.h"

#include "frontend/compile/compiled_program.h"
#include "frontend/recorder/invocation.h"
#include "frontend/recorder/state.h"
#include "frontend/recorder/structure.h"
#include "runtime/executor/transfer.h"

namespace weft::recorder {
namespace {

CollectiveRunner *collective_runner = nullptr; // under the recorder's lock

template <typename Op> const typename Op::Properties &properties_of(const Node &node) {
  return *node.signature->opaque().as<const typename Op::Properties *>();
}

CollectiveCall call_of(const Slice &slice) {
  using Kind = CollectiveCall::Kind;
  const Node &node = *slice.nodes[0];
  CollectiveCall call{.kind = Kind::kAllReduce,
                      .group = "",
                      .input = slice.leaves[0]->type,
                      .result = node.signature->results[0],
                      .may_overwrite = slice.key.leaves[0].donatable && !slice.key.leaves[0].kept,
                      .place = node.line->place()};
  auto reduced = [&](const auto &properties) {
    call.reduction = static_cast<int>(properties.reduction.getValue());
    call.group = properties.group.getValue().str();
  };
  if (is<ir::AllReduceOp>(&node)) {
    reduced(properties_of<ir::AllReduceOp>(node));
  } else if (is<ir::ReduceScatterOp>(&node)) {
    call.kind = Kind::kReduceScatter;
    reduced(properties_of<ir::ReduceScatterOp>(node));
  } else if (is<ir::AllGatherOp>(&node)) {
    call.kind = Kind::kAllGather;
    call.group = properties_of<ir::AllGatherOp>(node).group.getValue().str();
  } else if (is<ir::AllToAllOp>(&node)) {
    call.kind = Kind::kAllToAll;
    call.group = properties_of<ir::AllToAllOp>(node).group.getValue().str();
  } else {
    const auto &properties = properties_of<ir::BroadcastFromOp>(node);
    call.kind = Kind::kBroadcast;
    call.root = properties.root.getInt();
    call.group = properties.group.getValue().str();
  }
  return call;
}

} // namespace

constinit thread_local uint32_t thread_rank = 0;

void set_collective_runner(CollectiveRunner *runner) {
  UnderLock lock;
  collective_runner = runner;
}

FoundExchange find_exchange(const Slice &slice, const EvaluateRequest &request,
                            Evaluation &figures) {
  const Node &node = *slice.nodes[0];
  const TypeInfo &from = *slice.leaves[0]->type;
  describe_request(request, figures);
  figures.ops = figures.inputs = figures.outputs = 1;
  figures.outcome = CacheOutcome::kMemoryHit;
  auto program = std::make_shared<CompiledProgram>();
  if (node.signature->exchange == Exchange::kTransfer) {
    runtime::Device &source = runtime::device(from.device);
    figures.exchange = "transfer from " + source.name() + " to " + device_text(slice.device);
    program->executable = runtime::make_transfer(source, runtime::device(slice.device), from.bytes);
    return {std::move(program), &source.executor()};
  }
  CollectiveCall call = call_of(slice);
  absl::StatusOr<ExchangeRun> run = absl::FailedPreconditionError("no group of this process");
  if (collective_runner)
    run = collective_runner->prepare(call);
  if (!run.ok())
    throw Error(ErrorKind::kRun,
                describe(&node) + " over '" + call.group +
                    "': " + std::string(run.status().message()),
                CallerScope::resolve(request.location));
  figures.exchange = describe(&node) + " over " + call.group;
  program->executable = std::move(run->executable);
  return {std::move(program), run->executor};
}

void add_pending(std::vector<Value *> &roots) {
  drop_pending();
  for (const PendingCollective &each : recorder().pending_collectives)
    if (each.rank == thread_rank)
      roots.push_back(each.result.get());
}

void drop_pending() {
  std::vector<PendingCollective> &pending = recorder().pending_collectives;
  if (pending.empty())
    return;
  // What reads a value that was lost has no result; who reads it is told.
  std::erase_if(pending, [](const PendingCollective &each) {
    return !each.result->node || each.result->node->lost;
  });
}

void end_rank() {
  UnderLock lock;
  std::erase_if(recorder().pending_collectives,
                [](const PendingCollective &each) { return each.rank == thread_rank; });
  thread_rank = 0;
}

} // namespace weft::recorder
