#pragma once

// How rendezvousd ends, for the host that started it. A host starts the daemon again after a signal
// or kInternal, not after the others.

namespace muster::server::exit_code {

inline constexpr int kDone = 0;       // the run is closed and its verdict was taken
inline constexpr int kUsage = 64;     // command line or start options are wrong
inline constexpr int kJournal = 65;   // the journal is damaged or not this run's
inline constexpr int kInternal = 70;  // a broken promise of ours
inline constexpr int kSystem = 71;    // the system refuses: descriptors, TLS, listening socket
inline constexpr int kStopped = 143;  // SIGTERM or the end of the host, before the run's end

}  // namespace muster::server::exit_code
