#include "frontend/programs/batch_of_one.h"

#include <cstring>

#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/programs/structure.h"
#include "frontend/recorder/record/ir_state.h"
#include "frontend/recorder/requests/requests.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::recorder {
namespace {

// A dim where the batch is 1.
struct DimAtOne {
  int64_t size = 0;
  bool varies = false;
};
using Dims = llvm::SmallVector<DimAtOne, 4>;

Dims fixed(const Shape &shape) {
  Dims dims;
  for (int64_t size : shape)
    dims.push_back({size, false});
  return dims;
}

bool same_sizes(llvm::ArrayRef<DimAtOne> a, llvm::ArrayRef<DimAtOne> b) {
  return llvm::equal(a, b, [](const DimAtOne &a, const DimAtOne &b) { return a.size == b.size; });
}
bool same_sizes(llvm::ArrayRef<DimAtOne> dims, const Shape &shape) {
  return same_sizes(dims, fixed(shape));
}

int64_t elements(llvm::ArrayRef<DimAtOne> dims) {
  int64_t product = 1;
  for (const DimAtOne &dim : dims)
    product *= dim.size;
  return product;
}

llvm::ArrayRef<int64_t> dims_of_sum(const Node *node) {
  return properties_if<ir::ReduceSumOp>(*node->signature)->dims.asArrayRef();
}

// Goes along both recordings, and finds for each value of the larger size the one that has the same
// elements, in the same order, where the batch is 1.
class Comparison {
public:
  Comparison(const Recording &many, int64_t size, const Recording &one, const NumbersAtOne &numbers,
             Location location)
      : many_(many), one_(one), size_(size), numbers_(numbers), location_(location) {
    for (const Node *node : one.slice.nodes)
      for (const Value *result : node->results)
        if (result)
          made_.insert(result);
    for (auto [i, leaf] : llvm::enumerate(many.slice.leaves))
      leaves_[leaf] = i;
  }

  BatchOfOne run() {
    llvm::ArrayRef<Node *> many = many_.slice.nodes, one = one_.slice.nodes;
    size_t j = 0;
    for (size_t i = 0; i < many.size(); ++i) {
      pass_reshapes(j);
      read_types(many[i]);
      if (j < one.size() && is_same(many[i], one[j])) {
        for (size_t r = 0; r < many[i]->results.size(); ++r)
          if (const Value *result = many[i]->results[r])
            found_[result] = {one[j]->results[r], results_[r], nullptr};
        if (is<ir::ReduceSumOp>(many[i]) && dims_of_sum(many[i]) != dims_of_sum(one[j]))
          outcome_.sums.push_back(i);
        ++j;
      } else if (does_nothing(many[i])) {
        Found found = found_of(many[i]->operands[0]);
        found.dims = results_[0];
        found_[many[i]->results[0]] = std::move(found);
        if (is<ir::ReduceSumOp>(many[i]))
          outcome_.sums.push_back(i);
      } else {
        return differ(i, j);
      }
      at_ += many[i]->signature->text->ints.size();
    }
    pass_reshapes(j);
    if (j < one.size())
      return differ(many.size(), j);
    compare_results();
    return std::move(outcome_);
  }

private:
  // Of a value of the larger size: the one that has its elements, and its dims where the batch
  // is 1. Of a leaf that only ops that do nothing have read yet, that leaf.
  struct Found {
    Value *value = nullptr;
    Dims dims;
    Value *leaf = nullptr;
  };

  BatchOfOne differ(size_t i, size_t j) {
    if (i < many_.slice.nodes.size() && j < one_.slice.nodes.size() &&
        are_alike(many_.slice.nodes[i], one_.slice.nodes[j])) {
      outcome_.difference = describe(many_.slice.nodes[i]) + " reads something else" + sizes();
      return std::move(outcome_);
    }
    outcome_.apart = {i, j};
    return std::move(outcome_);
  }

  // Its operands' and results' dims where the batch is 1.
  void read_types(const Node *node) {
    const Signature &signature = *node->signature;
    operands_.clear();
    results_.clear();
    for (const TypeInfo *type : signature.operands)
      operands_.push_back(fixed(type->dims));
    for (const TypeInfo *type : signature.results)
      results_.push_back(fixed(type->dims));
    for (auto [p, position] : llvm::enumerate(signature.text->structure->positions)) {
      if (position.kind != IntPosition::Kind::kSize)
        continue;
      Dims &dims = position.value & kResult ? results_[position.value & ~kResult]
                                            : operands_[position.value];
      dims[position.at] = {numbers_.ints[at_ + p], numbers_.varying[at_ + p]};
    }
  }

  // Of the batch of one, a reshape's result is its operand; so it is of the larger size.
  void pass_reshapes(size_t &j) {
    for (; j < one_.slice.nodes.size() && is<ir::ReshapeOp>(one_.slice.nodes[j]); ++j) {
      const Node *reshape = one_.slice.nodes[j];
      reshaped_[reshape->results[0]] = origin(reshape->operands[0]);
    }
  }
  Value *origin(Value *one) const {
    auto reshaped = reshaped_.find(one);
    return reshaped == reshaped_.end() ? one : reshaped->second;
  }

  bool is_same(const Node *many, const Node *one) {
    if (many->operands.size() != one->operands.size() ||
        many->signature->name != one->signature->name ||
        many->signature->device != one->signature->device || is<ir::ReshapeOp>(many))
      return false;
    if (!are_alike(many, one) && !(is<ir::ReduceSumOp>(many) && is_same_sum(many, one)) &&
        !(is<ir::MatmulOp>(many) && is_same_product(many, one)))
      return false;
    for (size_t i = 0; i < many->operands.size(); ++i)
      if (!is_same(many->operands[i], one->operands[i]))
        return false;
    return true;
  }

  // Whether they are one op, whatever they read.
  bool are_alike(const Node *many, const Node *one) const {
    const SignatureText &a = *many->signature->text, &b = *one->signature->text;
    return a.structure->id == b.structure->id &&
           llvm::equal(llvm::ArrayRef(numbers_.ints).slice(at_, a.ints.size()), b.ints);
  }
  // A sum over dims of size 1 is one without them.
  bool is_same_sum(const Node *many, const Node *one) const {
    return same_sizes(operands_[0], one->signature->operands[0]->dims) &&
           llvm::equal(summed(many), dims_of_sum(one));
  }
  // Products of a batch of one are one product.
  bool is_same_product(const Node *many, const Node *one) const {
    auto flags = [](const Node *node) {
      const auto &p = *properties_if<ir::MatmulOp>(*node->signature);
      return std::pair(p.transpose_lhs && p.transpose_lhs.getValue(),
                       p.transpose_rhs && p.transpose_rhs.getValue());
    };
    auto matrix = [](llvm::ArrayRef<DimAtOne> dims) {
      while (dims.size() > 2 && dims.front().size == 1)
        dims = dims.drop_front();
      return dims;
    };
    for (size_t i = 0; i < operands_.size(); ++i) {
      Dims theirs = fixed(one->signature->operands[i]->dims);
      if (many->signature->operands[i]->dtype != one->signature->operands[i]->dtype ||
          matrix(operands_[i]).size() > 2 || !same_sizes(matrix(operands_[i]), matrix(theirs)))
        return false;
    }
    return flags(many) == flags(one);
  }

  // What is left of the dims of a sum where those of the batch have gone.
  llvm::SmallVector<int64_t, 4> summed(const Node *sum) const {
    llvm::SmallVector<int64_t, 4> left;
    for (int64_t dim : dims_of_sum(sum))
      if (const DimAtOne &each = operands_[0][static_cast<size_t>(dim)];
          !each.varies || each.size != 1)
        left.push_back(dim);
    return left;
  }

  // Whether its result has its operand's elements.
  bool does_nothing(const Node *node) const {
    if (is<ir::BroadcastOp>(node))
      return elements(operands_[0]) == elements(results_[0]);
    return is<ir::ReshapeOp>(node) || (is<ir::ReduceSumOp>(node) && summed(node).empty());
  }

  Found found_of(Value *value) const {
    auto found = found_.find(value);
    return found != found_.end() ? found->second : Found{nullptr, {}, value};
  }

  bool is_same(Value *many, Value *one) {
    one = origin(one);
    Found found = found_of(many);
    if (found.value)
      return found.value == one;
    if (auto known = found_.find(found.leaf); known != found_.end())
      return known->second.value == one;
    if (!found.leaf || made_.contains(one) || !is_same_leaf(found.leaf, one))
      return false;
    found_[found.leaf] = {one, at_one(found.leaf), nullptr};
    return true;
  }

  // A leaf's own dims.
  Dims at_one(Value *leaf) const {
    Dims dims = fixed(leaf->type->dims);
    std::optional<size_t> source = source_of(many_, leaf);
    if (source && *source < numbers_.inputs.size() && numbers_.inputs[*source])
      dims[0] = {1, true};
    return dims;
  }

  bool is_same_leaf(Value *many, Value *one) const {
    if (!have_one_source(many_, many, one_, one) || many->type->dtype != one->type->dtype ||
        many->type->device != one->type->device || !same_sizes(at_one(many), one->type->dims))
      return false;
    if (source_of(many_, many))
      return true;
    if (many->is_scalar != one->is_scalar)
      return false;
    if (many->is_scalar) {
      auto leaf = leaves_.find(many);
      int64_t bits =
          leaf == leaves_.end() ? static_cast<int64_t>(many->bits) : numbers_.bits(leaf->second);
      return bits == static_cast<int64_t>(one->bits);
    }
    if (many == one || many->type->bytes == 0)
      return true;
    std::vector<char> our_room, their_room;
    return std::memcmp(host_bytes(many, location_, our_room),
                       host_bytes(one, location_, their_room),
                       static_cast<size_t>(many->type->bytes)) == 0;
  }

  // What the program gives and keeps. As many results are there (the caller has looked).
  void compare_results() {
    for (size_t i = 0; i < many_.outputs.size(); ++i)
      compare(many_.outputs[i], one_.outputs[i],
              [&] { return "result " + std::to_string(i) + " of the function"; });
    for (size_t i = 0; i < many_.written_arguments.size(); ++i)
      compare(many_.written_arguments[i], one_.written_arguments[i],
              [&] { return "what the function writes to input " + std::to_string(i); });
    bool same = many_.storages.size() == one_.storages.size();
    for (size_t i = 0; i < many_.storages.size() && same; ++i) {
      TensorImpl *storage = many_.storages[i].tensor.impl()->storage();
      same = storage == one_.storages[i].tensor.impl()->storage();
      compare(many_.storages[i].written, one_.storages[i].written, [&] {
        return "what the function writes to " +
               (storage->name ? "'" + storage->name->path() + "'" : "a tensor that it captured");
      });
    }
    if (!same && outcome_.difference.empty())
      outcome_.difference = "the function reads or writes other tensors that it captured" + sizes();
  }

  template <typename Name> void compare(const Var &many, const Var &one, Name name) {
    if (!outcome_.difference.empty() || (!many && !one))
      return;
    std::string ours = many ? describe(many.type()) : "nothing",
                theirs = one ? describe(one.type()) : "nothing";
    if (many && one) {
      Value *value = many.value.get();
      bool same = is_same(value, one.value.get());
      if (same && same_sizes(found_.find(value)->second.dims, one.dims()))
        return;
      if (!same && many.type().ndim() == one.type().ndim()) {
        outcome_.difference = name() + " is another tensor" + sizes();
        return;
      }
    }
    outcome_.difference = name() + " is " + ours + " at a size of " + std::to_string(size_) +
                          ", and " + theirs + " at 1";
  }
  std::string sizes() const {
    return " at a size of 1 than at " + std::to_string(size_);
  }

  const Recording &many_, &one_;
  int64_t size_;
  const NumbersAtOne &numbers_;
  Location location_;
  llvm::DenseSet<const Value *> made_;           // by ops of the batch of one
  llvm::DenseMap<const Value *, size_t> leaves_; // of the larger size, by number
  llvm::DenseMap<const Value *, Found> found_;
  llvm::DenseMap<const Value *, Value *> reshaped_; // of the batch of one: what it is a reshape of
  BatchOfOne outcome_;
  // Of the op at hand:
  size_t at_ = 0; // its first int
  llvm::SmallVector<Dims, 3> operands_, results_;
};

} // namespace

BatchOfOne compare_batch_of_one(const Recording &many, int64_t size, const Recording &one,
                                const NumbersAtOne &numbers, Location location) {
  return Comparison(many, size, one, numbers, location).run();
}

std::optional<size_t> source_of(const Recording &recording, Value *leaf) {
  for (size_t i = 0; i < recording.placeholders.size(); ++i)
    if (recording.placeholders[i].value.get() == leaf)
      return i;
  auto storage = recording.storage_of.find(leaf);
  if (storage == recording.storage_of.end())
    return std::nullopt;
  return recording.placeholders.size() + storage->second;
}

bool have_one_source(const Recording &a, Value *leaf_of_a, const Recording &b, Value *leaf_of_b) {
  std::optional<size_t> source = source_of(a, leaf_of_a);
  if (source != source_of(b, leaf_of_b))
    return false;
  if (!source || *source < a.placeholders.size())
    return true;
  size_t storage = *source - a.placeholders.size();
  return a.storages[storage].tensor.impl()->storage() ==
         b.storages[storage].tensor.impl()->storage();
}

} // namespace weft::recorder
