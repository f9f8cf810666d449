// A shared library of a compiled model, as a C program would use it.
#pragma once

#include <dlfcn.h>

#include <string>

#include <gtest/gtest.h>

namespace weft::tests {

class Library {
public:
  explicit Library(const std::string &path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Library() {
    if (handle_)
      dlclose(handle_);
  }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  template <typename T> T *find(const char *name) const {
    void *symbol = dlsym(handle_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<T *>(symbol);
  }

private:
  void *handle_;
};

} // namespace weft::tests
