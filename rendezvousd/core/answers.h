#pragma once

// The answers that an agent was given, so that a repeated request is answered again and not done
// again. One for each agent incarnation; the oldest are forgotten above kRememberedAnswers.

#include <cstdint>
#include <map>

#include "common/status.h"

namespace muster::core {

struct Answer {
  Status status;
  std::int64_t number = 0;
};

class AnswerMemory {
 public:
  // `number` 0 is not repeatable and never kept.
  void Remember(std::uint64_t number, const Answer& answer);
  const Answer* Find(std::uint64_t number) const;
  std::size_t size() const { return answers_.size(); }
  void Clear() { answers_.clear(); }

 private:
  std::map<std::uint64_t, Answer> answers_;
};

}  // namespace muster::core
