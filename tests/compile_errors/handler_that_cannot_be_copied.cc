// expect: HandlerCanBeCopied
#include <memory>

#include "keyway/pipeline.h"

void run(keyway::Source& source) {
  keyway::Pipeline pipeline(source, {},
                            [owned = std::make_unique<int>(1)](const keyway::Record&) {});
}
