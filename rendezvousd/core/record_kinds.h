#pragma once

// The closed list of EventRecord::kind: people and scripts match on these words.

namespace muster::core::record {

inline constexpr char kAgentJoined[] = "agent joined";
inline constexpr char kAgentReturned[] = "agent returned";  // same incarnation, a new stream
inline constexpr char kAgentFenced[] = "agent fenced";      // by a new incarnation
inline constexpr char kAgentRefused[] = "agent refused";
inline constexpr char kAgentSuspect[] = "agent suspect";
inline constexpr char kAgentBack[] = "agent back";
inline constexpr char kAgentDead[] = "agent dead";
inline constexpr char kAgentLeft[] = "agent left";
inline constexpr char kAgentLeftOut[] = "agent left out";  // not ready in time, or with a problem
inline constexpr char kLastCall[] = "last call";
inline constexpr char kRoundSealed[] = "round sealed";
inline constexpr char kRoundStarted[] = "round started";
inline constexpr char kRoundProgress[] = "round progress";  // the first step of a round
inline constexpr char kRoundEnded[] = "round ended";
inline constexpr char kWorkerDone[] = "worker done";
inline constexpr char kWorkerExited[] = "worker exited";
inline constexpr char kWorkerBroken[] = "worker broken";
inline constexpr char kWorkerRequest[] = "worker request";
inline constexpr char kOperatorRequest[] = "operator request";
inline constexpr char kHostFacts[] = "host facts";
inline constexpr char kWish[] = "wish";
inline constexpr char kWishAnswered[] = "wish answered";
inline constexpr char kDraining[] = "draining";
inline constexpr char kDaemonRestarted[] = "daemon restarted";
inline constexpr char kRunClosed[] = "run closed";

}  // namespace muster::core::record
