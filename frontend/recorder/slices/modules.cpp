#include "frontend/recorder/slices/modules.h"

namespace weft::recorder {

// The innermost module of that class on the way from `from` up to `within` (null: to the root);
// null where there is none, or `from` is not inside.
static const ModuleName *find_class(const ModuleName *from, const ModuleName *within,
                                    const std::string &type) {
  const ModuleName *found = nullptr;
  const ModuleName *each = from;
  for (; each && each != within; each = each->parent.get())
    if (!found && each->type == type)
      found = each;
  return each == within ? found : nullptr;
}

std::vector<const ModuleName *> modules_of(const Slice &slice) {
  std::vector<const ModuleName *> modules;
  modules.reserve(slice.nodes.size());
  // By node: its module, or where it has none, that of what it was computed from last.
  llvm::DenseMap<const Node *, const ModuleName *> reached;
  for (const Node *node : slice.nodes) {
    const SourceLine &line = *node->line;
    const ModuleName *module = line.module.get(), *refined = nullptr, *latest = nullptr;
    const std::string &type = line.plain ? line.plain->in_class : line.in_class;
    bool may_refine = !type.empty() && !(module && module->type == type);
    uint64_t refined_at = 0, latest_at = 0;
    for (const Value *operand : node->operands) {
      auto known = operand->node ? reached.find(operand->node) : reached.end();
      if (known == reached.end())
        continue;
      uint64_t number = operand->node->number;
      if (number >= latest_at)
        latest = known->second, latest_at = number;
      if (!may_refine || number < refined_at)
        continue;
      if (const ModuleName *found = find_class(known->second, module, type))
        refined = found, refined_at = number;
    }
    modules.push_back(refined ? refined : module);
    if (const ModuleName *reach = modules.back() ? modules.back() : latest)
      reached[node] = reach;
  }
  return modules;
}

} // namespace weft::recorder
