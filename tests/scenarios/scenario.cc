#include "tests/scenarios/scenario.h"

#include <exception>

#include "common/text.h"
#include "tests/scenarios/player.h"

namespace muster::scenario {

std::string Play(std::string_view text) {
  Player player;
  std::size_t number = 0;
  std::string_view line;
  try {
    for (const std::string_view each : Split(text, '\n')) {
      ++number;
      line = each;
      player.Line(line);
    }
    player.CheckReplay();
  } catch (const Failure& failure) {
    return Concat("line ", number, " (", line, "): ", failure.text);
  } catch (const std::exception& error) {
    return Concat("line ", number, " (", line, "): ", error.what());
  }
  return {};
}

}  // namespace muster::scenario
