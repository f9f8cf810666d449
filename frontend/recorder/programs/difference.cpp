// Why a slice missed the cache: in which parts of its key it differs from the most similar of the
// recent programs.
#include <algorithm>

#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/programs/structure.h"
#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {
namespace {

// Enough to see a loop's alternation; more would only cost time on a miss.
constexpr int kCandidates = 16;

// How far a part is from "the same program": the recent program with the least sum is the one to
// name.
enum Weight : int { kLight = 1, kTypes = 4, kProperties = 16, kDataflow = 64, kOps = 4096 };

// "device", "dtype", "rank" or "dims".
const char *part_of(const TypeInfo &mine, const TypeInfo &theirs) {
  if (mine.device != theirs.device)
    return "device";
  if (mine.dtype != theirs.dtype)
    return "dtype";
  return mine.ndim() != theirs.ndim() ? "rank" : "dims";
}

class Comparison {
public:
  Comparison(const Slice &slice, const HeldKey &mine, const CachedProgram &theirs)
      : slice_(slice), mine_(mine), theirs_(theirs.key), stable_(theirs.stable) {
    if (compare_ops()) {
      compare_dataflow();
      compare_types();
      compare_leaves();
      compare_outputs();
    }
  }

  int weight = 0;
  std::string text;

  void add(int by, const std::string &what) {
    weight += by;
    text += (text.empty() ? "" : "; ") + what;
  }

private:
  static uint32_t leaves(const HeldKey &of) {
    return static_cast<uint32_t>(of.key.leaves.size());
  }
  std::string op(size_t node) const {
    return "op " + std::to_string(node) + " " + describe(slice_.nodes[node]);
  }

  // Whether they are the same ops, whatever these work on.
  bool compare_ops() {
    size_t mine = mine_.texts.size(), theirs = theirs_.texts.size(), both = std::min(mine, theirs),
           i = 0;
    while (i < both && mine_.texts[i]->name() == theirs_.texts[i]->name())
      ++i;
    if (i == both && mine == theirs)
      return true;
    std::string counts =
        mine == theirs ? "" : std::to_string(mine) + " instead of " + std::to_string(theirs) + ", ";
    if (i < both)
      add(kOps, "ops: " + counts + op(i) + " instead of " + theirs_.texts[i]->name());
    else
      add(kOps,
          "ops: " + counts +
              (i < mine ? "with " + op(i) + " and what follows it" : "the last ones are missing"));
    weight -= static_cast<int>(
        std::min<size_t>(i, kOps / 2)); // the longer they agree, the closer they are
    return false;
  }

  void compare_dataflow() {
    const uint32_t *mine = mine_.key.code.data(), *theirs = theirs_.key.code.data();
    for (size_t i = 0; i < mine_.texts.size(); ++i) {
      const uint32_t *mine_end = mine + 1 + mine_.texts[i]->operands,
                     *theirs_end = theirs + 1 + theirs_.texts[i]->operands;
      if (!std::equal(mine + 1, mine_end, theirs + 1, theirs_end))
        return add(kDataflow, "dataflow: " + op(i) + " has other operands");
      mine = mine_end, theirs = theirs_end;
    }
  }

  void compare_types() {
    bool named = false;
    for (uint32_t i = 0; i < std::min(leaves(mine_), leaves(theirs_)) && !named; ++i) {
      const TypeInfo &mine = *mine_.types[i], &theirs = *theirs_.types[i];
      if (&mine == &theirs)
        continue;
      named = true;
      int parts = (mine.device != theirs.device) + (mine.dtype != theirs.dtype) +
                  (mine.dims != theirs.dims) + (mine.ndim() != theirs.ndim());
      add(kTypes * parts, std::string(part_of(mine, theirs)) + ": input " + std::to_string(i) +
                              " is " + describe(mine) + " instead of " + describe(theirs) +
                              reader(i));
    }
    for (size_t i = 0; i < mine_.texts.size(); ++i) {
      const SignatureText &mine = *mine_.texts[i], &theirs = *theirs_.texts[i];
      if (mine.text == theirs.text)
        continue;
      if (std::string a = mine.properties(), b = theirs.properties(); a != b)
        return add(kProperties, "attributes: " + op(i) + " has " + a + " instead of " + b);
      if (named)
        continue; // the inputs say it
      named = true;
      add(kTypes, "types: " + op(i) + " is" + mine.types() + " instead of" + theirs.types());
    }
  }

  // The first op that reads the input.
  std::string reader(uint32_t leaf) const {
    const uint32_t *code = mine_.key.code.data();
    for (size_t i = 0; i < mine_.texts.size(); ++i)
      for (const uint32_t *end = code + mine_.texts[i]->operands; code++ != end;)
        if (*code == (kLeafBit | leaf))
          return ", read by " + op(i);
    return "";
  }

  // What may be done with the inputs.
  void compare_leaves() {
    if (leaves(mine_) != leaves(theirs_))
      return;
    using Leaf = ProgramKey::Leaf;
    compare_flag("donation", flags(mine_, &Leaf::donatable), flags(theirs_, &Leaf::donatable),
                 "may be overwritten now: nothing else refers to it",
                 "must not be overwritten now: something else refers to it");
    compare_flag("kept", flags(mine_, &Leaf::kept), flags(theirs_, &Leaf::kept),
                 "is now what a tensor goes back to when its run ends at a check",
                 "is no longer what a tensor goes back to when its run ends at a check");
    compare_flag("stability", slice_.stable, stable_,
                 "is now stable: it has not changed since its last use",
                 "is no longer stable: it has changed since its last use");
  }

  static llvm::BitVector flags(const HeldKey &of, bool ProgramKey::Leaf::*flag) {
    llvm::BitVector flags;
    for (const ProgramKey::Leaf &leaf : of.key.leaves)
      flags.push_back(leaf.*flag);
    return flags;
  }

  // By leaf.
  void compare_flag(const char *part, const llvm::BitVector &mine, const llvm::BitVector &theirs,
                    const char *is, const char *is_not) {
    for (uint32_t i = 0; i < mine.size(); ++i)
      if (mine[i] != theirs[i])
        return add(kLight, std::string(part) + ": input " + std::to_string(i) + reader(i) + ", " +
                               (mine[i] ? is : is_not));
  }

  void compare_outputs() {
    const std::vector<uint32_t> &mine = mine_.key.outputs, &theirs = theirs_.key.outputs;
    std::vector<uint32_t> more, less;
    std::set_difference(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                        std::back_inserter(more));
    std::set_difference(theirs.begin(), theirs.end(), mine.begin(), mine.end(),
                        std::back_inserter(less));
    if (!more.empty())
      add(kLight,
          "outputs: the result of " + op(node_of(more[0])) + others(more) + " is alive now");
    if (!less.empty())
      add(kLight, "outputs: the result of " + op(node_of(less[0])) + others(less) +
                      " is not wanted any more");
  }

  static std::string others(const std::vector<uint32_t> &outputs) {
    return outputs.size() > 1 ? " and of " + std::to_string(outputs.size() - 1) + " others" : "";
  }

  size_t node_of(uint32_t result) const {
    for (size_t i = 0; i < slice_.nodes.size(); ++i) {
      uint32_t count = slice_.nodes[i]->results.size();
      if (result < count)
        return i;
      result -= count;
    }
    return 0;
  }

  const Slice &slice_;
  const HeldKey &mine_, &theirs_;
  const llvm::BitVector &stable_; // of theirs
};

} // namespace

std::string ProgramCache::difference(const Slice &slice, const ProgramContext &context) const {
  HeldKey mine = hold_key(slice);
  int least = 0, seen = 0;
  std::string text;
  for (const CachedProgram &entry : *this) {
    if (entry.key.key.kind != ProgramKey::Kind::kSlice)
      continue;
    if (++seen > kCandidates)
      break;
    Comparison comparison(slice, mine, entry);
    const ProgramContext &other = entry.context;
    auto compare = [&](const std::string &what, const std::string &now, const std::string &then) {
      if (now != then)
        comparison.add(kLight, what + now + " instead of " + then);
    };
    auto compare_switch = [&](const char *option, bool now, bool then) {
      if (now != then)
        comparison.add(kLight,
                       std::string("options: ") + option + " is " + (now ? "on" : "off") + " now");
    };
    compare("backend: ", context.backend, other.backend);
    compare("device: ", device_text(context.device), device_text(other.device));
    compare("options: dump_dir is ", "\"" + context.dump_dir + "\"", "\"" + other.dump_dir + "\"");
    compare_switch("prepare", context.prepare, other.prepare);
    compare("options: math is ", std::string(name(context.math)), std::string(name(other.math)));
    compare_switch("tune", context.tune, other.tune);
    compare("options: memory_limit is ", std::to_string(context.memory_limit),
            std::to_string(other.memory_limit));
    if (other.memory_files != context.memory_files && other.memory_limit > 0 &&
        context.memory_limit > 0)
      comparison.add(kLight, std::string("options: memory_folder is ") +
                                 (context.memory_files ? "set" : "empty") + " now");
    if (other.registrations != context.registrations)
      comparison.add(kLight, "extensions: others are registered");
    if (comparison.text.empty() || (!text.empty() && comparison.weight >= least))
      continue;
    least = comparison.weight;
    text = comparison.text;
  }
  if (seen == 0)
    return "the first program";
  return text.empty() ? "dropped: the program was in the cache, and went to make room" : text;
}

} // namespace weft::recorder
