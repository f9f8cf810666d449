// Dialects of users: loaded into every context that holds weft ops, so that their ops are recorded,
// read, compiled and run like ours where they implement the interfaces of WeftInterfaces.td.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mlir {
class DialectRegistry;
class MLIRContext;
} // namespace mlir

namespace weft::ir {

// Contexts that are made from now on load what `insert` inserts. name and version go into the keys
// of caches; an empty version switches the disk cache off, with a reason that names the dialect.
// False when the name is taken. To be called from any thread.
bool registerExtension(const std::string &name, const std::string &version,
                       std::function<void(mlir::DialectRegistry &)> insert);

// Of a plugin that fails to load: contexts that are made from now on do without it.
void unregisterExtension(const std::string &name);

// For contexts that were there before, and for registries of tools that load dialects when they
// meet an op.
void loadExtensions(mlir::MLIRContext &context);
void insertExtensions(mlir::DialectRegistry &registry);

// "'NAME' VERSION" of the registration that brought a dialect; empty for one that no registration
// did.
std::string registrationOf(const std::string &dialect);

// "dialect NAME VERSION", a line each.
std::string extensionsKey();
std::string whyExtensionsAreNotCachable();

} // namespace weft::ir
