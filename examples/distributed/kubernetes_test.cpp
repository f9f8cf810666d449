// kubernetes.yaml is YAML, its parts name each other, and what it gives a pod makes a rank.
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/collective/world.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "gtest/gtest.h"

namespace {

// All scalars, by path: "spec.template.spec.containers.0.name".
using Scalars = std::map<std::string, std::string>;

void collect(llvm::yaml::Node *root, Scalars &scalars) {
  auto below = [](const std::string &path, const std::string &name) {
    return path.empty() ? name : path + "." + name;
  };
  // The parser reads as it is asked: what a node holds comes before its neighbour.
  std::function<void(const std::string &, llvm::yaml::Node *)> read = [&](const std::string &path,
                                                                          llvm::yaml::Node *node) {
    llvm::SmallString<64> storage;
    if (auto *scalar = llvm::dyn_cast_or_null<llvm::yaml::ScalarNode>(node))
      scalars[path] = scalar->getValue(storage).str();
    if (auto *list = llvm::dyn_cast_or_null<llvm::yaml::SequenceNode>(node)) {
      int index = 0;
      for (llvm::yaml::Node &item : *list)
        read(below(path, std::to_string(index++)), &item);
    }
    if (auto *map = llvm::dyn_cast_or_null<llvm::yaml::MappingNode>(node))
      for (llvm::yaml::KeyValueNode &entry : *map) {
        auto *key = llvm::dyn_cast_or_null<llvm::yaml::ScalarNode>(entry.getKey());
        read(below(path, key ? key->getValue(storage).str() : "?"), entry.getValue());
      }
  };
  read("", root);
}

TEST(Kubernetes, PodsAreRanksThatFindEachOther) {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  std::string path = "examples/distributed/kubernetes.yaml";
  if (sources)
    path = std::string(sources) + "/" + workspace + "/" + path;
  auto file = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(file) << path;
  llvm::SourceMgr manager;
  llvm::yaml::Stream stream((*file)->getBuffer(), manager);
  std::vector<Scalars> documents;
  for (llvm::yaml::Document &document : stream)
    collect(document.getRoot(), documents.emplace_back());
  ASSERT_FALSE(stream.failed());
  ASSERT_EQ(documents.size(), 2u);
  Scalars &service = documents[0], &job = documents[1];
  EXPECT_EQ(service["kind"], "Service");
  EXPECT_EQ(service["spec.clusterIP"], "None");
  EXPECT_EQ(job["kind"], "Job");
  EXPECT_EQ(job["apiVersion"], "batch/v1");
  EXPECT_EQ(job["spec.completionMode"], "Indexed");
  EXPECT_EQ(job["spec.completions"], job["spec.parallelism"]);
  EXPECT_EQ(service["spec.selector.job-name"], job["metadata.name"]);
  EXPECT_EQ(job["spec.template.spec.subdomain"], service["metadata.name"]);

  // A container's variables; what Kubernetes fills in stands for the last pod's number.
  std::map<std::string, std::string> variables;
  std::string env = "spec.template.spec.containers.0.env.";
  for (int i = 0; job.contains(env + std::to_string(i) + ".name"); ++i) {
    std::string entry = env + std::to_string(i);
    std::string field = job[entry + ".valueFrom.fieldRef.fieldPath"];
    if (!field.empty())
      EXPECT_EQ(field, "metadata.annotations['batch.kubernetes.io/job-completion-index']");
    variables[job[entry + ".name"]] = field.empty()
                                          ? job[entry + ".value"]
                                          : std::to_string(std::stoi(job["spec.completions"]) - 1);
  }
  auto world = weft::runtime::world_from_environment([&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(std::to_string(world->size), job["spec.completions"]);
  EXPECT_EQ(world->rank, world->size - 1);
  EXPECT_EQ(world->address, job["metadata.name"] + "-0." + service["metadata.name"]);
  EXPECT_GT(world->port, 0);
  EXPECT_GT(world->meeting_seconds(), world->timeout_seconds);
}

} // namespace
