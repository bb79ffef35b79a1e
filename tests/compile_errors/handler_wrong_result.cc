// expect: ReturnsAnOutcomeOrNothing
#include "keyway/pipeline.h"

void run(keyway::Source& source) {
  keyway::Pipeline pipeline(source, {}, [](const keyway::Record&) { return 1; });
}
