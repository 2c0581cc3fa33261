#pragma once

// Host lists as Slurm writes them: "n[001-003,7],login" and back.
//
// The grammar is libslurm's (several brackets, padding kept per range, the last bracket varies
// fastest, duplicates and order kept), with two differences: a suffix after the last bracket
// ("n[1-2]-ib") is accepted, since sites name the interfaces of another fabric so, and whatever
// libslurm reads as garbage (an unclosed bracket) is refused. A list that is not understood never
// becomes fewer hosts: it is InvalidArgument, quoting the list and naming --hosts.
//
// Pure; any bytes may come in.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace muster {

// libslurm's own bound of one range (64 Ki); the largest machines have a sixth of it.
inline constexpr std::size_t kMaxHosts = 65536;
// DNS allows 253; a longer name is not a host.
inline constexpr std::size_t kMaxHostNameBytes = 255;
// Every one of kMaxHosts names written out at some 60 bytes.
inline constexpr std::size_t kMaxHostListBytes = std::size_t{4} << 20U;

// The hosts in the order of the list. The empty list has none; blanks at both ends are skipped.
Result<std::vector<std::string>> ExpandHostList(std::string_view list);

// A short list that ExpandHostList and libslurm read back to exactly these hosts in this order.
// Every host must be one that ExpandHostList can give.
std::string CompressHostList(const std::vector<std::string>& hosts);

}  // namespace muster
