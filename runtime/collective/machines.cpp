#include "runtime/collective/machines.h"

#include "absl/strings/str_cat.h"

namespace weft::runtime {

std::string TwoMachines::make() {
  const Words hold = {"unshare", "-nm", "sh", "-c",
                      "ip link set lo up && echo up && exec sleep 3000"};
  for (auto &machine : machines_) {
    machine = std::make_unique<Process>(hold, common_variables());
    if (!machine->read_until("up"))
      return absl::StrCat("no network namespaces can be made here: ", machine->text());
  }
  std::string why = run(0, {"ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable",
                            "netns", std::to_string(machines_[1]->id())});
  for (int machine : {0, 1})
    for (const Words &words :
         {Words{"ip", "address", "add", address(machine) + "/24", "dev", "cable"},
          // Used at once: nobody else has it.
          Words{"ip", "address", "add", ipv6_address(machine) + "/64", "dev", "cable", "nodad"},
          Words{"ip", "link", "set", "cable", "up"}})
      if (why.empty())
        why = run(machine, words);
  return why.empty() ? "" : absl::StrCat("no virtual networks can be made here: ", why);
}

Words TwoMachines::on(int machine, const Words &words) const {
  Words all = {"nsenter", "-n", "-m", "-t", std::to_string(machines_[machine]->id())};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::string TwoMachines::run(int machine, const Words &words) const {
  Process process(on(machine, words), common_variables());
  return process.finish() == 0 ? "" : absl::StrCat(words[0], ": ", process.text());
}

std::string TwoMachines::address(int machine) {
  return absl::StrCat("192.168.77.", machine + 1);
}

std::string TwoMachines::ipv6_address(int machine) {
  return absl::StrCat("fd77::", machine + 1);
}

void TwoMachines::add_ranks(Job &job, const Words &args, const std::vector<std::string> &named,
                            const std::string &timeout) const {
  for (int rank : {0, 1, 2}) {
    int machine = rank / 2;
    Variables more = {{"LOCAL_RANK", std::to_string(rank % 2)},
                      {"LOCAL_WORLD_SIZE", machine ? "1" : "2"},
                      {"WEFT_COLLECTIVE_TIMEOUT", timeout}};
    if (!named.empty()) {
      more["WEFT_RENDEZVOUS"] = "";
      more["MASTER_ADDR"] = named[static_cast<size_t>(machine)];
      more["MASTER_PORT"] = "15999";
    }
    job.add(rank, 3, args, more, on(machine, {}));
  }
}

} // namespace weft::runtime
