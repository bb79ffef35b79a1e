#include "jobs/output_printer.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace keyway::jobs {

namespace {

// What a pipe that has room takes without waiting.
constexpr std::size_t kPipePiece = 4096;

}  // namespace

// A text of the printer's own.
class OutputPrinter::Text final : public Printout {
 public:
  Text(OutputPrinter& printer, Stream stream, std::string_view text)
      : printer_(printer), stream_(stream), text_(text) {}

  std::uint64_t size(Stream stream) const override { return stream == stream_ ? text_.size() : 0; }
  std::string_view read(Stream, std::uint64_t offset, std::span<char> buffer) override {
    return std::string_view(text_).substr(offset, buffer.size());
  }
  void printed() override {
    printer_.waiting_text_ -= text_.size();
    delete this;
  }

 private:
  OutputPrinter& printer_;
  const Stream stream_;
  const std::string text_;
};

OutputPrinter::OutputPrinter(int out, int err, EventLoop* loop, Hooks hooks)
    : descriptors_{out, err}, loop_(loop), hooks_(std::move(hooks)) {
  for (std::size_t i = 0; i < descriptors_.size(); ++i) {
    struct stat status{};
    is_file_[i] = fstat(descriptors_[i], &status) == 0 && S_ISREG(status.st_mode);
  }
}

OutputPrinter::~OutputPrinter() {
  KEYWAY_CHECK(queue_.empty(), "output is left that was not printed");
}

void OutputPrinter::print(Printout& printout) {
  queue_.push_back(&printout);
  pump();
}

void OutputPrinter::print_text(Stream stream, std::string_view text) {
  if (text.empty()) return;
  waiting_text_ += text.size();
  print(*new Text(*this, stream, text));
}

void OutputPrinter::pump() {
  if (pumping_ || watched_ >= 0) return;
  pumping_ = true;
  const bool was_congested = congested();
  while (!queue_.empty()) {
    Printout& front = *queue_.front();
    if (!write_some(front, Stream::kOut) || !write_some(front, Stream::kErr)) break;
    queue_.pop_front();
    front.printed();
  }
  pumping_ = false;
  if (was_congested && !congested() && hooks_.drained) hooks_.drained();
}

// True if all of it is out; otherwise it goes on when there is room again.
bool OutputPrinter::write_some(Printout& printout, Stream stream) {
  const auto index = static_cast<std::size_t>(stream);
  std::uint64_t& done = printout.done_[index];
  const std::uint64_t size = printout.size(stream);
  if (done < size && !broken_[index] && hooks_.before_output) hooks_.before_output();
  while (done < size && !broken_[index]) {
    if (!is_file_[index] && would_block(descriptors_[index])) return false;
    const std::size_t most = is_file_[index] ? kPieceBytes : kPipePiece;
    const std::string_view piece = printout.read(stream, done, {buffer_.get(), most});
    if (piece.empty()) break;  // it cannot be read again: what is out is all there is
    const ssize_t written = write(descriptors_[index], piece.data(), piece.size());
    if (written >= 0) {
      done += static_cast<std::uint64_t>(written);
    } else if (errno != EINTR && errno != EAGAIN) {
      broken_[index] = true;
      if (stream == Stream::kOut && hooks_.failed) hooks_.failed(errno);
    }
  }
  return true;
}

// True if it must wait, and is called when it need not any more.
bool OutputPrinter::would_block(int descriptor) {
  if (loop_ == nullptr) return false;
  pollfd state{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (::poll(&state, 1, 0) != 0) return false;
  if (!loop_->watch(descriptor, *this, EPOLLOUT).ok()) return false;
  watched_ = descriptor;
  return true;
}

void OutputPrinter::give_up() {
  broken_ = {true, true};
  if (watched_ >= 0) ready(0);
}

void OutputPrinter::ready(std::uint32_t) {
  loop_->unwatch(std::exchange(watched_, -1), *this);
  pump();
}

}  // namespace keyway::jobs
