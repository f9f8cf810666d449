#include "tools/RunInputs.h"

#include <algorithm>
#include <map>

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/state/StateAttributes.h"
#include "runtime/io/npy.h"

namespace weft::tools {

absl::StatusOr<InputFiles> readInputFiles(const std::vector<std::string> &paths) {
  InputFiles files;
  for (const std::string &path : paths) {
    // What a file holds decides, not what it is called.
    auto tensors = runtime::read_safetensors(path);
    if (tensors.ok()) {
      for (runtime::ArrayView &tensor : tensors->tensors)
        files.arrays.push_back({std::move(tensor), /*has_name=*/true});
      std::ranges::move(tensors->unread, std::back_inserter(files.unread));
      files.storage.push_back(std::move(tensors->storage));
      continue;
    }
    if (!absl::IsDataLoss(tensors.status()))
      return tensors.status();
    auto file = runtime::read_npy(path);
    if (!file.ok() && absl::IsDataLoss(file.status()) && !path.ends_with(".npy"))
      return path.ends_with(".safetensors")
                 ? tensors.status()
                 : absl::DataLossError("cannot read '" + path +
                                       "': neither an .npy file nor a safetensors file");
    if (!file.ok())
      return file.status();
    file->array.name = path;
    files.arrays.push_back({std::move(file->array)});
    files.storage.push_back(std::move(file->storage));
  }
  return files;
}

std::string listed(const std::vector<std::string> &names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::string RunInputs::unknownText() const {
  return unknown.empty() ? "" : "; no argument is called " + listed(unknown);
}

absl::StatusOr<RunInputs> assignInputs(mlir::func::FuncOp main, const InputFiles &files) {
  RunInputs inputs;
  const unsigned count = main ? main.getNumArguments() : 0;
  inputs.arguments.resize(count);
  std::map<std::string, unsigned> called;
  for (unsigned i = 0; i < count; ++i) {
    std::string &name = inputs.names.emplace_back();
    for (llvm::StringRef kind : {ir::kStateAttr, ir::kParameterAttr, ir::kNameAttr})
      if (auto given = main.getArgAttrOfType<mlir::StringAttr>(i, kind); given && name.empty())
        name = given.str();
    if (!name.empty())
      called.emplace(name, i);
  }
  inputs.byName = !called.empty();
  for (const runtime::UnreadTensor &tensor : files.unread) {
    if (!inputs.byName || called.contains(tensor.name))
      return absl::InvalidArgumentError("'" + tensor.name + "' is " + runtime::unread_text(tensor));
    inputs.unknown.push_back(tensor.name);
  }
  std::vector<const runtime::ArrayView *> inOrder;
  for (const InputFiles::Array &array : files.arrays) {
    if (!inputs.byName || !array.has_name) {
      inOrder.push_back(&array.view);
    } else if (auto at = called.find(array.view.name); at == called.end()) {
      inputs.unknown.push_back(array.view.name);
    } else if (std::optional<runtime::ArrayView> &argument = inputs.arguments[at->second]) {
      return absl::InvalidArgumentError("two files have a tensor '" + array.view.name + "'");
    } else {
      argument = array.view;
    }
  }
  auto next = inOrder.begin();
  for (unsigned i = 0; i < count && next != inOrder.end(); ++i)
    if (!inputs.arguments[i] && !main.getArgAttr(i, ir::kStateAttr))
      inputs.arguments[i] = **next++;
  inputs.surplus = static_cast<size_t>(inOrder.end() - next);
  return inputs;
}

} // namespace weft::tools
