// A server that records are POSTed to.
#include <coroutine>
#include <set>

#include "handlers/attempt_text.h"
#include "handlers/handlers.h"
#include "handlers/http_answer.h"
#include "handlers/http_client.h"
#include "handlers/json_check.h"

namespace keyway::run {

namespace {

constexpr Duration kTimeout = std::chrono::seconds(30);

class HttpHandler final : public Handler {
 public:
  HttpHandler(HttpUrl url, int connections, Duration timeout, Scheduler& scheduler)
      : timeout_(timeout), scheduler_(scheduler), client_(std::move(url), connections, timeout) {}

  Task<Handled> handle(Call call) override;
  void end(int) override { client_.cancel_all(); }
  std::string describe_running() const override;

 private:
  // One attempt. While it is out, a timer tells the scheduler that something is to come.
  class Post final : public HttpExchange, private Timer {
   public:
    Post(HttpHandler& owner, const Call& call) : owner_(owner), call_(call) {
      owner_.running_.insert(this);
      fire();
    }
    ~Post() {
      owner_.scheduler_.cancel_timer(*this);
      owner_.running_.erase(this);
    }

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) {
      coroutine_ = coroutine;
      context_ = &coroutine.promise().context();
      owner_.client_.start(*this);
    }
    void await_resume() const noexcept {}
    void done() noexcept override { resumption_.post(coroutine_, *context_); }

    std::string describe() const {
      return running_text(call_, 0, owner_.scheduler_.now() - start_);
    }

   private:
    void fire() override {
      owner_.scheduler_.add_timer(*this, owner_.scheduler_.now() + std::chrono::hours(1));
    }

    HttpHandler& owner_;
    const Call& call_;
    const TimePoint start_ = owner_.scheduler_.now();
    std::coroutine_handle<> coroutine_;
    const detail::TaskContext* context_ = nullptr;
    detail::Resumption resumption_;
  };

  std::string_view content_type(std::string_view value);

  const Duration timeout_;
  Scheduler& scheduler_;
  JsonCheck json_;
  std::set<const Post*> running_;
  HttpClient client_;
};

std::string_view HttpHandler::content_type(std::string_view value) {
  if (json_.is_json(value)) return "application/json";
  return is_utf8(value) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

Task<Handled> HttpHandler::handle(Call call) {
  Post post(*this, call);
  post.body = call.record->value;
  post.headers.emplace_back("Content-Type", content_type(post.body));
  if (!call.key.empty()) post.headers.emplace_back("Keyway-Key", header_value(call.key));
  post.headers.emplace_back("Keyway-Id", header_value(call.id));
  post.headers.emplace_back("Keyway-Attempt", std::to_string(call.attempt.number));
  post.headers.emplace_back("Idempotency-Key", header_value(call.unique_id));
  co_await post;
  Handled handled;
  handled.outcome = outcome_of(post, std::chrono::system_clock::now());
  handled.timed_out = post.timed_out;
  if (post.timed_out) handled.outcome = retry(timeout_text(timeout_));
  co_return handled;
}

std::string HttpHandler::describe_running() const {
  std::string text;
  for (const Post* post : running_) {
    if (!text.empty()) text += '\n';
    text += post->describe();
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Handler>> make_http_handler(const HttpOptions& options,
                                                   Scheduler& scheduler) {
  Result<HttpUrl> url = HttpUrl::parse(options.url);
  if (!url) return url.error();
  if (options.connections < 1) {
    return Error{ErrorCode::kInvalidArgument, "there must be a connection"};
  }
  const Duration timeout = options.timeout > Duration::zero() ? options.timeout : kTimeout;
  try {
    return std::unique_ptr<Handler>(
        new HttpHandler(std::move(*url), options.connections, timeout, scheduler));
  } catch (const Exception& exception) {
    return exception.error();
  }
}

}  // namespace keyway::run
