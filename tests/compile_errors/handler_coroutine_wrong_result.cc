// expect: ReturnsAnOutcomeOrNothing
#include "keyway/pipeline.h"

void run(keyway::Source& source) {
  keyway::Pipeline pipeline(source, {},
                            [](const keyway::Record&) -> keyway::Task<bool> { co_return true; });
}
