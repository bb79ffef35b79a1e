// expect: TakesARecordOrABatch
#include "keyway/pipeline.h"

void run(keyway::Source& source) {
  keyway::Pipeline pipeline(source, {}, [](int number) { return number; });
}
