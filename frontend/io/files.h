// Files and folders, with errors as exceptions.
#pragma once

#include <string>
#include <string_view>

#include "weft/error.h"

namespace weft::io {

// Replaces the file in one step: whoever reads it finds the old content or the new one. Throws
// Error when it cannot be written.
void write_file(const std::string &path, std::string_view content,
                Location location = Location::current());

// Makes the folder where it is missing (and those above it). Throws Error where that fails, or
// where this process may make no file in it.
void make_writable_folder(const std::string &path, Location location = Location::current());

} // namespace weft::io
