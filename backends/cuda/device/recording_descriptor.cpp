#include "backends/cuda/device/recording_descriptor.h"

namespace weft::backends::cuda::recording {

int64_t bytes_of(int type) {
  switch (type) {
  case kHandle:
  case kVoidPointer:
  case kDescriptor:
  case kInt64:
    return 8;
  case kBoolean:
    return 1;
  default:
    return 4;
  }
}

constexpr int64_t kMostDims = 8; // CUDNN_DIM_MAX

const std::map<int, Rule> *rules_of(int kind) {
  auto operation = [](int first) { // alpha, beta, the convolution, three tensors
    std::map<int, Rule> rules{{first, {kFloat, 1, 1}},
                              {first + 1, {kFloat, 1, 1}},
                              {first + 2, {kDescriptor, 1, 1, kConvolution}}};
    for (int i = 3; i < 6; ++i)
      rules[first + i] = {kDescriptor, 1, 1, kTensor};
    return rules;
  };
  static const auto *all = new std::map<int, std::map<int, Rule>>{
      {kTensor,
       {{900, {kInt64, 1, 1}},
        {901, {kDataType, 1, 1}},
        {902, {kInt64, 1, kMostDims}},
        {903, {kInt64, 1, kMostDims}},
        {906, {kInt64, 1, 1}},
        {907, {kBoolean, 1, 1, -1, false, true}}}},
      {kPointwise, {{0, {kPointwiseMode, 1, 1}}, {1, {kDataType, 1, 1}}}},
      {kPointwiseOperation,
       {{750, {kDescriptor, 1, 1, kPointwise}},
        {751, {kDescriptor, 1, 1, kTensor}},
        {752, {kDescriptor, 1, 1, kTensor}},
        {753, {kDescriptor, 1, 1, kTensor}}}},
      {kConvolution,
       {{100, {kDataType, 1, 1}},
        {101, {kMode, 1, 1}},
        {102, {kInt64, 1, kMostDims}},
        {103, {kInt64, 1, kMostDims}},
        {104, {kInt64, 1, kMostDims}},
        {105, {kInt64, 1, kMostDims}},
        {106, {kInt64, 1, 1}}}},
      {kForward, operation(700)},
      {kBackwardData, operation(706)},
      {kBackwardFilter, operation(712)},
      {kGraph, {{800, {kHandle, 1, 1}}, {801, {kDescriptor, 1, 64, -1, true}}}},
      {kHeuristics, {{200, {kHeuristicsMode, 1, 1}}, {201, {kDescriptor, 1, 1, kGraph}}}},
      {kPlan, {{400, {kHandle, 1, 1}}, {401, {kDescriptor, 1, 1, kEngineConfig}}}},
      {kPack,
       {{1000, {kInt64, 1, 64}}, {1001, {kVoidPointer, 1, 64}}, {1003, {kVoidPointer, 1, 1}}}},
      {kEngine, {}},       // which the library fills
      {kEngineConfig, {}}, // likewise
  };
  auto found = all->find(kind);
  return found == all->end() ? nullptr : &found->second;
}

} // namespace weft::backends::cuda::recording
