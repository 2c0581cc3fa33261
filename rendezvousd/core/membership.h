#pragma once

// Who is here: agents and their nodes, with the counts that the quorum is decided on.
//
// The counts are kept up to date node by node (Refresh), so that a join costs the same in a world
// of two and of ten thousand. Pure data: what follows from a change is the machine's business.

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/time.h"
#include "rendezvousd/core/answers.h"
#include "rendezvousd/protocol/config.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::core {

enum class Presence : std::uint8_t {
  kAttached,  // its stream is open
  kDetached,  // its stream ended, or the daemon was restarted: it may attend again
  kGone,      // dead with evidence, said goodbye, or given up
};

// What the host was asked to do with a dead node.
enum class Dropping : std::uint8_t { kNo, kAsked, kDone };

struct Node;

// The order that an agent was sent last on its present stream: sent again only when it changes.
struct SentOrder {
  bool any = false;
  protocol::OrderKind kind = protocol::OrderKind::kWait;
  protocol::Fence fence;
  std::int32_t exit_code = 0;
  bool operator==(const SentOrder&) const = default;
};

struct Agent {
  protocol::AgentId id;
  Node* node = nullptr;
  Presence presence = Presence::kGone;
  bool suspect = false;
  TimePoint since;    // of presence or suspicion
  std::string why;    // the reason of suspicion, or why it is gone
  std::string unfit;  // why no worker can start there, as it said in its hello
  std::int32_t unfit_code = 0;
  std::string left_out;      // why the last prepare went on without it; empty: it did not
  std::uint32_t misses = 0;  // prepares that it was left out of since a round ran
  std::string address;
  std::uint64_t last_number = 0;  // of its upward messages
  std::int32_t member = -1;       // its place in the roster; -1: a spare
  bool was_chosen = false;        // for the newest roster of its node
  std::int64_t last_step = -1;    // for views only
  std::vector<protocol::Incarnation> fenced;
  AnswerMemory answers;
  SentOrder sent;

  // May be given work.
  bool Well() const {
    return presence == Presence::kAttached && !suspect && left_out.empty() && unfit.empty();
  }
};

struct NodeOrder {
  std::uint32_t expected = std::numeric_limits<std::uint32_t>::max();  // place in config.nodes
  std::uint32_t slurm_index = 0;                                       // as in its hello
  std::uint64_t arrival = 0;
  auto operator<=>(const NodeOrder&) const = default;
};

struct Node {
  std::string name;
  NodeOrder order;
  bool expected = false;
  bool previous = false;       // member of the last round that ran
  std::uint32_t required = 1;  // agents that make it complete
  bool down = false;           // an agent died with it, and none came since
  bool lost = false;           // an agent died or left, and none came since
  bool slurm_down = false;     // the host's word
  Dropping dropping = Dropping::kNo;
  std::uint32_t agent_starts = 0;  // times that the host was asked for a new agent
  std::string refused;             // why its last hello was refused
  std::vector<Agent*> agents;

  // Derived by Refresh.
  std::uint32_t well = 0;
  std::uint32_t living = 0;
  std::uint32_t attached = 0;
  bool unfit = false;
  bool unreachable = false;
  bool candidate = false;
  bool missing_expected = false;
  bool missing_previous = false;

  // Cannot come back, as far as is known.
  bool Unreachable() const { return down || slurm_down || dropping != Dropping::kNo; }
};

class Membership {
 public:
  explicit Membership(const protocol::Config& config);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Agent* Find(const protocol::AgentKey& key);
  const Agent* Find(const protocol::AgentKey& key) const;
  // Only if this incarnation is the newest of its key.
  Agent* FindExact(const protocol::AgentId& id);
  const Agent* FindExact(const protocol::AgentId& id) const;
  Node* FindNode(const std::string& name);

  // A new key or incarnation: a fresh agent, attached. REQUIRES room (see Full).
  Agent& Attend(const protocol::AgentId& id, const protocol::Hello& hello, TimePoint now);
  // True if a new key has no place even after the gone agents outside the roster were forgotten.
  bool Full();
  // Recounts one node after any change to it or to an agent on it.
  void Refresh(Node& node);

  // Agents of the node that take part when a round is sealed: as many as required, those of the
  // newest roster first, then by key. REQUIRES node.candidate.
  std::vector<Agent*> Chosen(const Node& node);
  // In node order.
  std::vector<std::string> CandidateNames() const;

  std::uint32_t candidates() const { return candidates_; }
  std::uint32_t expected_missing() const { return expected_missing_; }
  std::uint32_t previous_missing() const { return previous_missing_; }
  // Nodes with an agent that said that no worker can start there; and, of the others, the
  // unreachable.
  std::uint32_t unfit() const { return unfit_; }
  std::uint32_t unreachable() const { return unreachable_; }
  std::uint32_t living() const { return living_; }
  std::uint32_t attached() const { return attached_; }
  std::map<protocol::AgentKey, Agent>& agents() { return agents_; }
  const std::map<protocol::AgentKey, Agent>& agents() const { return agents_; }
  std::map<std::string, Node>& nodes() { return nodes_; }
  const std::map<std::string, Node>& nodes() const { return nodes_; }

 private:
  Node& NodeOf(const std::string& name, const protocol::Hello& hello);

  std::map<protocol::AgentKey, Agent> agents_;
  std::map<std::string, Node> nodes_;
  std::uint64_t arrivals_ = 0;
  std::uint32_t candidates_ = 0;
  std::uint32_t expected_missing_ = 0;
  std::uint32_t previous_missing_ = 0;
  std::uint32_t unfit_ = 0;
  std::uint32_t unreachable_ = 0;
  std::uint32_t living_ = 0;
  std::uint32_t attached_ = 0;
};

}  // namespace muster::core
