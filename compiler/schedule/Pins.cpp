#include "compiler/schedule/Pins.h"

#include "compiler/codegen/Choices.h"
#include "compiler/pipeline/PassHooks.h"
#include "compiler/plan/KernelStructure.h"
#include "compiler/schedule/Limits.h"
#include "compiler/schedule/Passes.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/core/status.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_PINSCHEDULESPASS
#include "compiler/schedule/Passes.h.inc"

DictionaryAttr choicesOf(StringRef text, MLIRContext *context, std::string *why) {
  ScopedDiagnosticHandler quiet(context, [&](Diagnostic &diagnostic) {
    if (why)
      *why = diagnostic.str();
    return success();
  });
  return dyn_cast_or_null<DictionaryAttr>(parseAttribute(text, context));
}

namespace {

class PinSchedules : public impl::PinSchedulesPassBase<PinSchedules> {
public:
  using PinSchedulesPassBase::PinSchedulesPassBase;
  explicit PinSchedules(std::vector<SchedulePin> pins) : pins_(std::move(pins)) {}

  void runOnOperation() override {
    if (!file.empty()) {
      absl::StatusOr<std::string> text = readPins(file);
      auto pins = text.ok() ? parsePins(*text, file) : text.status();
      if (!pins.ok()) {
        getOperation().emitError() << std::string(pins.status().message());
        return signalPassFailure();
      }
      pins_ = *std::move(pins);
    }
    SmallVector<bool> matched(pins_.size());
    getOperation().walk([&](ir::FusionOp fusion) { pinChoices(fusion, pins_, &matched); });
    std::string names;
    int64_t unmatched = 0;
    for (auto [pin, has] : llvm::zip(pins_, matched))
      if (!has && unmatched++ < kMostNamedPins)
        names += (names.empty() ? "'" : ", '") + pin.kernels + "'";
    if (unmatched)
      mlir::emitRemark(getOperation().getLoc())
          << "pin-without-kernel: " << unmatched << " of " << pins_.size()
          << " pins match no kernel of this program: " << names
          << (unmatched > kMostNamedPins ? ", ..." : "");
  }

private:
  std::vector<SchedulePin> pins_;
};

} // namespace

absl::StatusOr<std::vector<SchedulePin>> parsePins(StringRef text, StringRef origin) {
  std::vector<SchedulePin> pins;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (auto [number, whole] : llvm::enumerate(lines)) {
    auto fail = [&, number = number](const Twine &why) {
      return absl::InvalidArgumentError((origin + ":" + Twine(number + 1) + ": " + why).str());
    };
    StringRef line = whole.split('#').first.trim();
    if (line.empty())
      continue;
    auto [pattern, choices] = line.split(':');
    pattern = pattern.trim();
    if (choices.empty() || pattern.empty())
      return fail("'" + line + "' is no pin; write KERNELS: {CHOICE = VALUE, ...}");
    std::string why;
    DictionaryAttr parsed = choicesOf(choices.trim(), &context, &why);
    if (!parsed)
      return fail("'" + choices.trim() + "' is no dictionary" + (why.empty() ? "" : ": ") + why +
                  "; write {rows = 4, body = \"rows\"}");
    for (NamedAttribute choice : parsed)
      if (llvm::none_of(choiceNames(), [&](const ChoiceName &known) {
            return known.name == choice.getName().getValue();
          }))
        return fail(
            "there is no choice '" + choice.getName().getValue() + "'; there are " +
            llvm::join(llvm::map_range(choiceNames(),
                                       [](const ChoiceName &known) { return known.name.str(); }),
                       ", "));
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return fail("'" + pattern + "' is no pattern: " + llvm::toString(glob.takeError()));
    pins.push_back({pattern.str(), choices.trim().str()});
  }
  return pins;
}

absl::StatusOr<std::string> readPins(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return absl::NotFoundError("cannot read the schedules in '" + path +
                               "': " + file.getError().message());
  return (*file)->getBuffer().str();
}

std::string kernelText(ir::FusionOp fusion) {
  std::string text = kernelNameSuffix(fusion);
  text.erase(0, 1); // the underscore that joins it to a number
  llvm::raw_string_ostream stream(text);
  auto print = [&](TypeRange types) {
    llvm::interleaveComma(types, stream, [&](Type type) {
      auto tensor = cast<RankedTensorType>(type);
      for (int64_t size : tensor.getShape())
        stream << size << "x";
      stream << tensor.getElementType();
    });
  };
  stream << "(";
  print(fusion->getOperandTypes());
  stream << ") -> ";
  print(fusion->getResultTypes());
  return text;
}

void pinChoices(ir::FusionOp fusion, ArrayRef<SchedulePin> pins, SmallVectorImpl<bool> *matched) {
  if (pins.empty())
    return;
  std::string text = kernelText(fusion);
  StringRef name = StringRef(text).split('(').first;
  for (const auto &[i, one] : llvm::enumerate(pins)) {
    // It refers to the pattern's text, which a pin that moves would take away from under it.
    llvm::GlobPattern kernels = llvm::cantFail(llvm::GlobPattern::create(one.kernels));
    if (!kernels.match(name) && !kernels.match(text))
      continue;
    pin(fusion, choicesOf(one.choices, fusion.getContext()));
    if (matched)
      (*matched)[i] = true;
  }
}

absl::Status pinSchedules(StringRef text, StringRef origin) {
  WEFT_ASSIGN_OR_RETURN(std::vector<SchedulePin> pins, parsePins(text, origin));
  // Pins add up, equal ones too: what comes last holds.
  constexpr StringLiteral name = "weft-pin-schedules";
  int64_t before = llvm::count_if(registeredPasses(),
                                  [&](const RegisteredPass &each) { return each.name == name; });
  std::string version = llvm::utohexstr(llvm::xxh3_64bits(text)) +
                        (before ? "-" + std::to_string(before) : std::string());
  return registerPass(
      Phase::Plan, Position::Before,
      [pins = std::move(pins)] { return std::make_unique<PinSchedules>(pins); }, name, version);
}

} // namespace weft::compiler
