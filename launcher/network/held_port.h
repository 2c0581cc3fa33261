#pragma once

// A TCP port that is bound and not listening: nobody else gets it by chance, and the server it is
// meant for takes it while it is held. Free ports are found by binding, never by asking.

#include <cstdint>
#include <string>

#include "common/status.h"

namespace muster::network {

// Which option the server sets that will take the port.
enum class Taker {
  kReuseAddress,  // SO_REUSEADDR: stores and coordinators
  kReusePort,     // SO_REUSEPORT too: NCCL's RAS, several processes of one user
};

class HeldPort {
 public:
  // A port that the kernel chooses at this numeric address.
  static Result<HeldPort> Bind(const std::string& address, Taker taker);
  ~HeldPort();
  HeldPort(HeldPort&& other) noexcept;
  HeldPort& operator=(HeldPort&& other) noexcept;

  std::uint16_t port() const { return port_; }

 private:
  HeldPort(int descriptor, std::uint16_t port) : descriptor_(descriptor), port_(port) {}
  int descriptor_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace muster::network
