// The first include of every public header: a compiler in an older mode reports one error here
// instead of one for each line that uses C++20.
#pragma once

#if !defined(__cpp_impl_coroutine) || !defined(__cpp_concepts)
#error "Keyway needs C++20: compile with -std=c++20 or later"
// g++ goes on after #error. It stops at an include that it does not find.
#include "stops here: Keyway needs C++20"
#endif
