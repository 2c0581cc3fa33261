#include "launcher/agent/options.h"

#include <nlohmann/json.hpp>
#include <type_traits>

#include "common/text.h"

namespace muster::agent {
namespace {

using Json = nlohmann::json;

// Calls visit(name, member) for every member, so that writing and reading cannot differ.
template <typename Object, typename Visitor>
void VisitMembers(Object& options, Visitor&& visit) {
  visit("run_id", options.run_id);
  visit("run_name", options.run_name);
  visit("version", options.version);
  visit("attempt", options.attempt);
  visit("endpoints", options.endpoints);
  visit("certificate", options.certificate);
  visit("program", options.program);
  visit("workers_per_agent", options.workers_per_agent);
  visit("state_dir", options.state_dir);
  visit("state_token", options.state_token);
  visit("checkpoint_dir", options.checkpoint_dir);
  visit("local_dir", options.local_dir);
  visit("log_dir", options.log_dir);
  visit("working_dir", options.working_dir);
  visit("set_environment", options.set_environment);
  visit("keep_environment", options.keep_environment);
  visit("local", options.local);
  visit("beat_ns", options.beat);
  visit("lease_ns", options.lease);
  visit("stop_grace_ns", options.stop_grace);
  visit("form_timeout_ns", options.form_timeout);
  visit("show_all_up_to", options.show_all_up_to);
}

bool Take(const Json& in, std::string* out) {
  if (!in.is_string()) return false;
  *out = in.get<std::string>();
  return true;
}
bool Take(const Json& in, bool* out) {
  if (!in.is_boolean()) return false;
  *out = in.get<bool>();
  return true;
}
bool Take(const Json& in, std::uint32_t* out) {
  if (!in.is_number_unsigned()) return false;
  const auto value = in.get<std::uint64_t>();
  if (value > std::numeric_limits<std::uint32_t>::max()) return false;
  *out = static_cast<std::uint32_t>(value);
  return true;
}
bool Take(const Json& in, Duration* out) {
  if (!in.is_number_integer()) return false;
  if (in.is_number_unsigned() &&
      in.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return false;
  }
  *out = Duration(in.get<std::int64_t>());
  return *out >= Duration::zero();
}
bool Take(const Json& in, std::vector<std::string>* out) {
  if (!in.is_array()) return false;
  out->clear();
  for (const Json& item : in) {
    if (!item.is_string()) return false;
    out->push_back(item.get<std::string>());
  }
  return true;
}
bool Take(const Json& in, std::map<std::string, std::string>* out) {
  if (!in.is_object()) return false;
  out->clear();
  for (const auto& [name, value] : in.items()) {
    if (!value.is_string()) return false;
    (*out)[name] = value.get<std::string>();
  }
  return true;
}

Status Check(const Options& options) {
  if (options.run_id.empty()) return InvalidArgument("the agent's options name no run_id");
  if (options.endpoints.empty()) return InvalidArgument("the agent's options name no endpoint");
  if (options.workers_per_agent == 0) {
    return InvalidArgument("workers_per_agent is 0 in the agent's options; an agent has workers");
  }
  if (options.beat <= Duration::zero()) return InvalidArgument("beat_ns is not above 0");
  if (options.lease <= options.beat) {
    return InvalidArgument(Concat("lease ", FormatDuration(options.lease),
                                  " is not longer than beat ", FormatDuration(options.beat)));
  }
  return OkStatus();
}

}  // namespace

std::string ToJson(const Options& options) {
  Json out = Json::object();
  VisitMembers(options, [&out](const char* name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Duration>) {
      out[name] = member.count();
    } else {
      out[name] = member;
    }
  });
  // A program's arguments may be any bytes; those that are not UTF-8 are replaced, not thrown on.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Options> OptionsFromJson(std::string_view json) {
  const Json in = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!in.is_object()) return InvalidArgument("the agent's options are not a JSON object");
  Options options;
  Status status;
  VisitMembers(options, [&in, &status](const char* name, auto& member) {
    const auto found = in.find(name);
    if (found == in.end() || !status.ok()) return;
    if (!Take(*found, &member)) {
      status = InvalidArgument(Concat("the agent's option ", name, " has a wrong type or value"));
    }
  });
  MUSTER_RETURN_IF_ERROR(status);
  MUSTER_RETURN_IF_ERROR(Check(options));
  return options;
}

}  // namespace muster::agent
