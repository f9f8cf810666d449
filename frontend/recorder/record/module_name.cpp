#include "frontend/recorder/record/module_name.h"

#include <vector>

namespace weft::recorder {

std::string ModuleName::path() const {
  std::vector<const ModuleName *> chain;
  for (const ModuleName *each = this; each && !each->name.empty(); each = each->parent)
    chain.push_back(each);
  std::string path;
  while (!chain.empty()) {
    path += (path.empty() ? "" : ".") + chain.back()->name;
    chain.pop_back();
  }
  return path;
}

std::string TensorName::path() const {
  std::string path = module ? module->path() : std::string();
  return path.empty() ? name : path + "." + name;
}

bool is_inside(const ModuleName *module, const ModuleName *other) {
  while (module && module != other)
    module = module->parent;
  return module == other;
}

std::string class_name(std::string_view type) {
  // From the back: template arguments, then the last part of the name.
  while (!type.empty() && type.back() == ' ')
    type.remove_suffix(1);
  if (!type.empty() && type.back() == '>') {
    int depth = 0;
    while (!type.empty()) {
      char last = type.back();
      type.remove_suffix(1);
      depth += last == '>' ? 1 : last == '<' ? -1 : 0;
      if (depth == 0)
        break;
    }
  }
  size_t before = type.find_last_of(":> )&*");
  return std::string(before == std::string_view::npos ? type : type.substr(before + 1));
}

std::string class_of_function(std::string_view function) {
  // Up to the parameters of the outermost function: "(anonymous namespace)" is a part of names.
  constexpr std::string_view kAnonymous[] = {"(anonymous", "(lambda", "(unnamed"};
  size_t end = 0;
  while (end = function.find('(', end), end != std::string_view::npos) {
    bool is_name = false;
    for (std::string_view each : kAnonymous)
      is_name = is_name || function.substr(end).starts_with(each);
    if (!is_name)
      break;
    ++end;
  }
  function = function.substr(0, end);
  size_t scope = function.rfind("::");
  if (scope == std::string_view::npos ||
      function.substr(scope + 2).find_first_of(" >)") != std::string_view::npos)
    return "";
  return class_name(function.substr(0, scope));
}

} // namespace weft::recorder
