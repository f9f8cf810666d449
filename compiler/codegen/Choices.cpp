#include "compiler/codegen/Choices.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::compiler {

using namespace mlir;

// The rows of the table in docs/choices.md, in its order.
static constexpr ChoiceName kNames[] = {
    {"body", "which loops go over the positions"},
    {"vectors", "vectors of 16 lanes that a loop does at a time"},
    {"piece", "elements of a piece of one run"},
    {"row_block", "elements of a piece of a long row"},
    {"vectors_end", "elements after which vectors begin anew, and positions are not divided"},
    {"tiles", "tiles side by side, and one above the other, that are transposed together"},
    {"rows", "rows that a sweep does together"},
    {"keep", "operations from which on a value waits in scratch instead of being computed again"},
    {"ahead", "rows ahead of its use that memory is asked for"},
    {"column_block", "columns of a piece of a sum over rows, or of a scan down rows"},
    {"added_rows", "rows that are added to such sums together"},
    {"tile_rows", "rows of a product's tile in registers"},
    {"tile_vectors", "vectors of columns of such a tile"},
    {"pack", "1: a product's right side is copied to panels; 0: it is read where it lies"},
    {"grain", "pieces from which on another thread is worth its start"},
};

ArrayRef<ChoiceName> choiceNames() {
  return kNames;
}

Choices::Choices(Operation *fusion) {
  auto pins = fusion->getAttrOfType<DictionaryAttr>(kScheduleAttr);
  if (!pins)
    return;
  for (NamedAttribute pin : pins) {
    std::string name = pin.getName().str();
    if (auto number = dyn_cast<IntegerAttr>(pin.getValue()))
      pinned_[name] = std::to_string(number.getValue().getSExtValue());
    else if (auto word = dyn_cast<StringAttr>(pin.getValue()))
      pinned_[name] = word.str();
    else
      refused_.push_back(name + " is neither an integer nor a string");
  }
}

std::string Choices::choose(StringRef name, const std::string &preferred,
                            std::vector<std::string> legal) {
  std::string &answer = answers_[name.str()];
  if (!answer.empty())
    return answer;
  answer = preferred;
  if (auto pin = pinned_.find(name.str()); pin != pinned_.end()) {
    if (llvm::is_contained(legal, pin->second))
      answer = pin->second;
    else
      refused_.push_back(name.str() + " = " + pin->second + " is none of " +
                         llvm::join(legal, ", "));
  }
  std::string chosen = answer;
  if (legal.size() > 1)
    made_.push_back({name.str(), chosen, std::move(legal)});
  return chosen;
}

int64_t Choices::number(StringRef name, int64_t preferred, ArrayRef<int64_t> legal) {
  SmallVector<int64_t> values(legal);
  values.push_back(preferred);
  llvm::sort(values);
  values.erase(llvm::unique(values), values.end());
  std::vector<std::string> texts;
  for (int64_t value : values)
    texts.push_back(std::to_string(value));
  return std::stoll(choose(name, std::to_string(preferred), std::move(texts)));
}

std::string Choices::word(StringRef name, StringRef preferred, ArrayRef<StringRef> legal) {
  std::vector<std::string> texts;
  for (StringRef value : legal)
    texts.push_back(value.str());
  return choose(name, preferred.str(), std::move(texts));
}

void Choices::keep(ScheduleChoice choice) {
  answers_[choice.name] = choice.value;
  made_.push_back(std::move(choice));
}

std::vector<std::string> Choices::refused() const {
  std::vector<std::string> sentences = refused_;
  auto namesOf = [](auto &&entries) {
    return llvm::join(llvm::map_range(entries, [](auto &entry) { return std::string(entry.name); }),
                      ", ");
  };
  for (const auto &[name, value] : pinned_) {
    if (answers_.contains(name))
      continue;
    bool isKnown =
        llvm::any_of(kNames, [&](const ChoiceName &known) { return known.name == name; });
    sentences.push_back(isKnown
                            ? "the kernel has no choice '" + name + "', but " +
                                  (made_.empty() ? std::string("none") : namesOf(made_))
                            : "there is no choice '" + name + "'; there are " + namesOf(kNames));
  }
  return sentences;
}

void pin(Operation *fusion, DictionaryAttr choices) {
  NamedAttrList all;
  if (auto known = fusion->getAttrOfType<DictionaryAttr>(kScheduleAttr))
    all.append(known.begin(), known.end());
  for (NamedAttribute choice : choices)
    all.set(choice.getName(), choice.getValue());
  if (!all.empty())
    fusion->setAttr(kScheduleAttr, all.getDictionary(fusion->getContext()));
}

DictionaryAttr scheduleAttr(MLIRContext *context, ArrayRef<ScheduleChoice> choices) {
  Builder b(context);
  SmallVector<NamedAttribute> entries;
  for (const ScheduleChoice &choice : choices) {
    int64_t number;
    bool isNumber = llvm::to_integer(choice.value, number);
    entries.push_back(b.getNamedAttr(choice.name, isNumber
                                                      ? Attribute(b.getI64IntegerAttr(number))
                                                      : Attribute(b.getStringAttr(choice.value))));
  }
  return b.getDictionaryAttr(entries);
}

} // namespace weft::compiler
