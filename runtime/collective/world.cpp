#include "runtime/collective/world.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

// Which variables of a starter hold what. What a starter does not have is null.
struct Starter {
  const char *name, *rank, *size, *local_rank, *local_size;
  const char *job[2]; // joined by a dot
};

constexpr Starter kStarters[] = {
    {"tools/launch.sh or torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", nullptr}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

class Reader {
public:
  explicit Reader(const Environment &environment) : environment_(environment) {}

  // Empty like missing: scripts pass variables on that may not be set.
  std::string text(const char *name) const {
    const char *value = name ? environment_(name) : nullptr;
    return value ? value : "";
  }

  // Of [least, most], or `otherwise` where the variable is not set.
  absl::StatusOr<int> number(const char *name, int least, int most, int otherwise) const {
    std::string value = text(name);
    if (value.empty())
      return otherwise;
    int result = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least ||
        result > most)
      return absl::InvalidArgumentError(
          absl::StrCat(name, "='", value, "': it must be a number of ", least, " to ", most));
    return result;
  }

  // Leaves `seconds` as they are where the variable is not set.
  absl::Status seconds(const char *name, double &seconds) const {
    std::string value = text(name);
    if (value.empty())
      return absl::OkStatus();
    char *end = nullptr;
    seconds = std::strtod(value.c_str(), &end);
    if (*end || !(seconds >= 0.1 && seconds <= 1e6))
      return absl::InvalidArgumentError(
          absl::StrCat(name, "='", value, "': it must be 0.1 to 1e6 seconds"));
    return absl::OkStatus();
  }

private:
  const Environment &environment_;
};

absl::Status read_timeouts(const Reader &reader, World &world) {
  absl::Status status = reader.seconds("WEFT_COLLECTIVE_TIMEOUT", world.timeout_seconds);
  status.Update(reader.seconds("WEFT_RENDEZVOUS_TIMEOUT", world.meeting_timeout_seconds));
  return status;
}

constexpr int kMostRanks = 1 << 20;

// The first name of a list as Slurm writes it: "node[01-04,07],login" gives "node01".
std::string first_node(const std::string &list) {
  size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return list.substr(0, comma);
  size_t end = list.find_first_of(",-]", bracket + 1);
  return end == std::string::npos
             ? ""
             : list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// Ports below 15000 belong to services, those from 32768 on the system gives out.
int port_of_job(int64_t job, int64_t step) {
  return static_cast<int>(15000 + (job * 7 + step) % 16384);
}

absl::Status read_meeting_place(const Reader &reader, const Starter &starter, World &world) {
  world.file = reader.text("WEFT_RENDEZVOUS");
  if (!world.file.empty())
    return absl::OkStatus();
  std::string address = reader.text("MASTER_ADDR");
  WEFT_ASSIGN_OR_RETURN(int port, reader.number("MASTER_PORT", 1, 65535, 0));
  world.address = address;
  world.port = port;
  // Behind this port torchrun's own store listens, of which the ranks are clients.
  if (world.port && reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    world.port = world.port < 65535 ? world.port + 1 : 1024;
  bool is_slurm = std::strcmp(starter.name, "srun") == 0;
  if (is_slurm && address.empty()) {
    std::string nodes = reader.text("SLURM_STEP_NODELIST");
    world.address = first_node(nodes.empty() ? reader.text("SLURM_JOB_NODELIST") : nodes);
  }
  if (is_slurm && !world.port && !reader.text("SLURM_JOB_ID").empty()) {
    absl::StatusOr<int> job = reader.number("SLURM_JOB_ID", 0, 1 << 30, 0);
    absl::StatusOr<int> step = reader.number("SLURM_STEP_ID", 0, 1 << 30, 0);
    if (!job.ok() || !step.ok())
      return job.ok() ? step.status() : job.status();
    world.port = port_of_job(*job, *step);
  }
  // Ranks of one machine need no address.
  if (world.address.empty() && world.local_size == world.size && world.port)
    world.address = "127.0.0.1";
  return absl::OkStatus();
}

} // namespace

absl::StatusOr<World> world_from_environment(const Environment &environment) {
  Reader reader(environment);
  World world;
  WEFT_RETURN_IF_ERROR(read_timeouts(reader, world));
  for (const Starter &starter : kStarters) {
    std::string rank = reader.text(starter.rank), size = reader.text(starter.size);
    if (rank.empty() && size.empty())
      continue;
    if (rank.empty() || size.empty()) {
      // A batch script of Slurm's has a size without a rank.
      const char *missing = rank.empty() ? starter.rank : starter.size;
      const char *there = rank.empty() ? starter.size : starter.rank;
      return absl::InvalidArgumentError(absl::StrCat(there, " is set, and ", missing,
                                                     " is not: start the ranks with ", starter.name,
                                                     ", which sets both, or unset ", there));
    }
    WEFT_ASSIGN_OR_RETURN(int ranks, reader.number(starter.size, 1, kMostRanks, 1));
    world.size = ranks;
    WEFT_ASSIGN_OR_RETURN(int own, reader.number(starter.rank, 0, kMostRanks, 0));
    if (own >= world.size)
      return absl::InvalidArgumentError(absl::StrCat(starter.rank, "=", own, " contradicts ",
                                                     starter.size, "=", world.size,
                                                     ": ranks count from 0"));
    world.rank = own;
    WEFT_ASSIGN_OR_RETURN(int local, reader.number(starter.local_rank, 0, world.size - 1, 0));
    world.local_rank = local;
    WEFT_ASSIGN_OR_RETURN(int local_size, reader.number(starter.local_size, 1, world.size, 1));
    world.local_size = local_size;
    if (!reader.text(starter.local_size).empty() && world.local_rank >= world.local_size)
      return absl::InvalidArgumentError(absl::StrCat(
          starter.local_rank, "=", world.local_rank, " contradicts ", starter.local_size, "=",
          world.local_size, ": ranks of a machine count from 0"));
    world.job = reader.text("WEFT_JOB_ID");
    if (world.job.empty())
      for (const char *part : starter.job)
        if (std::string text = reader.text(part); !text.empty())
          absl::StrAppend(&world.job, world.job.empty() ? "" : ".", text);
    world.starter = starter.name;
    if (world.size == 1)
      return world;
    WEFT_RETURN_IF_ERROR(read_meeting_place(reader, starter, world));
    return world;
  }
  return world;
}

absl::StatusOr<World> world_from_environment() {
  return world_from_environment([](const char *name) { return std::getenv(name); });
}

absl::StatusOr<World> world_of_threads(int rank, int size) {
  Environment environment = [](const char *name) {
    return std::getenv(name);
  };
  World world;
  WEFT_RETURN_IF_ERROR(read_timeouts(Reader(environment), world));
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  return world;
}

} // namespace weft::runtime
