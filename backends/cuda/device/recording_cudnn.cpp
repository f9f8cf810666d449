// cuDNN's graph API as far as it is used, where there is no GPU: descriptors with the checks that
// the real library makes of their order, their attributes' types and counts, and whether they are
// final; heuristics that name engines of all kinds, most of which do not suit; convolutions that
// are computed on the host, when the stream is waited for.
#include <algorithm>
#include <set>

#include "backends/cuda/device/recording_descriptor.h"
#include "backends/cuda/device/recording_state.h"

namespace weft::backends::cuda::recording {
namespace {

struct State {
  std::set<Descriptor *> descriptors;
  std::set<Handle *> handles; // never destroyed
  std::string error;
};
State &state() {
  static auto *made = new State;
  return *made;
}

// The error, and why.
int refuse(int status, const std::string &why) {
  state().error = why;
  object("cuDNN: " + why);
  return status;
}

Descriptor *find(void *pointer) {
  auto found = state().descriptors.find(static_cast<Descriptor *>(pointer));
  return found == state().descriptors.end() ? nullptr : *found;
}

std::string numbered(const char *what, int number) {
  return what + std::string(" ") + std::to_string(number);
}

//===-- Becoming final ------------------------------------------------------------------------===//

int check_tensor(const Descriptor &tensor) {
  int type = tensor.one<int>(901);
  if (type != 0 && type != 2 && type != 9)
    return refuse(kBadParam, numbered("a tensor of data type", type));
  std::vector<int64_t> dims = tensor.all<int64_t>(902), strides = tensor.all<int64_t>(903);
  if (dims.size() != strides.size())
    return refuse(kBadParam, "a tensor with another number of strides than of dims");
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 1 || strides[i] < 1)
      return refuse(kBadParam, "a tensor with a dim or a stride below 1");
  int64_t alignment = tensor.one<int64_t>(900);
  if (alignment < (type == 0 ? 4 : 2) || (alignment & (alignment - 1)) != 0)
    return refuse(kBadParam, "a tensor's alignment");
  return kOk;
}

int check_convolution(const Descriptor &convolution) {
  auto dims = static_cast<size_t>(convolution.one<int64_t>(106));
  for (int attribute : {102, 103, 104, 105})
    if (convolution.all<int64_t>(attribute).size() != dims)
      return refuse(kBadParam, numbered("a convolution's number of values of", attribute));
  if (convolution.one<int>(100) != 0)
    return refuse(kNotSupported, "a convolution that does not compute in float32");
  return kOk;
}

// The operation's attributes: image (x), weight (w) and result (y), of any of the three kinds.
struct Roles {
  int first, image, weight, result;
};
Roles roles_of(int kind) {
  if (kind == kForward)
    return {700, 704, 703, 705};
  return kind == kBackwardData ? Roles{706, 710, 709, 711} : Roles{712, 716, 715, 717};
}

HostTensor tensor_of(const Descriptor &from) {
  return {from.one<int64_t>(906), from.one<int>(901), from.all<int64_t>(902),
          from.all<int64_t>(903), from.values.count(907) != 0 && from.one<uint8_t>(907) != 0};
}

int check_operation(Descriptor &operation) {
  Roles roles = roles_of(operation.kind);
  auto beta = operation.one<float>(roles.first + 1);
  if (operation.one<float>(roles.first) != 1 || (beta != 0 && beta != 1))
    return refuse(kNotSupported, "an operation that scales");
  const Descriptor &convolution = operation.other(roles.first + 2);
  auto tensor = [&](int attribute) {
    return tensor_of(operation.other(attribute));
  };
  auto problem = std::make_shared<HostConvolution>();
  problem->kind = operation.kind == kForward        ? HostConvolution::kForward
                  : operation.kind == kBackwardData ? HostConvolution::kInputGradient
                                                    : HostConvolution::kWeightGradient;
  problem->adds = beta == 1;
  problem->flips = convolution.one<int>(101) == 0;
  problem->image = tensor(roles.image);
  problem->weight = tensor(roles.weight);
  problem->result = tensor(roles.result);
  problem->dilation = convolution.all<int64_t>(102);
  problem->strides = convolution.all<int64_t>(103);
  problem->padding_behind = convolution.all<int64_t>(104);
  problem->padding_before = convolution.all<int64_t>(105);
  if (std::string wrong = why_no_convolution(*problem); !wrong.empty())
    return refuse(kShapeMismatch, wrong);
  operation.problem = problem;
  return kOk;
}

int check_handle(void *handle) {
  return state().handles.count(static_cast<Handle *>(handle))
             ? kOk
             : refuse(kNullPointer, "what is given as a handle is none");
}

int check_pointwise(const Descriptor &pointwise) {
  if (pointwise.one<int>(0) != 0 || pointwise.one<int>(1) != 0)
    return refuse(kNotSupported, "a pointwise operation that is no addition in float32");
  return kOk;
}

// y = x + b, of which b may repeat.
int check_addition(const Descriptor &addition) {
  std::vector<int64_t> x = tensor_of(addition.other(751)).dims,
                       b = tensor_of(addition.other(752)).dims;
  if (x.size() != b.size() || x != tensor_of(addition.other(753)).dims)
    return refuse(kShapeMismatch, "an addition of tensors of several ranks or sizes");
  for (size_t i = 0; i < x.size(); ++i)
    if (b[i] != 1 && b[i] != x[i])
      return refuse(kShapeMismatch, "what is added does not repeat evenly");
  return kOk;
}

// A convolution, or one whose sums lie nowhere with the addition of a bias behind it.
int check_graph(Descriptor &graph) {
  size_t operations = graph.all<void *>(801).size();
  if (!is_convolution(graph.other(801).kind))
    return refuse(kNotSupported, "a graph that does not begin with a convolution");
  auto problem = std::make_shared<HostConvolution>(*graph.other(801).problem);
  if (operations == 2) {
    const Descriptor &addition = graph.other(801, 1);
    if (problem->kind != HostConvolution::kForward || addition.kind != kPointwiseOperation)
      return refuse(kNotSupported, "a graph that is no convolution with an addition behind it");
    HostTensor sums = tensor_of(addition.other(751)), bias = tensor_of(addition.other(752)),
               result = tensor_of(addition.other(753));
    if (!problem->result.is_virtual || sums.id != problem->result.id)
      return refuse(kBadParam, "an addition to what is no virtual result of the convolution");
    if (std::set{problem->image.id, problem->weight.id, sums.id, bias.id, result.id}.size() != 5)
      return refuse(kBadParam, "two tensors of a graph have one unique id");
    std::vector<int64_t> dims(bias.dims.size(), 1);
    dims[1] = result.dims[1];
    if (bias.dims != dims || bias.is_virtual || bias.type != result.type ||
        result.type != problem->image.type)
      return refuse(kNotSupported, "an addition of what is no bias of the tensors' data type");
    problem->result = result;
    problem->bias = bias;
  }
  if (operations > 2 || problem->result.is_virtual)
    return refuse(kNotSupported, "a graph of many operations, or whose result lies nowhere");
  graph.problem = problem;
  return check_handle(graph.one<void *>(800));
}

// Whether all that a descriptor is made of is still there.
bool lives(const Descriptor &descriptor) {
  std::vector<const Descriptor *> left{&descriptor};
  while (!left.empty()) {
    const Descriptor *next = left.back();
    left.pop_back();
    for (const auto &[attribute, rule] : *rules_of(next->kind)) {
      if (rule.type != kDescriptor || next->values.count(attribute) == 0)
        continue;
      for (void *pointer : next->all<void *>(attribute)) {
        if (find(pointer) == nullptr)
          return false;
        left.push_back(find(pointer));
      }
    }
  }
  return true;
}

int check_pack(const Descriptor &pack) {
  return pack.all<int64_t>(1000).size() == pack.all<void *>(1001).size()
             ? kOk
             : refuse(kBadParam, "as many tensors as pointers must be handed over");
}

// A plan takes its engine from the configuration. Engines that turn out not to be able to are no
// mistake of the caller's.
int prepare_plan(Descriptor &plan) {
  if (int error = check_handle(plan.one<void *>(400)))
    return error;
  const Descriptor &config = plan.other(401);
  if (!config.engine->prepares) {
    state().error = "the engine does not take this shape";
    return kNotSupportedShape;
  }
  plan.engine = config.engine;
  plan.problem = config.problem;
  return kOk;
}

int make_final(Descriptor &descriptor) {
  if (!lives(descriptor))
    return refuse(kNullPointer, "a descriptor becomes final after what it is made of has gone");
  switch (descriptor.kind) {
  case kTensor:
    return check_tensor(descriptor);
  case kConvolution:
    return check_convolution(descriptor);
  case kForward:
  case kBackwardData:
  case kBackwardFilter:
    return check_operation(descriptor);
  case kPointwise:
    return check_pointwise(descriptor);
  case kPointwiseOperation:
    return check_addition(descriptor);
  case kGraph:
    return check_graph(descriptor);
  case kHeuristics:
    descriptor.problem = descriptor.other(201).problem;
    return kOk;
  case kPlan:
    return prepare_plan(descriptor);
  case kPack:
    return check_pack(descriptor);
  default:
    return refuse(kBadParam, numbered("the caller cannot finish a descriptor of kind",
                                      descriptor.kind));
  }
}

//===-- Engines -------------------------------------------------------------------------------===//

// Those that do not suit float32 come first: of tensor cores, of bits that differ from run to run,
// of Winograd's algorithm, one that takes the shape only by its notes, one with too much workspace.
// One that suits is among the fallbacks alone, where a weight's gradient is asked for. None does
// for a bias where a test lets "a bias in a graph" fail.
std::vector<EngineInfo> engines_for(const HostConvolution &problem, int mode) {
  bool isFloat = problem.image.type == 0,
       isWeightGradient = problem.kind == HostConvolution::kWeightGradient;
  if (problem.bias && failure_of("a bias in a graph") != 0)
    return {{20, {4}, 0, true}};
  if (mode == 2)
    return {{20, {4}, 0, true}, {21, {}, 512, true}};
  std::vector<EngineInfo> engines;
  engines.push_back({10, isFloat ? std::vector<int>{0, 1} : std::vector<int>{0, 2}, 0, true});
  engines.push_back({11, {4}, 0, true});
  engines.push_back({12, {5, 6}, 256, true});
  engines.push_back({13, {}, 0, false});
  engines.push_back({14, {}, int64_t{1} << 50, true});
  if (!isFloat)
    engines.push_back({15, {0}, 1024, true});
  if (!isWeightGradient)
    engines.push_back({16, {}, 1024, true});
  return engines;
}

int get_engines(Descriptor &heuristics, int64_t most, int64_t *count, void *values) {
  std::vector<EngineInfo> engines =
      engines_for(*heuristics.problem, heuristics.one<int>(200));
  *count = static_cast<int64_t>(engines.size());
  for (int64_t i = 0; values != nullptr && i < std::min(most, *count); ++i) {
    Descriptor *config = find(static_cast<void **>(values)[i]);
    if (config == nullptr || config->kind != kEngineConfig)
      return refuse(kDescriptorType, "engines are written to descriptors of configurations");
    config->engine = engines[static_cast<size_t>(i)];
    config->problem = heuristics.problem;
    config->final = true;
  }
  return kOk;
}

int get_engine(const Descriptor &config, int64_t most, int64_t *count, void *values) {
  *count = 1;
  if (values == nullptr || most < 1)
    return kOk;
  Descriptor *engine = find(*static_cast<void **>(values));
  if (engine == nullptr || engine->kind != kEngine)
    return refuse(kDescriptorType, "an engine is written to a descriptor of an engine");
  engine->engine = config.engine;
  engine->final = true;
  return kOk;
}

int get(Descriptor &descriptor, int attribute, int type, int64_t most, int64_t *count,
        void *values) {
  if (!descriptor.final)
    return refuse(kNotFinalized, "an attribute of a descriptor that is not final");
  auto is = [&](int kind, int name, int of_type) {
    return descriptor.kind == kind && attribute == name && type == of_type;
  };
  auto number = [&](int64_t value) {
    *count = 1;
    if (values != nullptr && most >= 1)
      std::memcpy(values, &value, sizeof(value));
    return kOk;
  };
  if (is(kHeuristics, 202, kDescriptor))
    return get_engines(descriptor, most, count, values);
  if (is(kEngineConfig, 300, kDescriptor))
    return get_engine(descriptor, most, count, values);
  if (is(kEngine, 1301, kInt64))
    return number(descriptor.engine->number);
  if (is(kEngine, 1303, kNote)) {
    *count = static_cast<int64_t>(descriptor.engine->notes.size());
    std::memcpy(values, descriptor.engine->notes.data(),
                sizeof(int) * static_cast<size_t>(std::min(most, *count)));
    return kOk;
  }
  if (is(kPlan, 402, kInt64))
    return number(descriptor.engine->workspace);
  return refuse(kAttributeType, numbered("there is no such attribute to get:", attribute));
}

//===-- Running -------------------------------------------------------------------------------===//

int execute(Handle &handle, const Descriptor &plan, const Descriptor &pack) {
  std::vector<int64_t> ids = pack.all<int64_t>(1000);
  std::vector<uint64_t> addresses = pack.all<uint64_t>(1001);
  auto workspace = pack.one<uint64_t>(1003);
  auto bytes = static_cast<size_t>(plan.engine->workspace);
  std::shared_ptr<const HostConvolution> problem = plan.problem;
  std::vector<uint64_t> operands;
  std::vector<const HostTensor *> tensors{&problem->image, &problem->weight, &problem->result};
  if (problem->bias)
    tensors.push_back(&*problem->bias);
  if (ids.size() != tensors.size())
    return refuse(kBadParam, "other tensors than the plan's are handed over");
  for (const HostTensor *tensor : tensors) {
    size_t i = 0;
    while (i < ids.size() && ids[i] != tensor->id)
      ++i;
    if (i == ids.size())
      return refuse(kBadParam, "a tensor of the plan is not handed over");
    operands.push_back(addresses[i]);
  }
  record("convolution " + name_of(*problem) + ", engine " + std::to_string(plan.engine->number));
  put_on(handle.stream, [=] {
    if (bytes > 0)
      (void)find_bytes(workspace, bytes, "workspace of a convolution");
    std::vector<unsigned char *> data;
    size_t i = 0;
    for (const HostTensor *tensor : tensors) {
      data.push_back(find_bytes(operands[i++], bytes_of(*tensor), "a convolution"));
      if (data.back() == nullptr)
        return;
    }
    convolve(*problem, data[0], data[1], data[2], data.size() > 3 ? data[3] : nullptr);
  });
  return kOk;
}

} // namespace
} // namespace weft::backends::cuda::recording

using namespace weft::backends::cuda::recording;

#define WEFT_RECORDED(function)                                                                    \
  std::lock_guard lock(mutex());                                                                   \
  if (int error = failure_of(function))                                                            \
    return error;

extern "C" {

size_t cudnnGetVersion() {
  return 91400;
}
const char *cudnnGetErrorString(int status) {
  return status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char *message, size_t most) {
  std::lock_guard lock(mutex());
  std::strncpy(message, state().error.c_str(), most - 1);
  message[most - 1] = '\0';
}
int cudnnCreate(void **handle) {
  WEFT_RECORDED("cudnnCreate")
  if (!has_context())
    return refuse(kNotInitialized, "a handle is made outside of a context");
  auto *made = new Handle;
  state().handles.insert(made);
  *handle = made;
  return kOk;
}
int cudnnSetStream(void *handle, void *stream) {
  WEFT_RECORDED("cudnnSetStream")
  if (int error = check_handle(handle))
    return error;
  static_cast<Handle *>(handle)->stream = stream;
  return kOk;
}
int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
  WEFT_RECORDED("cudnnBackendCreateDescriptor")
  if (rules_of(kind) == nullptr)
    return refuse(kNotSupported, numbered("there is no kind of descriptor", kind));
  auto *made = new Descriptor;
  made->kind = kind;
  state().descriptors.insert(made);
  *descriptor = made;
  return kOk;
}
int cudnnBackendDestroyDescriptor(void *descriptor) {
  WEFT_RECORDED("cudnnBackendDestroyDescriptor")
  Descriptor *found = find(descriptor);
  if (found == nullptr)
    return refuse(kNullPointer, "a descriptor is destroyed that is none");
  state().descriptors.erase(found);
  delete found;
  return kOk;
}
int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count,
                             const void *values) {
  WEFT_RECORDED("cudnnBackendSetAttribute")
  Descriptor *to = find(descriptor);
  if (to == nullptr || values == nullptr)
    return refuse(kNullPointer, numbered("no descriptor, or no values, of attribute", attribute));
  if (to->final)
    return refuse(kNotSupported, numbered("a final descriptor is told attribute", attribute));
  auto rule = rules_of(to->kind)->find(attribute);
  if (rule == rules_of(to->kind)->end())
    return refuse(kNotSupported, numbered("a descriptor has no attribute", attribute));
  if (type != rule->second.type)
    return refuse(kAttributeType, numbered("the type of attribute", attribute));
  if (count < rule->second.least || count > rule->second.most)
    return refuse(kBadParam, numbered("the number of values of attribute", attribute));
  for (int64_t i = 0; type == kDescriptor && i < count; ++i) {
    Descriptor *other = find(static_cast<void *const *>(values)[i]);
    if (other == nullptr)
      return refuse(kNullPointer, numbered("what is no descriptor is attribute", attribute));
    bool operates = is_convolution(other->kind) || other->kind == kPointwiseOperation;
    if (rule->second.any_operation ? !operates : other->kind != rule->second.of)
      return refuse(kDescriptorType, numbered("the kind of descriptor of attribute", attribute));
    if (!other->final)
      return refuse(kNotFinalized, numbered("not final is attribute", attribute));
  }
  auto *bytes = static_cast<const unsigned char *>(values);
  to->values[attribute].assign(bytes, bytes + count * bytes_of(type));
  return kOk;
}
int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t most,
                             int64_t *count, void *values) {
  WEFT_RECORDED("cudnnBackendGetAttribute")
  Descriptor *of = find(descriptor);
  if (of == nullptr || count == nullptr)
    return refuse(kNullPointer, numbered("no descriptor, or no count, of attribute", attribute));
  return get(*of, attribute, type, most, count, values);
}
int cudnnBackendFinalize(void *descriptor) {
  WEFT_RECORDED("cudnnBackendFinalize")
  Descriptor *found = find(descriptor);
  if (found == nullptr)
    return refuse(kNullPointer, "what is no descriptor is to be final");
  if (found->final)
    return refuse(kBadParam, "a descriptor is to be final twice");
  for (const auto &[attribute, rule] : *rules_of(found->kind))
    if (!rule.optional && !found->values.count(attribute))
      return refuse(kBadParam, numbered("a final descriptor lacks attribute", attribute));
  int error = make_final(*found);
  found->final = error == kOk;
  return error;
}
int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  WEFT_RECORDED("cudnnBackendExecute")
  if (int error = check_handle(handle))
    return error;
  Descriptor *of = find(plan), *with = find(pack);
  if (of == nullptr || with == nullptr || of->kind != kPlan || with->kind != kPack)
    return refuse(kDescriptorType, "what is run is no plan with its tensors");
  if (!of->final || !with->final)
    return refuse(kNotFinalized, "what is run is not final");
  if (of->one<void *>(400) != handle)
    return refuse(kBadParam, "a plan is run by a handle that it was not made for");
  return execute(*static_cast<Handle *>(handle), *of, *with);
}

} // extern "C"
