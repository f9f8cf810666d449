#include "frontend/recorder/runs/exchange.h"

#include <atomic>

#include "frontend/recorder/record/state.h"
#include "runtime/executor/transfer.h"
#include "llvm/ADT/StringSwitch.h"

namespace weft::recorder {
namespace {

std::atomic<CollectiveRunner *> collective_runner = nullptr;

// What no op records.
constexpr auto kNoCollective = runtime::Collective::kBarrier;

// What its attributes say, which have one name in all that have them.
RecordedCollective recorded_of(const Node &node) {
  using Kind = runtime::Collective;
  const TypeInfo &input = *node.signature->operands[0];
  mlir::Operation *op = node.signature->bare.get();
  auto text = [&](llvm::StringRef name) {
    auto attribute = op->getAttrOfType<mlir::StringAttr>(name);
    return attribute ? attribute.str() : std::string();
  };
  auto read = [&](llvm::StringRef name, auto &to) {
    if (auto attribute = op->getAttrOfType<mlir::IntegerAttr>(name))
      to = static_cast<std::decay_t<decltype(to)>>(attribute.getInt());
  };
  RecordedCollective recorded{.call = {.dtype = input.dtype,
                                       .count = input.elements,
                                       .place = node.line->place(),
                                       .operand = text("operand")},
                              .group = text("group"),
                              .bytes_in = input.bytes,
                              .bytes_out = node.signature->results[0]->bytes};
  runtime::CollectiveCall &call = recorded.call;
  call.kind = llvm::StringSwitch<Kind>(op->getName().stripDialect())
                  .Case("all_reduce", Kind::kAllReduce)
                  .Case("reduce_scatter", Kind::kReduceScatter)
                  .Case("all_gather", Kind::kAllGather)
                  .Case("all_to_all", Kind::kAllToAll)
                  .Case("send_receive", Kind::kSendReceive)
                  .Case("broadcast_from", Kind::kBroadcast)
                  .Default(kNoCollective);
  if (call.operand.empty())
    call.operand = to_string(input.dims);
  read("reduction", call.reduction); // in one order, as emit.cpp makes sure
  read("root", call.peer);
  read("to", call.peer);
  read("from", call.source);
  return recorded;
}

void abandon(const Node &node, const std::string &why) {
  if (CollectiveRunner *runner = collective_runner)
    runner->abandon(recorded_of(node).group, describe(&node) + ": " + why);
}

} // namespace

void set_collective_runner(CollectiveRunner *runner) {
  collective_runner = runner;
}

FoundProgram find_exchange(const Slice &slice, const EvaluateRequest &request) {
  const Node &node = *slice.nodes[0];
  const TypeInfo &from = *slice.leaves[0]->type;
  FoundProgram found{.program = std::make_shared<CompiledProgram>(),
                     .checks = slice.checks,
                     .device = slice.device};
  Evaluation &figures = found.figures;
  describe_request(request, figures);
  figures.ops = figures.inputs = figures.outputs = 1;
  figures.outcome = CacheOutcome::kMemoryHit;
  figures.exchanged_bytes = from.bytes;
  if (node.signature->exchange == Exchange::kTransfer) {
    runtime::Device &source = runtime::device(from.device);
    figures.exchange = "transfer from " + source.name() + " to " + device_text(slice.device);
    // A device's executor lives as long as the process.
    found.executor = {std::shared_ptr<void>(), &source.executor()};
    found.program->executable =
        runtime::make_transfer(source, runtime::device(slice.device), from.bytes);
    return found;
  }
  RecordedCollective recorded = recorded_of(node);
  recorded.may_overwrite = slice.key.leaves[0].donatable && !slice.key.leaves[0].kept;
  absl::Status status = absl::FailedPreconditionError("no group of this process");
  if (recorded.call.kind == kNoCollective)
    status = absl::UnimplementedError("the runtime has no such collective");
  else if (CollectiveRunner *runner = collective_runner)
    status = runner->prepare(recorded, found);
  if (!status.ok())
    fail_at(request.location, ErrorKind::kRun,
            describe(&node) + " over '" + recorded.group + "': " + std::string(status.message()));
  figures.exchange = describe(&node) + " over " + recorded.group + " of " + recorded.call.operand;
  return found;
}

// The rank's.
static PendingCollectives &pending() {
  return recorder().pending_collectives[thread_rank];
}

void add_pending(std::vector<Value *> &roots) {
  for (const auto &[number, value] : pending())
    roots.push_back(value);
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
