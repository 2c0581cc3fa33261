// The services in front of a loop that does not answer any more.

#include "rendezvousd/server/services.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/v1/rendezvous.grpc.pb.h"

namespace muster::server {
namespace {

using namespace std::chrono_literals;

// A call that came in as the loop ended must not keep the daemon from ending.
TEST(Services, ACallThatNobodyAnswersDoesNotHoldTheShutdown) {
  Inbox inbox;
  const Gate open{true};
  RendezvousService rendezvous(&inbox, &open);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&rendezvous);
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  const auto stub = v1::Rendezvous::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 300ms);
  v1::KeyRequest request;
  request.mutable_id()->mutable_agent()->set_node("n1");
  request.mutable_id()->mutable_agent()->set_incarnation(1);
  request.set_key("k");
  v1::KeyAnswer answer;
  EXPECT_EQ(stub->Key(&context, request, &answer).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);

  auto ended = std::async(std::launch::async,
                          [&] { server->Shutdown(std::chrono::system_clock::now() + 100ms); });
  EXPECT_EQ(ended.wait_for(10s), std::future_status::ready);
  for (Input& input : inbox.TakeAll(SteadyNow())) {  // so that a failure ends as well
    if (auto* asked = std::get_if<KeyAsked>(&input)) asked->reply->Send({});
  }
}

}  // namespace
}  // namespace muster::server
