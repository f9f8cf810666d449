#include "backends/cuda/device/cudnn_plan.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/core/status.h"

namespace weft::backends::cuda {
namespace {

// What is wrong with an engine of these notes, or null. How float32 is kept from being rounded:
// tensor cores multiply it as TF32 or in pieces, and engines that convert what they read say so.
const char *objection(std::span<const CudnnNote> notes, const CudnnDemands &demands) {
  for (CudnnNote note : notes) {
    if (note == CudnnNote::kNondeterministic)
      return "not deterministic";
    if (note == CudnnNote::kReducedPrecisionReduction)
      return "sums in reduced precision";
    if (note == CudnnNote::kDownConvertInputs)
      return "rounds its inputs";
    if (note == CudnnNote::kTensorCore && demands.full_float32)
      return "multiplies float32 on tensor cores";
    if (note >= CudnnNote::kWinograd && note <= CudnnNote::kWinogradTile13x13 &&
        !demands.transforms)
      return "Winograd's algorithm";
    if (note == CudnnNote::kFft && !demands.transforms)
      return "a Fourier transform";
  }
  return nullptr;
}

struct Engine {
  int64_t number = -1;
  std::vector<CudnnNote> notes;
};

absl::StatusOr<Engine> engine_of(const Cudnn &library, const CudnnDescriptor &config) {
  CudnnDescriptor descriptor(library, CudnnKind::kEngine, "asking for an engine");
  CudnnPointer pointer = descriptor.pointer(); // which cuDNN fills
  absl::StatusOr<int64_t> count =
      config.get(CudnnAttribute::kEngineConfigEngine, CudnnType::kDescriptor, 1, &pointer);
  if (!count.ok())
    return count.status();
  Engine engine;
  engine.notes.resize(kCudnnNoteCount);
  count = descriptor.get(CudnnAttribute::kEngineGlobalIndex, CudnnType::kInt64, 1, &engine.number);
  if (count.ok())
    count = descriptor.get(CudnnAttribute::kEngineNumericalNote, CudnnType::kNumericalNote,
                           kCudnnNoteCount, engine.notes.data());
  if (!count.ok())
    return count.status();
  engine.notes.resize(static_cast<size_t>(std::clamp<int64_t>(*count, 0, kCudnnNoteCount)));
  return engine;
}

absl::StatusOr<std::vector<CudnnDescriptor>> configurations(const Cudnn &library,
                                                            const CudnnDescriptor &graph,
                                                            CudnnHeuristics mode) {
  constexpr const char *kWhat = "asking for engines";
  CudnnDescriptor heuristics(library, CudnnKind::kEngineHeuristics, kWhat);
  heuristics.set(CudnnAttribute::kEngineHeurOperationGraph, graph);
  heuristics.set(CudnnAttribute::kEngineHeurMode, CudnnType::kHeuristicsMode, 1, &mode);
  WEFT_RETURN_IF_ERROR(heuristics.finalize());
  absl::StatusOr<int64_t> count =
      heuristics.get(CudnnAttribute::kEngineHeurResults, CudnnType::kDescriptor, 0, nullptr);
  if (!count.ok())
    return count.status();
  std::vector<CudnnDescriptor> results;
  std::vector<CudnnPointer> pointers; // which cuDNN fills
  for (int64_t i = 0; i < *count; ++i)
    pointers.push_back(
        results.emplace_back(library, CudnnKind::kEngineConfig, kWhat).pointer());
  if (results.empty())
    return results;
  count = heuristics.get(CudnnAttribute::kEngineHeurResults, CudnnType::kDescriptor, *count,
                         pointers.data());
  if (!count.ok())
    return count.status();
  results.erase(results.begin() + std::min<int64_t>(*count, std::ssize(results)), results.end());
  return results;
}

} // namespace

absl::StatusOr<CudnnStream *> cudnn_stream(const CudaDevice &device, const Cudnn &library) {
  static std::mutex mutex;
  // By the library as well: tests have several.
  static auto *streams = new std::map<std::pair<void *, Stream>, std::unique_ptr<CudnnStream>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<CudnnStream> &known =
      (*streams)[{reinterpret_cast<void *>(library.create), device.stream()}];
  if (known)
    return known.get();
  auto made = std::make_unique<CudnnStream>();
  made->library = library;
  absl::Status status = library.check(library.create(&made->handle), "starting");
  if (status.ok())
    status = library.check(library.set_stream(made->handle, device.stream()),
                           "taking the stream of programs");
  if (!status.ok())
    return status;
  known = std::move(made);
  return known.get();
}

absl::StatusOr<std::unique_ptr<CudnnPlan>>
CudnnPlan::choose(CudnnStream &stream, std::span<const CudnnDescriptor> operations,
                  const CudnnDemands &demands) {
  const Cudnn &library = stream.library;
  std::lock_guard lock(stream.mutex);
  CudnnDescriptor graph(library, CudnnKind::kOperationGraph, "describing operations' graph");
  graph.set(CudnnAttribute::kOperationGraphHandle, stream.handle);
  graph.set(CudnnAttribute::kOperationGraphOps, operations);
  WEFT_RETURN_IF_ERROR(graph.finalize());
  // What was wrong with how many engines. One that fails to be prepared is passed over like one
  // that does not suit: cuDNN names engines that turn out not to take an operation.
  std::map<std::string, int> objections;
  for (CudnnHeuristics mode : {CudnnHeuristics::kA, CudnnHeuristics::kFallback}) {
    absl::StatusOr<std::vector<CudnnDescriptor>> configs = configurations(library, graph, mode);
    if (!configs.ok()) {
      ++objections[std::string(configs.status().message())];
      continue;
    }
    for (CudnnDescriptor &config : *configs) {
      absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = prepare(stream, config, demands);
      if (plan.ok())
        return plan;
      ++objections[std::string(plan.status().message())];
    }
  }
  return absl::UnimplementedError(absl::StrCat(
      "cuDNN ", library.version(), " has no engine for this operation; compile with --no-claim. ",
      objections.empty() ? "Its heuristics name none"
                         : absl::StrCat("It has some that do not suit: ",
                                        absl::StrJoin(objections, ", ",
                                                      [](std::string *to, const auto &each) {
                                                        absl::StrAppend(to, each.second, " (",
                                                                        each.first, ")");
                                                      }))));
}

// Takes the config where it suits.
absl::StatusOr<std::unique_ptr<CudnnPlan>>
CudnnPlan::prepare(CudnnStream &stream, CudnnDescriptor &config, const CudnnDemands &demands) {
  WEFT_ASSIGN_OR_RETURN(Engine engine, engine_of(stream.library, config));
  if (const char *why = objection(engine.notes, demands))
    return absl::UnimplementedError(why);
  if (auto untold = demands.untold.find(engine.number); untold != demands.untold.end())
    return absl::UnimplementedError(untold->second);
  CudnnDescriptor plan(stream.library, CudnnKind::kExecutionPlan, "preparing an engine");
  plan.set(CudnnAttribute::kExecutionPlanHandle, stream.handle);
  plan.set(CudnnAttribute::kExecutionPlanEngineConfig, config);
  WEFT_RETURN_IF_ERROR(plan.finalize());
  int64_t bytes = 0;
  WEFT_RETURN_IF_ERROR(
      plan.get(CudnnAttribute::kExecutionPlanWorkspaceSize, CudnnType::kInt64, 1, &bytes).status());
  if (bytes > demands.most_workspace_bytes)
    return absl::UnimplementedError(
        absl::StrCat("wants more than ", demands.most_workspace_bytes, " bytes of workspace"));
  return std::unique_ptr<CudnnPlan>(
      new CudnnPlan(stream, std::move(config), std::move(plan), engine.number, bytes));
}

std::string CudnnPlan::show() const {
  return absl::StrCat("engine ", engine_, " with ", workspace_bytes_, " bytes of workspace");
}

absl::Status CudnnPlan::run(std::span<const int64_t> ids, std::span<void *const> data,
                            void *workspace) {
  const Cudnn &library = stream_.library;
  std::lock_guard lock(stream_.mutex);
  CudnnDescriptor pack(library, CudnnKind::kVariantPack, "handing over tensors");
  pack.set(CudnnAttribute::kVariantPackUniqueIds, CudnnType::kInt64, std::ssize(ids), ids.data());
  pack.set(CudnnAttribute::kVariantPackDataPointers, CudnnType::kVoidPointer, std::ssize(data),
           data.data());
  pack.set(CudnnAttribute::kVariantPackWorkspace, CudnnType::kVoidPointer, 1, &workspace);
  WEFT_RETURN_IF_ERROR(pack.finalize());
  return library.check(library.execute(stream_.handle, plan_.pointer(), pack.pointer()),
                       "running an engine");
}

} // namespace weft::backends::cuda
