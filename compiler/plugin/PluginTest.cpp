// Collective layers that plugins bring. (Passes and backends: //compiler/pipeline:pipeline_test and
// examples/; kernels: //frontend/tests:custom_test.)
#include "compiler/plugin/Plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dialects/weft/ir/Extensions.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/layers.h"
#include "runtime/custom/custom_kernels.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

std::string path(const std::string &name) {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  return sources ? std::string(sources) + "/" + workspace + "/compiler/plugin/" + name
                 : "bazel-bin/compiler/plugin/" + name;
}

TEST(Plugin, BringsACollectiveLayerBesideAKernel) {
  std::string both = path("test_layer_and_kernel.so");
  setenv("WEFT_PLUGINS", ("/nowhere/first.so:" + both + ":/nowhere/last.so").c_str(), 1);
  setenv("WEFT_SCHEDULES", "/nowhere/pins.txt", 1);
  absl::Status status = loadPluginsFromEnvironment();
  // Each that failed is named, and the others are loaded.
  for (const char *said : {"WEFT_PLUGINS: cannot load the plugin /nowhere/first.so",
                           "; WEFT_PLUGINS: cannot load the plugin /nowhere/last.so",
                           "; WEFT_SCHEDULES: cannot read the schedules in '/nowhere/"})
    EXPECT_NE(status.message().find(said), absl::string_view::npos) << status;
  EXPECT_TRUE(runtime::find_custom_kernel("test.plus_one").ok());
  // By whatever way the library comes again, it registers nothing twice.
  EXPECT_TRUE(loadPlugin(both).ok());
  EXPECT_TRUE(runtime::load_collective_plugin(both).ok());

  std::vector<std::unique_ptr<runtime::Store>> stores = runtime::local_stores(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      runtime::World world;
      world.rank = rank;
      world.size = 2;
      auto ranks = runtime::Communicator::connect(world, "socket", std::move(stores[rank]));
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      float value = static_cast<float>(rank + 1);
      runtime::CollectiveCall call;
      call.kind = runtime::Collective::kAllReduce;
      call.count = 1;
      call.input = call.output = &value;
      ASSERT_TRUE(ranks->world()->run(call).ok());
      EXPECT_EQ(value, 3);
    });
  for (std::thread &thread : threads)
    thread.join();

  // A library with a layer alone is a plugin, too; this one's name is taken.
  absl::Status taken = loadPlugin(path("test_layer.so"));
  EXPECT_EQ(taken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(taken.message(), "the plugin " + path("test_layer.so") +
                                 ": the collective layer 'socket' is registered already, by this "
                                 "name");
}

TEST(Plugin, MayLoadOthersAndItselfWhileItIsLoaded) {
  static const std::string file = path("test_calling_plugin.so");
  void *library = dlopen(file.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  auto *whileLoading = static_cast<void (**)()>(dlsym(library, "test_while_loading"));
  ASSERT_NE(whileLoading, nullptr) << dlerror();

  // What it throws is an error that names it, and leaves it to be loaded again.
  *whileLoading = [] {
    throw std::runtime_error("out of luck");
  };
  absl::Status status = loadPlugin(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the plugin " + file + " threw an exception: out of luck");

  static int loads = 0;
  static absl::Status itself, other;
  *whileLoading = [] {
    ++loads;
    itself = loadPlugin(file);
    other = loadPlugin("libm.so.6");
  };
  EXPECT_TRUE(loadPlugin(file).ok());
  EXPECT_EQ(loads, 1);
  EXPECT_TRUE(itself.ok()) << itself;
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(loadPlugin(file).ok());
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(registrationsKey(), "") << "kernels in C are no part of programs";
}

TEST(Plugin, LeavesNothingBehindWhereItFails) {
  const std::string file = path("test_failing_plugin.so");
  void *library = dlopen(file.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  auto *failure = static_cast<const char **>(dlsym(library, "test_failure"));
  ASSERT_NE(failure, nullptr) << dlerror();
  const std::string before = registrationsKey();
  for (auto [how, what] : {std::pair("throws", " threw an exception: out of luck"),
                           std::pair("registers what cannot be", "is registered without a name"),
                           std::pair("has no kernels", ": it has no kernels")}) {
    *failure = how;
    absl::Status status = loadPlugin(file);
    EXPECT_NE(status.message().find(what), std::string::npos) << status;
    EXPECT_EQ(registrationsKey(), before) << how;
    EXPECT_TRUE(registeredPasses().empty()) << how;
  }
  *failure = "";
  EXPECT_TRUE(loadPlugin(file).ok());
  EXPECT_NE(registrationsKey().find("pass after graph of-a-plugin-that-fails 1.0"),
            std::string::npos);
  ASSERT_EQ(registeredPasses().size(), 1u);
  clearRegisteredPasses();
}

TEST(Plugin, WhoseDialectsCannotBeLoadedIsRefused) {
  absl::Status status = registerDialects("test", "1", [](mlir::DialectRegistry &) {
    throw std::runtime_error("out of luck");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the dialects 'test' cannot be loaded: what registerDialects was "
                              "given threw an exception: out of luck");
  EXPECT_EQ(registerDialects("test", "1", nullptr).code(), absl::StatusCode::kInvalidArgument);
  // Its name is free.
  auto none = [](mlir::DialectRegistry &) {
  };
  EXPECT_EQ(registerDialects("", "1", none).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(registerDialects("test", "1", none).ok());
  EXPECT_EQ(registerDialects("test", "1", none).code(), absl::StatusCode::kAlreadyExists);
  ir::unregisterExtension("test");
}

TEST(Plugin, ThatLacksASymbolDoesNotLoad) {
  absl::Status status = loadPlugin(path("test_lacking_plugin.so"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("test_is_nowhere"), std::string::npos) << status;
}

TEST(Plugin, HasAFile) {
  EXPECT_EQ(loadPlugin("").message(), "the path of a plugin is empty; name the library's file");
}

TEST(Plugin, IsToldByWhatIsInItsFile) {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  ASSERT_TRUE(sources && workspace);
  absl::Status status = loadPlugin(std::string(sources) + "/" + workspace +
                                   "/compiler/pipeline/test_plugin.so");
  ASSERT_TRUE(status.ok()) << status;
  std::string key = registrationsKey();
  EXPECT_NE(key.find("plugin test_plugin.so "), std::string::npos) << key;
  EXPECT_EQ(whyRegistrationsAreNotCachable(), "");
}

TEST(Plugin, WhatBringsNothingIsNone) {
  absl::Status status = loadPlugin("libm.so.6");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find("libm.so.6 is no plugin: it exports none of "), 0u) << status;
}

} // namespace
} // namespace weft::compiler
