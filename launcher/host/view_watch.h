#pragma once

// Says on stderr what the run is doing, from one view after another: who is missing while a world
// forms, each round with its cause, and once what is lost. Silent while nothing changes and while
// all goes well within a second or two.
//
// Pure: views and times in, lines out. Used by the host.

#include <optional>
#include <string>
#include <vector>

#include "common/time.h"
#include "rendezvousd/protocol/messages.h"

namespace muster::host {

class ViewWatch {
 public:
  // Lines to be printed now.
  std::vector<std::string> Next(const protocol::RunView& view, TimePoint now);
  // True while somebody is suspected or missing: then Slurm is asked more often.
  bool trouble() const { return trouble_; }

 private:
  protocol::Fence round_;
  std::optional<TimePoint> waiting_since_;
  TimePoint said_at_{};
  std::string said_;
  bool trouble_ = false;
};

// One that the host gives itself.
protocol::Verdict MakeVerdict(protocol::Outcome outcome, int exit_code, protocol::Cause cause,
                              std::string text);
// "succeeded", or the one sentence of who failed first, where and why.
std::string VerdictSentence(const protocol::Verdict& verdict);

}  // namespace muster::host
