// cuDNN's descriptors as recording_cudnn.cpp has them: their kinds, and what each may be told.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/device/recording_convolution.h"

namespace weft::backends::cuda::recording {

// Of cudnn_graph_v9.h, written down once more, so that a wrong number in cudnn.h is found.
enum Status {
  kOk = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kNullPointer = 2002,
  kNotFinalized = 2004,
  kShapeMismatch = 2008,
  kAttributeType = 2010,
  kDescriptorType = 2012,
  kNotSupported = 3000,
  kNotSupportedShape = 3002,
};
enum Type {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kVoidPointer = 6,
  kMode = 7,
  kHeuristicsMode = 8,
  kNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
};
enum Kind {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kPack = 16,
  kTensor = 17,
};

// Of a value of that type.
int64_t bytes_of(int type);

// What a descriptor may be told, and must be before it is final.
struct Rule {
  int type;
  int64_t least, most;        // values
  int of = -1;                // of descriptors: their kind
  bool any_operation = false; // or an operation of any kind
  bool optional = false;
};
inline bool is_convolution(int kind) {
  return kind == kForward || kind == kBackwardFilter || kind == kBackwardData;
}
// By attribute; null where there is no such kind of descriptor.
const std::map<int, Rule> *rules_of(int kind);

// An engine, as the heuristics have them.
struct EngineInfo {
  int64_t number;
  std::vector<int> notes;
  int64_t workspace;
  bool prepares;
};

struct Descriptor {
  int kind = 0;
  bool final = false;
  std::map<int, std::vector<unsigned char>> values;
  std::optional<EngineInfo> engine;               // of engines, configurations and plans
  std::shared_ptr<const HostConvolution> problem; // of what follows from an operation

  template <typename T> std::vector<T> all(int attribute) const {
    const std::vector<unsigned char> &bytes = values.at(attribute);
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  template <typename T> T one(int attribute) const {
    return all<T>(attribute).front();
  }
  Descriptor &other(int attribute, size_t number = 0) const {
    return *static_cast<Descriptor *>(all<void *>(attribute)[number]);
  }
};

struct Handle {
  void *stream = nullptr;
};

} // namespace weft::backends::cuda::recording
