#include "compiler/link/SharedTensors.h"

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "compiler/link/CapturedTensors.h"
#include "runtime/core/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace weft::compiler {
namespace {

using Entries = llvm::ArrayRef<std::unique_ptr<AotEntry>>;

// As trace() calls what has no name.
bool isUnnamed(llvm::StringRef state) {
  unsigned number;
  return state.consume_front("state_") && !state.getAsInteger(10, number);
}

llvm::ArrayRef<char> bytesOf(const ir::HostTensor &value) {
  return {reinterpret_cast<const char *>(value.bytes.data()), value.bytes.size()};
}

// One number in each element: equal to others by chance.
bool isUniform(DType dtype, llvm::ArrayRef<char> bytes) {
  const size_t width = size_t(byte_size(dtype));
  return bytes.size() <= width ||
         std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

} // namespace

absl::Status SharedTensors::add(const AotEntry &entry, AotEntry::Held &held, bool isReplaced) {
  auto [it, fresh] = numbers_.try_emplace(held.name, shared_.size());
  if (fresh)
    shared_.push_back(
        {{held.name, held.dtype, held.dims, false, std::nullopt}, entry.name(), "", false, 0, -1});
  Shared &shared = shared_[it->second];
  HeldTensor &tensor = shared.tensor;
  ++shared.entries;
  if (held.isState && tensor.isState && isUnnamed(held.name))
    return absl::InvalidArgumentError(
        "the entries '" + shared.first + "' and '" + entry.name() +
        "' both write a tensor that has no name, so that it is not known whether they share it; "
        "give trace() names for all that is written, as {{\"model\", model}}");
  if (tensor.dtype != held.dtype || tensor.dims != held.dims)
    return absl::InvalidArgumentError(
        "the entries hold different tensors of one name: '" + held.name + "' is " +
        tensorText(tensor.dtype, tensor.dims) + " in '" + shared.first + "', but " +
        tensorText(held.dtype, held.dims) + " in '" + entry.name() + "'");
  tensor.isState |= held.isState;
  if (!held.initial)
    return absl::OkStatus();
  llvm::ArrayRef<char> value = bytesOf(*held.initial);
  // What is written begins with what its program keeps, whatever others captured before.
  if (!tensor.value || (held.isState && !shared.valueIsState)) {
    tensor.value = value;
    shared.valued = entry.name();
    shared.valueIsState = held.isState;
    return absl::OkStatus();
  }
  if (held.isState == shared.valueIsState && !isReplaced && *tensor.value != value)
    return absl::InvalidArgumentError(
        "the entries '" + shared.valued + "' and '" + entry.name() + "' " +
        (held.isState ? "begin with" : "captured") + " different values of '" + held.name +
        "'; trace them while it holds the same" +
        (held.isState ? ", compile them before a run of one changes it" : "") +
        ", or name one otherwise");
  held.initial.reset(); // it is there once
  return absl::OkStatus();
}

absl::Status SharedTensors::add(Entries entries, llvm::ArrayRef<AotWeight> weights) {
  llvm::StringSet<> replaced;
  for (const AotWeight &weight : weights)
    replaced.insert(weight.name);
  for (const std::unique_ptr<AotEntry> &entry : entries)
    for (AotEntry::Held &held : entry->held())
      WEFT_RETURN_IF_ERROR(add(*entry, held, replaced.contains(held.name)));
  for (const AotWeight &weight : weights) {
    auto known = numbers_.find(weight.name);
    if (known == numbers_.end())
      return absl::InvalidArgumentError("there is a weight '" + weight.name +
                                        "', but @main has no argument, and no constant, with "
                                        "weft.parameter = \"" +
                                        weight.name + "\"");
    HeldTensor &tensor = shared_[known->second].tensor;
    if (weight.dtype != tensor.dtype || weight.dims != tensor.dims)
      return absl::InvalidArgumentError(
          "the weight '" + weight.name + "' is " + tensorText(weight.dtype, weight.dims) +
          ", but the model takes " + tensorText(tensor.dtype, tensor.dims));
    tensor.value = weight.bytes;
  }
  for (const std::unique_ptr<AotEntry> &entry : entries)
    for (AotEntry::Held &held : entry->held())
      held.isState = of(held).tensor.isState;
  return absl::OkStatus();
}

std::vector<std::string> SharedTensors::unseenWrites(Entries entries) const {
  // The last entry that writes a state, and whether it is the only one.
  struct Writer {
    const AotEntry *entry = nullptr;
    bool alone = true;
  };
  std::map<const Shared *, Writer> writers;
  for (const std::unique_ptr<AotEntry> &entry : entries)
    for (const AotEntry::Held &held : entry->held())
      if (held.isWritten) {
        Writer &writer = writers[&shared_[numbers_.find(held.name)->second]];
        writer = {entry.get(), writer.entry == nullptr};
      }
  using Type = std::pair<DType, std::vector<int64_t>>;
  std::multimap<std::pair<Type, llvm::StringRef>, const Shared *> byValue;
  for (const auto &[state, writer] : writers)
    if (const auto &value = state->tensor.value; value && !isUniform(state->tensor.dtype, *value))
      byValue.emplace(std::pair(Type(state->tensor.dtype, state->tensor.dims),
                                llvm::StringRef(value->data(), value->size())),
                      state);

  std::vector<std::string> result;
  for (const std::unique_ptr<AotEntry> &entry : entries) {
    llvm::StringSet<> own;
    bool writes = false, reads = false;
    auto isOfAnother = [&](const Writer &writer) {
      return !writer.alone || writer.entry != entry.get();
    };
    for (const AotEntry::Held &held : entry->held()) {
      own.insert(held.name);
      writes = writes || held.isWritten;
      auto writer = writers.find(&shared_[numbers_.find(held.name)->second]);
      reads = reads || (writer != writers.end() && isOfAnother(writer->second));
    }
    std::set<Type> unseen; // of what others write and this entry does not hold
    for (const auto &[state, writer] : writers)
      if (isOfAnother(writer) && !own.contains(state->tensor.name))
        unseen.emplace(state->tensor.dtype, state->tensor.dims);
    if (unseen.empty())
      continue;
    const Shared *same = nullptr; // what others write, and this entry has the value of
    auto look = [&](const Type &type, llvm::ArrayRef<char> value) {
      auto range = byValue.equal_range({type, llvm::StringRef(value.data(), value.size())});
      for (auto it = range.first; it != range.second && !same; ++it)
        if (isOfAnother(writers.find(it->second)->second) && !own.contains(it->second->tensor.name))
          same = it->second;
    };
    bool captures = false;
    for (const AotEntry::Held &held : entry->held()) {
      const Shared &shared = shared_[numbers_.find(held.name)->second];
      // What several entries hold and none writes has a name that was given.
      if (shared.tensor.isState || shared.entries > 1)
        continue;
      captures = true;
      if (shared.tensor.value)
        look({held.dtype, held.dims}, *shared.tensor.value);
    }
    for (const ir::HostTensor &constant : smallConstants(entry->main())) {
      Type type(constant.dtype, constant.shape);
      captures = captures || unseen.count(type) > 0;
      look(type, bytesOf(constant));
    }
    if (same)
      result.push_back("the entry '" + entry->name() + "' holds the value of '" +
                       same->tensor.name + "', which the entry '" +
                       writers.find(same)->second.entry->name() +
                       "' writes, as a constant: it does not see what is written, since its own "
                       "tensor has another name, or none; give trace() of all entries the same "
                       "names");
    else if (!writes && !reads && captures)
      result.push_back(
          "the entry '" + entry->name() +
          "' reads nothing of what other entries write, since no names of tensors that it captured "
          "are those of their state; give trace() of all entries the same names");
  }
  return result;
}

} // namespace weft::compiler
