#pragma once

// Every bound of the daemon with its reason. A request above one is answered with
// ResourceExhausted naming the limit; nothing is dropped silently.

#include <cstddef>
#include <cstdint>

namespace muster::core::limits {

// Slurm's largest clusters have some 10,000 nodes; several agents a node come only with srun
// --muster, which is meant for 1,000 tasks.
inline constexpr std::size_t kAgentsMax = 20'000;
// An NCCL id has 128 bytes, a Gloo address some hundred; user keys are names with a path in them.
inline constexpr std::size_t kKeyBytesMax = 1024;
// A model's configuration or a pickled object fits; a checkpoint belongs into a file.
inline constexpr std::size_t kValueBytesMax = 1u << 20;
// One Gloo mesh of 1,000 ranks publishes 1,000 keys; a hundred of them a round.
inline constexpr std::size_t kKeysMax = 200'000;
// All values together, so that a run cannot fill the batch host's memory.
inline constexpr std::size_t kValueBytesTotalMax = 512u << 20;
// Every rank of a large world waits for one key at once.
inline constexpr std::size_t kWaitersMax = 200'000;
inline constexpr std::size_t kBarriersMax = 10'000;
// Answers remembered for each agent, so that a repeated request is not done again. An agent has at
// most this many requests under way.
inline constexpr std::size_t kRememberedAnswers = 1024;
// Old incarnations of one agent that are recognised when they speak again. A supervisor that dies
// more often than this within one attempt has long spent its budget.
inline constexpr std::size_t kFencedIncarnations = 32;
// Seals without a round that runs. Each costs up to prepare_timeout, so this is most of an hour of
// nodes that come and go, and no world will come of it.
inline constexpr std::uint32_t kSealsInARowMax = 100;
// New agents on one node in one attempt. Whatever kills more than this there will not stop.
inline constexpr std::uint32_t kAgentStartsMax = 3;
// A wire message: a value of the largest size and its frame.
inline constexpr int kMessageBytesMax = 2 << 20;
// Text from a worker (last line, reason): enough for a Python exception's last line.
inline constexpr std::size_t kTextBytesMax = 4096;

}  // namespace muster::core::limits
