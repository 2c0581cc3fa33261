#include "tests/standin/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace muster::standin {
namespace {

struct Candidate {
  std::string name;
  Address address;
  bool is_loopback = false;
};

std::vector<Candidate> Candidates() {
  std::vector<Candidate> candidates;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return candidates;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const sa_family_t family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Candidate candidate;
    candidate.name = entry->ifa_name;
    candidate.is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    std::memcpy(&candidate.address.bytes, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    // An address of one link needs its interface's number at the other end too.
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&candidate.address.bytes.sin6_addr)) continue;
    candidates.push_back(candidate);
  }
  freeifaddrs(list);
  return candidates;
}

std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) names.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

bool IsWanted(const Candidate& candidate, const char* filter) {
  std::string_view text(filter);
  const bool excludes = text.starts_with('^');
  if (excludes) text.remove_prefix(1);
  const bool is_exact = text.starts_with('=');
  if (is_exact) text.remove_prefix(1);
  const auto names = SplitNames(text);
  const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return is_exact ? candidate.name == name : candidate.name.starts_with(name);
  });
  return named != excludes;
}

// 0 is best.
int Rank(const Candidate& candidate) {
  if (candidate.is_loopback) return 2;
  for (const char* prefix : {"docker", "virbr", "veth", "br-"}) {
    if (candidate.name.starts_with(prefix)) return 1;
  }
  return 0;
}

}  // namespace

std::string ToString(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  const bool is_six = address.family() == AF_INET6;
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address.bytes);
  if (is_six) {
    inet_ntop(AF_INET6, &address.bytes.sin6_addr, text, sizeof(text));
  } else {
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
  }
  return std::string(text) + "<" + std::to_string(ntohs(four->sin_port)) + ">";
}

std::optional<Address> ChooseAddress() {
  std::vector<Candidate> candidates = Candidates();
  const char* family = std::getenv("NCCL_SOCKET_FAMILY");
  if (family != nullptr) {
    const sa_family_t wanted = std::string_view(family) == "AF_INET6" ? AF_INET6 : AF_INET;
    std::erase_if(candidates, [&](const Candidate& c) { return c.address.family() != wanted; });
  }
  const char* filter = std::getenv("NCCL_SOCKET_IFNAME");
  if (filter != nullptr && *filter != '\0') {
    std::erase_if(candidates, [&](const Candidate& c) { return !IsWanted(c, filter); });
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    if (Rank(a) != Rank(b)) return Rank(a) < Rank(b);
    return a.address.family() == AF_INET && b.address.family() == AF_INET6;
  });
  if (candidates.empty()) return std::nullopt;
  Address address = candidates.front().address;
  reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = 0;
  return address;
}

}  // namespace muster::standin
