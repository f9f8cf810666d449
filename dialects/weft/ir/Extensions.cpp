#include "dialects/weft/ir/Extensions.h"

#include <map>
#include <mutex>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"

namespace weft::ir {

using namespace mlir;

namespace {

struct Extension {
  std::string version;
  std::function<void(DialectRegistry &)> insert;
};

struct Extensions {
  std::mutex mutex;
  std::map<std::string, Extension> byName;
};

Extensions &extensions() {
  static Extensions *extensions = new Extensions;
  return *extensions;
}

bool hasExtensions() {
  std::lock_guard lock(extensions().mutex);
  return !extensions().byName.empty();
}

} // namespace

bool registerExtension(const std::string &name, const std::string &version,
                       std::function<void(DialectRegistry &)> insert) {
  std::lock_guard lock(extensions().mutex);
  return extensions().byName.try_emplace(name, Extension{version, std::move(insert)}).second;
}

void unregisterExtension(const std::string &name) {
  std::lock_guard lock(extensions().mutex);
  extensions().byName.erase(name);
}

void insertExtensions(DialectRegistry &registry) {
  std::lock_guard lock(extensions().mutex);
  for (auto &[name, extension] : extensions().byName)
    extension.insert(registry);
}

void loadExtensions(MLIRContext &context) {
  // Of the registrations, not of the registry, which always holds the builtin dialect.
  if (!hasExtensions())
    return;
  DialectRegistry registry;
  insertExtensions(registry);
  context.appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context.getOrLoadDialect(name);
  // A rule that makes an op of these where it may not gets an error; making one of a dialect that
  // is not loaded would end the process.
  context.loadDialect<arith::ArithDialect, linalg::LinalgDialect, mlir::math::MathDialect,
                      tensor::TensorDialect>();
}

std::string registrationOf(const std::string &dialect) {
  std::lock_guard lock(extensions().mutex);
  for (auto &[name, extension] : extensions().byName) {
    DialectRegistry registry;
    extension.insert(registry);
    for (StringRef each : registry.getDialectNames())
      if (each == dialect)
        return "'" + name + "'" + (extension.version.empty() ? "" : " " + extension.version);
  }
  return "";
}

std::string extensionsKey() {
  std::lock_guard lock(extensions().mutex);
  std::string key;
  for (auto &[name, extension] : extensions().byName)
    key += "dialect " + name + " " + extension.version + "\n";
  return key;
}

std::string whyExtensionsAreNotCachable() {
  std::lock_guard lock(extensions().mutex);
  for (auto &[name, extension] : extensions().byName)
    if (extension.version.empty())
      return "the registered dialect '" + name + "' has no version";
  return "";
}

} // namespace weft::ir
