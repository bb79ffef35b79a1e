// expect: name the handle first
#include <string>

#include "keyway/group_executor.h"

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
keyway::Task<std::size_t> submit(keyway::GroupExecutor& executor, std::string text) {
  co_return (co_await executor.submit("key", [text] { return text.size(); })).value();
}
#else
#error Only g++ 12 must be told to name the handle first; other compilers take it.
#endif
